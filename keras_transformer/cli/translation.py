"""`keras-transformer ... --task translation`: sentences of another language."""

import sys

from keras_transformer.cli.files import (
    add_model_option,
    add_training_options,
    read_lines,
    train_task,
)

SAMPLES = 5


def _train_options(command):
    command.add_argument(
        "--data",
        metavar="FILE",
        help="sentence pairs to train on: .tsv or .csv with a header (by default the "
        "bundled Korean-English pairs)",
    )
    command.add_argument(
        "--test", metavar="FILE", help="sentence pairs to measure on at the end"
    )
    command.add_argument(
        "--recipe",
        default="transformer",
        choices=["transformer", "2014", "2015", "luong"],
        help="the model: the Transformer of 2017, or a recurrent one with a fixed "
        "vector (2014), additive (2015) or multiplicative attention (luong)",
    )
    add_training_options(command, "translator", epochs=30, vocabulary_size=4000)
    _columns(command)


def _predict_options(command):
    add_model_option(command)
    command.add_argument(
        "texts",
        metavar="FILE",
        nargs="?",
        help="sentences, one a line (by default standard input)",
    )
    _beams(command)
    command.add_argument(
        "--explain",
        metavar="PICTURE",
        help="draw the attention of the first translation (.png or .svg)",
    )


def _evaluate_options(command):
    add_model_option(command)
    command.add_argument("data", metavar="FILE", help=".tsv or .csv with a header")
    _beams(command)
    _columns(command)


OPTIONS = {
    "train": _train_options,
    "predict": _predict_options,
    "evaluate": _evaluate_options,
}


def _columns(command):
    command.add_argument(
        "--source-column", default="ko", help="column of sources (%(default)s)"
    )
    command.add_argument(
        "--target-column", default="en", help="column of targets (%(default)s)"
    )


def _beams(command):
    command.add_argument(
        "--num-beams",
        type=int,
        default=4,
        help="translations that are followed at the same time (%(default)s)",
    )


def train(options):
    """Train a translator, and report on it."""
    from keras_transformer.tasks import Translator

    pairs, validation, test = _pairs(options)

    def build():
        return Translator.from_pairs(
            pairs, options.recipe, vocabulary_size=options.vocabulary_size
        )

    def fit(translator, checkpoint_folder):
        size = translator.target_tokenizer.vocabulary_size
        print(f"{len(pairs)} pairs to train on, {size} token ids")
        translator.fit(
            pairs,
            validation_data=validation,
            epochs=options.epochs,
            seed=options.seed,
            checkpoint_folder=checkpoint_folder,
        )

    translator, folder = train_task(options, Translator, build, fit)
    _report(translator, pairs if test is None else test, folder)


def predict(options):
    """Translate sentences, one a line."""
    from keras_transformer.tasks import Translator

    translator = Translator.load(options.model)
    texts = read_lines(options.texts)
    shown = sys.stderr.isatty()
    for line in translator.translate(texts, options.num_beams, verbose=int(shown)):
        print(line)
    if options.explain:
        picture = _draw(translator, texts, options.explain)
        print(f"attention picture   {picture}", file=sys.stderr)


def evaluate(options):
    """Measure a translator on sentence pairs."""
    from keras_transformer.tasks import Translator

    translator = Translator.load(options.model)
    pairs = _read(options.data, options)
    _print_scores(translator.evaluate(pairs, options.num_beams, verbose=1))


def _pairs(options):
    """Return the pairs to train, to validate (or `None`) and to test on (or not)."""
    from keras_transformer.datasets import load_pairs

    if options.data is None:
        return load_pairs(options.source_column, options.target_column)
    test = _read(options.test, options) if options.test else None
    return _read(options.data, options), None, test


def _read(path, options):
    from keras_transformer.datasets import read_pairs

    columns = (options.source_column, options.target_column)
    return read_pairs(path, source_column=columns[0], target_column=columns[1])


def _report(translator, pairs, folder):
    try:
        _print_scores(translator.evaluate(pairs, verbose=1))
    except ImportError as error:
        print(f"\nBLEU and chrF: none: {error}")
    texts = pairs["source"].tolist()
    step = max(1, len(texts) // SAMPLES)
    samples = texts[::step][:SAMPLES]
    for text, translation in zip(samples, translator.translate(samples), strict=True):
        print(f"{text}\n    {translation}")
    print(f"\nmodel               {folder / 'model.keras'}")
    print(f"tokenizer           {folder / 'source.model'}")
    print(f"attention picture   {_draw(translator, texts, folder / 'attention.png')}")


def _print_scores(scores):
    print(f"\nBLEU {scores['bleu']:.2f}   {scores['bleu_signature']}")
    print(f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}\n")


def _draw(translator, texts, picture):
    """Draw the attention of the first text that has tokens, if that can be done."""
    text = next((text for text in texts if text.strip()), None)
    if text is None:
        return "none: no text has tokens"
    try:
        translator.explain(text).plot(path=picture)
    except (ImportError, ValueError) as error:
        return f"none: {error}"
    return picture
