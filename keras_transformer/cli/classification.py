"""`keras-transformer ... --task classification`: labels for texts."""

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
        help="reviews to train on: .tsv or .csv with a header (by default the bundled "
        "Korean film reviews)",
    )
    command.add_argument(
        "--test", metavar="FILE", help="labelled texts to measure on at the end"
    )
    command.add_argument(
        "--recipe",
        default="default",
        choices=["default", "chapter", "sentence-embedding"],
        help="the model: our own, the chapter's (section 12), or the self-attentive "
        "sentence embedding of 2017 (section 2)",
    )
    add_training_options(command, "classifier", epochs=10, vocabulary_size=4000)
    _columns(command)


def _predict_options(command):
    add_predict_options(command, "texts")


def _evaluate_options(command):
    add_model_option(command)
    command.add_argument("data", metavar="FILE", help=".tsv or .csv with a header")
    _columns(command)


OPTIONS = {
    "train": _train_options,
    "predict": _predict_options,
    "evaluate": _evaluate_options,
}


def _columns(command):
    command.add_argument(
        "--text-column", default="document", help="column of texts (%(default)s)"
    )
    command.add_argument(
        "--label-column", default="label", help="column of labels (%(default)s)"
    )
    add_file_options(command)


def train(options):
    """Train a classifier, and report on it."""
    from keras_transformer.tasks import TextClassifier

    texts, validation, test = _reviews(options)
    if options.test:
        _check_known(options.test, test[1], texts[1])

    def build():
        return TextClassifier.from_texts(
            *texts, recipe=options.recipe, vocabulary_size=options.vocabulary_size
        )

    def fit(classifier, checkpoint_folder):
        size = classifier.tokenizer.vocabulary_size
        print(f"{len(texts[0])} texts to train on, {size} token ids")
        classifier.fit(
            *texts,
            validation_data=validation,
            epochs=options.epochs,
            seed=options.seed,
            checkpoint_folder=checkpoint_folder,
            keep_checkpoints=True,
        )

    classifier, folder = train_task(options, TextClassifier, build, fit)
    _report(classifier, test or validation, folder, "test" if test else "validation")


def _reviews(options):
    """Return (texts, labels) to train, to validate and to test on."""
    from keras_transformer.datasets import load_reviews, split

    if options.data is None:
        parts = load_reviews()
        say_what_was_read(parts.train)
        train, validation, test = (_pair(part, "document", "label") for part in parts)
    else:
        texts, labels = _read(options.data, options)
        rows = split(texts, labels, (0.9, 0.1), seed=options.seed)
        train, validation = (
            ([texts[i] for i in part], [labels[i] for i in part]) for part in rows
        )
        test = None
    return train, validation, _read(options.test, options) if options.test else test


def _read(path, options):
    from keras_transformer.datasets import read_reviews

    columns = {name: getattr(options, name) for name in ("text_column", "label_column")}
    form = {"format": options.format, "encoding": options.encoding}
    frame = read_reviews(path, **form, **columns)
    say_what_was_read(frame)
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no texts.")
    return _pair(frame, **columns)


def _check_known(path, labels, known):
    """Refuse labels to test on that no text to train on has, before any training."""
    unknown = sorted(set(labels) - set(known))
    if unknown:
        raise ValueError(
            f"{path} has labels that no text to train on has: "
            f"{', '.join(map(str, unknown))}. Those have: "
            f"{', '.join(map(str, sorted(set(known))))}. Leave these texts out."
        )


def _pair(frame, text_column, label_column):
    return frame[text_column].tolist(), frame[label_column].tolist()


def _report(classifier, data, folder, part):
    texts, labels = data
    result = classifier.evaluate(texts, labels)
    print(f"\n{part} accuracy {result['accuracy']:.3f}, F1 {result['f1']:.3f}")
    print(result["confusion"].to_string(), "\n")
    step = max(1, len(texts) // SAMPLES)
    table = classifier.predict(texts[::step][:SAMPLES], table=True)
    for row, true in zip(table.itertuples(), labels[::step], strict=False):
        print(f"{row.label} ({row.probability:.2f}, true {true})  {row.text[:70]}")
    report_files(classifier, texts, folder, "tokenizer.model")


def predict(options):
    """Label texts, one a line."""
    from keras_transformer.tasks import TextClassifier

    classifier = TextClassifier.load(options.model)
    texts = read_lines(options.texts, options.encoding)
    with progress() as verbose:
        table = classifier.predict(texts, table=True, verbose=verbose)
    for row in table.itertuples():
        print(f"{row.label}\t{row.probability:.4f}\t{row.text}")
    explain_first(classifier, texts, options.explain)


def evaluate(options):
    """Measure a classifier on labelled texts."""
    from keras_transformer.tasks import TextClassifier

    classifier = TextClassifier.load(options.model)
    texts, labels = _read(options.data, options)
    with progress() as verbose:
        result = classifier.evaluate(texts, labels, verbose=verbose)
    print(f"accuracy {result['accuracy']:.4f}\nF1 {result['f1']:.4f}")
    print(result["confusion"].to_string())
