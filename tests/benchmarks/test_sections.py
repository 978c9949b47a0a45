"""What the benchmarks write into RESULTS.md."""

import keras
import pytest
import recording
import timing

import layers


def times(ours, chapter):
    """Two rounds; the other rivals of this backend are slower than ours."""
    others = dict.fromkeys(layers.RIVALS, [0.024, 0.024])
    return {**others, "ours": [ours, ours], "chapter": [chapter, chapter]}


@pytest.fixture
def old():
    first, second = layers.ALL[0], layers.ALL[9]
    return {
        (case, work): times(0.02, chapter=ours)
        for case, ours in ((first, 0.018), (second, 0.02))
        for work in layers.WORKS
    }


def test_rows_below_the_noise_are_named(old):
    text = layers.report(old, ["by a test."])
    assert "Rows below 0.95, 2 of 4:" in text
    assert "- encoder, 128/4/256, 64 x 32, 0.0, train: chapter 0.90\n" in text
    (good,) = [row for row in old if row == (layers.ALL[9], "train")]
    assert "0 of 1:\n\nnone" in layers.slow_rows({good: old[good]}, ["chapter"])


def test_a_row_that_is_measured_again_replaces_its_row(old, tmp_path):
    file = tmp_path / "RESULTS.md"
    timing.write_section(file, "layers", layers.report(old, ["by a first run."]))
    section = timing.read_section(file, "layers")
    assert layers.read_results(section) == old
    again = {(layers.ALL[0], "train"): times(0.02, chapter=0.03)}
    results, runs = layers.merge(section, again, "by a second run.")
    assert list(results) == list(old) and runs == [
        "by a first run.",
        "Measured again (encoder, 128/4/256, 64 x 32, 0.0, train): by a second run.",
    ]
    assert results == {**old, **again}
    timing.write_section(file, "layers", layers.report(results, runs))
    section = timing.read_section(file, "layers")
    assert "| 0.0 | train | 20.0 | 1.50 (1.50-1.50) |" in section
    assert "Rows below 0.95, 1 of 4:" in section
    assert layers.merge(section, again, "x.")[1][:2] == runs
    assert layers.merge("", again, "x.") == (again, ["x."])


def test_what_recording_costs_is_a_section_of_its_backend():
    found = {
        name: [0.002 * factor] * 2
        for name, factor in zip(recording.PROCESSES, (1, 1.1, 1.05), strict=True)
    }
    text = recording.report({"predict": found}, "12 layers.", "recording.py")
    assert text.startswith(f"## Recording on {keras.backend.backend()}\n")
    row = "| predict | 2.00 | 1.05 (1.05-1.05) | 1.10 (1.10-1.10) |"
    assert row in text and text.endswith("12 layers.")
