"""The command line: train, predict and evaluate tasks on files of text."""

import argparse
import sys
from pathlib import Path

CLASSIFICATION = "classification"
SAMPLES = 5


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 0, or 2 with a message."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"keras-transformer: {error}", file=sys.stderr)
        return 2
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description="Train and use Transformers on your own texts.",
        epilog="The backend is chosen by the environment variable KERAS_BACKEND "
        "(tensorflow, jax or torch).",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = _command(commands, "train", _train, "train a model and save it in a folder")
    train.add_argument(
        "--data",
        metavar="FILE",
        help="reviews to train on: .tsv or .csv with a header (by default the bundled "
        "Korean film reviews)",
    )
    train.add_argument(
        "--test", metavar="FILE", help="labelled texts to measure on at the end"
    )
    train.add_argument(
        "--output",
        metavar="FOLDER",
        default="classifier",
        help="where the trained model goes (default: %(default)s)",
    )
    train.add_argument(
        "--recipe",
        default="default",
        choices=["default", "chapter", "sentence-embedding"],
        help="the model: our own, the chapter's (section 12), or the self-attentive "
        "sentence embedding of 2017 (section 2)",
    )
    train.add_argument(
        "--epochs", type=int, default=10, help="most epochs (default: %(default)s)"
    )
    train.add_argument(
        "--vocabulary-size", type=int, default=4000, help="token ids (%(default)s)"
    )
    train.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    train.add_argument(
        "--resume",
        action="store_true",
        help="go on with a training of the same command that was interrupted",
    )
    _columns(train)

    predict = _command(commands, "predict", _predict, "label texts, one a line")
    predict.add_argument("model", metavar="FOLDER", help="the folder that train wrote")
    predict.add_argument(
        "texts", metavar="FILE", nargs="?", help="texts (by default standard input)"
    )
    predict.add_argument(
        "--explain",
        metavar="PICTURE",
        help="draw the attention of the first text (.png or .svg)",
    )

    evaluate = _command(commands, "evaluate", _evaluate, "measure on labelled texts")
    evaluate.add_argument("model", metavar="FOLDER", help="the folder that train wrote")
    evaluate.add_argument("data", metavar="FILE", help=".tsv or .csv with a header")
    _columns(evaluate)
    return parser


def _command(commands, name, run, text):
    sentence = f"{text[0].upper()}{text[1:]}."
    command = commands.add_parser(name, help=text, description=sentence)
    command.add_argument(
        "--task",
        choices=[CLASSIFICATION],
        default=CLASSIFICATION,
        help="what the model does (default: %(default)s)",
    )
    command.set_defaults(run=run)
    return command


def _columns(command):
    command.add_argument(
        "--text-column", default="document", help="column of texts (%(default)s)"
    )
    command.add_argument(
        "--label-column", default="label", help="column of labels (%(default)s)"
    )


def _train(options):
    from keras_transformer.tasks import TextClassifier
    from keras_transformer.tasks.folder import check_free

    if options.epochs < 1:
        raise ValueError(f"--epochs must be at least 1. Received: {options.epochs}.")
    folder = check_free(options.output)
    train, validation, test = _reviews(options)
    working = folder.with_name(f".{folder.name}-training")
    if options.resume:
        classifier = TextClassifier.load(working / "task")
    else:
        _clear(working)
        classifier = TextClassifier.from_texts(
            *train, recipe=options.recipe, vocabulary_size=options.vocabulary_size
        )
        classifier.save(working / "task")
    size = classifier.tokenizer.vocabulary_size
    print(f"{len(train[0])} texts to train on, {size} token ids")
    classifier.fit(
        *train,
        validation_data=validation,
        epochs=options.epochs,
        seed=options.seed,
        checkpoint_folder=working / "checkpoint",
    )
    classifier.save(folder)
    _clear(working)
    _report(classifier, test or validation, folder, "test" if test else "validation")


def _reviews(options):
    """Return (texts, labels) to train, to validate and to test on."""
    from keras_transformer.datasets import load_reviews, split

    if options.data is None:
        return [_pair(part, "document", "label") for part in load_reviews()]
    texts, labels = _read(options.data, options)
    rows = split(texts, labels, (0.9, 0.1), seed=options.seed)
    parts = [([texts[i] for i in part], [labels[i] for i in part]) for part in rows]
    return *parts, _read(options.test, options) if options.test else None


def _read(path, options):
    from keras_transformer.datasets import read_reviews

    columns = (options.text_column, options.label_column)
    frame = read_reviews(path, text_column=columns[0], label_column=columns[1])
    return _pair(frame, *columns)


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
    print(f"\nmodel               {folder / 'model.keras'}")
    print(f"tokenizer           {folder / 'tokenizer.model'}")
    print(f"attention picture   {_draw(classifier, texts, folder / 'attention.png')}")


def _draw(classifier, texts, picture):
    """Draw the attention of the first text that has tokens, if that can be done."""
    text = next((text for text in texts if classifier.tokenizer.encode(text)), None)
    if text is None:
        return "none: no text has tokens"
    try:
        classifier.explain(text).plot(path=picture)
    except ImportError as error:
        return f"none: {error}"
    return picture


def _predict(options):
    from keras_transformer.tasks import TextClassifier

    classifier = TextClassifier.load(options.model)
    if options.texts is None:
        text = sys.stdin.read()
    else:
        text = Path(options.texts).read_text(encoding="utf-8-sig")
    texts = [line.removesuffix("\r") for line in text.split("\n")]
    texts = texts[:-1] if texts[-1] == "" else texts
    table = classifier.predict(texts, table=True)
    for row in table.itertuples():
        print(f"{row.label}\t{row.probability:.4f}\t{row.text}")
    if options.explain:
        picture = _draw(classifier, texts, options.explain)
        print(f"attention picture   {picture}", file=sys.stderr)


def _evaluate(options):
    from keras_transformer.tasks import TextClassifier

    classifier = TextClassifier.load(options.model)
    result = classifier.evaluate(*_read(options.data, options), verbose="auto")
    print(f"accuracy {result['accuracy']:.4f}\nF1 {result['f1']:.4f}")
    print(result["confusion"].to_string())


def _clear(folder):
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
