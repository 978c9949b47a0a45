"""`keras-transformer ... --task translation`: sentences of another language."""

from keras_transformer.cli.files import (
    add_file_options,
    add_model_option,
    add_predict_options,
    add_training_options,
    explain_first,
    progress,
    read_lines,
    report_files,
    say_what_was_read,
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
    add_training_options(command, "translator", epochs=30, vocabulary_size=None)
    _columns(command)


def _predict_options(command):
    add_predict_options(command, "sentences, one a line")
    _beams(command)


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
    add_file_options(command)


def _beams(command):
    command.add_argument(
        "--num-beams",
        type=int,
        help="translations that are followed at the same time (by default the model's "
        "own number, or 4)",
    )


def train(options):
    """Train a translator, and report on it."""
    from keras_transformer.tasks import Translator

    pairs, validation, test, part = _pairs(options)

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
            keep_checkpoints=True,
        )

    translator, folder = train_task(options, Translator, build, fit)
    _report(translator, test, folder, part)


def predict(options):
    """Translate sentences, one a line."""
    from keras_transformer.tasks import Translator

    translator = Translator.load(options.model)
    texts = read_lines(options.texts, options.encoding)
    with progress() as verbose:
        found = translator.translate(texts, options.num_beams, verbose=verbose)
    for translation in found:
        print(_line(translation))
    explain_first(translator, texts, options.explain)


def evaluate(options):
    """Measure a translator on sentence pairs."""
    from keras_transformer.tasks import Translator

    translator = Translator.load(options.model)
    pairs = _read(options.data, options)
    with progress() as verbose:
        scores = translator.evaluate(pairs, options.num_beams, verbose=verbose)
    _print_scores(scores)


def _pairs(options):
    """Return the pairs to train, validate and report on, and what the last are."""
    from keras_transformer.datasets import load_pairs, split

    if options.data is None:
        train, validation, test = load_pairs(
            options.source_column, options.target_column
        )
        say_what_was_read(train)
    else:
        pairs, test = _read(options.data, options), None
        rows = split(pairs["source"], None, (0.95, 0.05), seed=options.seed)
        train, validation = (pairs.iloc[part] for part in rows)
    if options.test:
        test = _read(options.test, options)
    if test is None:
        return train, validation, validation, "validation"
    return train, validation, test, "test"


def _read(path, options):
    from keras_transformer.datasets import read_pairs

    names = ("source_column", "target_column", "format", "encoding")
    pairs = read_pairs(path, **{name: getattr(options, name) for name in names})
    say_what_was_read(pairs)
    if pairs.empty:
        raise ValueError(f"{str(path)!r} has no pairs.")
    return pairs


def _report(translator, pairs, folder, part):
    print(f"\n{part}, {len(pairs)} pairs:")
    try:
        with progress() as verbose:
            scores = translator.evaluate(pairs, verbose=verbose)
        _print_scores(scores)
    except ImportError as error:
        print(f"\nBLEU and chrF: none: {error}")
    texts = pairs["source"].tolist()
    step = max(1, len(texts) // SAMPLES)
    samples = texts[::step][:SAMPLES]
    for text, translation in zip(samples, translator.translate(samples), strict=True):
        print(f"{_line(text)}\n    {_line(translation)}")
    report_files(translator, texts, folder, "source.model")


def _line(text):
    """Return a text that may have line breaks as one line."""
    return " ".join(text.splitlines())


def _print_scores(scores):
    print(f"\nBLEU {scores['bleu']:.2f}   {scores['bleu_signature']}")
    print(f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}\n")
