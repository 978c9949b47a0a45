"""The benchmarks of section 1: attention holds at lengths where the vector fails."""

import keras
import lengths
import numpy as np
import pandas as pd
import pytest
import step_time


def test_words_of_a_sentence_are_its_words_and_digits():
    assert lengths.words("사과 삼백이십 개를 사고, 책 십이 권을 팔았다") == [
        *("사과", "삼", "백", "이", "십", "개를", "사고", ","),
        *("책", "십", "이", "권을", "팔았다"),
    ]
    assert lengths.words("bought 320 apples, sold 12 books") == [
        *("bought", "3", "2", "0", "apples", ",", "sold", "1", "2", "books"),
    ]


@pytest.mark.parametrize("name", lengths.TASKS)
def test_bins_go_to_twice_the_trained_length_and_hold_their_lengths(name):
    task = lengths.TASKS[name]
    assert task.bins[-1][1] == 2 * task.longest
    for first, last in task.bins:
        for source, _ in task.make(0, 20, first, last):
            length = len(source) if name == "reversal" else source.count(",") + 1
            assert first <= length <= last


def test_a_finished_run_is_taken_from_its_file(tmp_path, monkeypatch):
    made = []

    def train_and_test(task, name, seed, sizes):
        made.append((name, seed))
        exact = np.linspace(1, 0, len(task.bins)) / (1 + seed)
        known = (exact / 2).tolist()
        run = {"exact": exact.tolist(), "known": known}
        return {**run, "updates": 3, "seconds": 2.0}

    monkeypatch.setattr(lengths, "train_and_test", train_and_test)
    call = ("reversal", ["2014", "2015"], [0, 1], lengths.QUICK, tmp_path)
    runs = lengths.measure(*call)
    assert lengths.measure(*call) == runs
    assert made == [("2014", 0), ("2015", 0), ("2014", 1), ("2015", 1)]
    monkeypatch.setattr(lengths, "program_hash", lambda *_, **__: "another program")
    lengths.measure(*call)
    assert len(made) == 8
    task = lengths.TASKS["reversal"]
    table = lengths.curves(task, runs)
    assert list(table.index) == [last for _, last in task.bins]
    np.testing.assert_allclose(table["2014"], np.linspace(0.75, 0, 8))
    text = lengths.report("reversal", runs, lengths.QUICK, "lengths.py")
    assert "| 1-3 | 4-6 |" in text and "| 2015 | 0.75 (0.50-1.00) |" in text
    assert "| trained on | 0.38 |" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", lengths.MODELS)
def test_every_model_is_trained_and_tested(name):
    sizes = lengths.QUICK
    run = lengths.train_and_test(lengths.TASKS["sentences"], name, 0, sizes, verbose=0)
    assert run["updates"] == sizes.updates and np.isfinite(run["loss"])
    for name in ("exact", "known"):
        assert len(run[name]) == 6 and all(0 <= value <= 1 for value in run[name])
    assert run["known"][3:] == [0, 0, 0]  # longer than any that was trained on


def test_exponents_are_slopes_of_logarithms():
    n = np.array([16, 32, 64])
    table = pd.DataFrame({"line": 3.0 * n, "square": 0.1 * n**2}, index=n)
    np.testing.assert_allclose(step_time.exponents(table), [1, 2])


@pytest.mark.slow
def test_every_kind_of_translator_is_timed(tmp_path):
    sizes = lengths.Sizes(units=4)
    tables = step_time.measure([2, 4], 1, sizes, seconds=0.0)
    assert set(lengths.RECURRENT) < set(step_time.NAMES)
    for kind, table in tables.items():
        assert list(table) == list(step_time.NAMES) and list(table.index) == [2, 4]
        assert (table > 0).all(axis=None)
        step_time.draw(kind, table, tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 5000
    text = step_time.report(tables, sizes, "step_time.py")
    assert "| 2 | 4 | exponent | 2 to 4 |" in text
    for kind in step_time.KINDS:
        assert all(f"| {kind} | {name} |" in text for name in step_time.NAMES)


# Set before the runs: how much of each bin of trained lengths is right.
HOLDS, FALLS = 0.9, 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", lengths.TASKS)
def test_the_fixed_vector_falls_with_length_where_attention_stays(name, tmp_path):
    if keras.backend.backend() != "jax":
        pytest.skip("minutes on JAX, many more elsewhere")
    task = lengths.TASKS[name]
    runs = lengths.measure(name, ["2014", "2015"], [0], lengths.Sizes())
    table = lengths.curves(task, runs)
    lengths.draw(task, table, tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").stat().st_size > 5000
    trained = table.loc[: task.longest]
    assert (trained["2015"] >= HOLDS).all(), table
    assert trained["2014"].iloc[-1] <= FALLS * trained["2014"].iloc[0], table
    assert trained["2014"].iloc[-1] <= FALLS, table
