"""Training speed of the text classifier on the lengths of real reviews.

    KERAS_BACKEND=jax python tests/benchmarks/classifier_speed.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/classifier_speed.py

Times `fit` over the same NSMC rows for the chapter's model in several implementations,
which take turns, and writes real tokens a second into RESULTS.md. With --quick it goes
to stdout only, unless --output names a file.
"""

import argparse
import functools
import statistics
import warnings
from pathlib import Path

import keras
import numpy as np
import timing
from keras import layers
from rivals import RIVALS, Block, kt

from keras_transformer.datasets import BucketedDataset, load_nsmc
from keras_transformer.tokenizers import SentencePieceTokenizer

RESULTS = Path(__file__).with_name("RESULTS.md")
BLOCK = Block("encoder", 128, 4, 256, dropout=0.0)  # the chapter's sizes
VOCABULARY, LONGEST, BATCH = 8000, 80, 64
PADDED = f"chapter, padded to {LONGEST}"
TOLERANCE = 1e-4  # between the models' probabilities


def build(name: str) -> keras.Model:
    """The chapter's classifier around one rival's encoder block."""
    if name == "ours":
        sizes = BLOCK.embed_dim, BLOCK.num_heads, BLOCK.dense_dim
        model = kt.build_text_classifier(VOCABULARY, *sizes)
    else:
        ids = keras.Input((None,), dtype="int32")
        x = layers.Embedding(VOCABULARY, BLOCK.embed_dim, mask_zero=True)(ids)
        mask = ids != 0
        x = RIVALS[name][0](BLOCK, [x], [mask])
        x = layers.GlobalAveragePooling1D()(x, mask=mask)
        model = keras.Model(ids, layers.Dense(1, activation="sigmoid")(x))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def build_all() -> dict[str, keras.Model]:
    """Every model with the same weights, by name."""
    places = {"ours": "ours", PADDED: "chapter"}
    places |= {f"{name}, our buckets": name for name in RIVALS if name != "ours"}
    models = {label: build(name) for label, name in places.items()}
    embedding, *block, kernel, bias = models["ours"].get_weights()
    for label, name in places.items():
        arranged = RIVALS[name][1](BLOCK, block)
        models[label].set_weights([embedding, *arranged, kernel, bias])
    return models


def check_agreement(models: dict[str, keras.Model], ids: np.ndarray) -> None:
    """All must give the same probabilities, or their times compare nothing."""
    expected = models["ours"].predict_on_batch(ids)
    for name, model in models.items():
        difference = np.abs(model.predict_on_batch(ids) - expected).max()
        if not difference < TOLERANCE:
            raise ValueError(
                f"The outputs of {name} and ours differ by {difference}, more than "
                f"{TOLERANCE}."
            )


def make_data(rows: int, folder: Path | None):
    """The rows in our buckets, the same rows padded to one length, their tokens."""
    train, _ = load_nsmc(folder)
    train = train[: max(rows, 20_000)]
    tokenizer = SentencePieceTokenizer.train(train["document"], VOCABULARY)
    ids = tokenizer.encode(train["document"][:rows].tolist(), max_length=LONGEST)
    labels = train["label"][:rows].to_numpy()
    make = functools.partial(BucketedDataset, ids, labels, batch_size=BATCH)
    return make(), make(edges=[LONGEST]), sum(map(len, ids))


def measure(rows: int, rounds: int, folder: Path | None):
    """Times of one `fit` over all rows, and the number of real tokens in them."""
    buckets, padded, tokens = make_data(rows, folder)
    models = build_all()
    check_agreement(models, buckets[0][0])

    def fit(model, data):
        return lambda: model.fit(data, epochs=1, verbose=0)

    calls = {
        name: fit(model, padded if name == PADDED else buckets)
        for name, model in models.items()
    }
    return timing.time_in_turn(calls, rounds, seconds=1.0), tokens, buckets.edges


def report(times: timing.Times, tokens: int, edges, rows: int, command: str) -> str:
    """The section of RESULTS.md."""
    backend = keras.backend.backend()
    table = [
        [
            name,
            f"{tokens / statistics.median(values):,.0f}",
            timing.ratio_cell(times, name),
        ]
        for name, values in times.items()
    ]
    raw = [f"{name}: {timing.milliseconds(values)}" for name, values in times.items()]
    return "\n\n".join(
        [
            f"## Training the classifier on {backend}",
            timing.run_line(command, "keras-hub"),
            f"One `fit` with Adam over {rows:,} NSMC rows ({tokens:,} tokens of a "
            f"vocabulary of {VOCABULARY:,}), {BATCH} rows a batch; our buckets end at "
            f"{', '.join(map(str, edges))}. The chapter's model (128 wide, 4 heads, "
            "256 inside), the same weights in all, the same probabilities to "
            f"{TOLERANCE}. Real tokens: padding is not counted. The ratio is the "
            "rival's median time / ours (above 1: ours is faster); in brackets the "
            "lowest and highest ratio within one round.",
            timing.markdown_table(["model", "real tokens/s", "ratio"], table),
            timing.details("Raw times in ms, one a round", "\n".join(raw)),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="512 rows, 2 rounds")
    parser.add_argument("--rows", type=int, help="4096, or 512 with --quick")
    parser.add_argument("--rounds", type=int, help="6, or 2 with --quick")
    parser.add_argument("--data", type=Path, help="folder of NSMC (else downloaded)")
    parser.add_argument("--output", type=Path, help="RESULTS.md, or none with --quick")
    options = parser.parse_args()
    rows = options.rows or (512 if options.quick else 4096)
    rounds = options.rounds or (2 if options.quick else 6)
    output = options.output or (None if options.quick else RESULTS)
    command = f"tests/benchmarks/classifier_speed.py --rows {rows} --rounds {rounds}"
    # said by sublayers of the rivals; they get the right masks, as the check shows
    warnings.filterwarnings("ignore", message=".* passed an input with a mask")
    text = report(*measure(rows, rounds, options.data), rows, command)
    print(text)
    if output:
        timing.write_section(output, f"classifier {keras.backend.backend()}", text)


if __name__ == "__main__":
    main()
