"""`keras-transformer ... --task generation`: write on from beginnings of texts."""

from pathlib import Path

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
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def _train_options(command):
    command.add_argument(
        "--data",
        metavar="FILE",
        help="texts to train on: .tsv or .csv with a header, or another file with one "
        "text a line (by default the bundled Korean film reviews)",
    )
    command.add_argument(
        "--test", metavar="FILE", help="texts to measure on at the end"
    )
    command.add_argument(
        "--recipe",
        default="gpt2",
        choices=["gpt2", "llama"],
        help="the model (default: %(default)s)",
    )
    command.add_argument(
        "--sample",
        metavar="PROMPT",
        action="append",
        default=[],
        help="write on from this after each epoch ('' begins a text; may be repeated)",
    )
    add_training_options(command, "generator", epochs=30, vocabulary_size=4000)
    _column(command)


def _predict_options(command):
    add_predict_options(command, "beginnings of texts, one a line")
    for name, (kind, text) in SETTINGS.items():
        option = f"--{name.replace('_', '-')}"
        command.add_argument(option, type=kind, metavar=kind.__name__, help=text)
    command.add_argument(
        "--strip-prompt", action="store_true", help="print only what is added"
    )
    command.add_argument(
        "--stream", action="store_true", help="print each piece as soon as it is there"
    )


def _evaluate_options(command):
    add_model_option(command)
    command.add_argument("data", metavar="FILE", help="texts, as for train")
    _column(command)


OPTIONS = {
    "train": _train_options,
    "predict": _predict_options,
    "evaluate": _evaluate_options,
}
# What `TextGenerator.generate` calls so too; what is not given is left to it.
SETTINGS = {
    "max_new_tokens": (int, "most tokens to add (by default 64)"),
    "min_new_tokens": (int, "do not end before so many tokens"),
    "temperature": (float, "draw at random; the lower, the likelier (0: greedy)"),
    "top_k": (int, "draw from so many likeliest tokens"),
    "top_p": (float, "draw from the likeliest tokens of this probability in all"),
    "repetition_penalty": (float, "above 1: repeat less"),
    "no_repeat_ngram_size": (int, "no run of so many tokens comes twice"),
    "seed": (int, "makes drawing reproducible"),
}


def _column(command):
    command.add_argument(
        "--text-column",
        default="document",
        help="column of texts in a .tsv or .csv file (%(default)s)",
    )
    add_file_options(command)


def train(options):
    """Train a text generator, and report on it."""
    from keras_transformer.tasks import TextGenerator

    texts, validation, test = _texts(options)

    def build():
        return TextGenerator.from_texts(
            texts, options.recipe, vocabulary_size=options.vocabulary_size
        )

    def fit(generator, checkpoint_folder):
        size = generator.tokenizer.vocabulary_size
        print(f"{len(texts)} texts to train on, {size} token ids")
        generator.fit(
            texts,
            validation_data=validation,
            epochs=options.epochs,
            seed=options.seed,
            sample_prompts=options.sample,
            checkpoint_folder=checkpoint_folder,
            keep_checkpoints=True,
        )

    generator, folder = train_task(options, TextGenerator, build, fit)
    _report(generator, test or validation, folder, "test" if test else "validation")


def predict(options):
    """Write on from beginnings of texts, one a line."""
    from keras_transformer.tasks import TextGenerator

    generator = TextGenerator.load(options.model)
    prompts = read_lines(options.texts, options.encoding)
    given = {name: getattr(options, name) for name in SETTINGS}
    settings = {name: value for name, value in given.items() if value is not None}
    settings["strip_prompt"] = options.strip_prompt
    if options.stream:
        for prompt in prompts:
            for piece in generator.stream(prompt, **settings):
                print(piece, end="", flush=True)
            print()
    else:
        with progress() as verbose:
            texts = generator.generate(prompts, verbose=verbose, **settings)
        for text in texts:
            print(text)
    explain_first(generator, prompts, options.explain)


def evaluate(options):
    """Measure how well a text generator foresees texts."""
    from keras_transformer.tasks import TextGenerator

    generator = TextGenerator.load(options.model)
    _print_scores(generator, _read(options.data, options))


def _texts(options):
    """Return the texts to train, to validate and to test on (or `None`)."""
    from keras_transformer.datasets import load_reviews, split

    if options.data is None:
        parts = load_reviews()
        say_what_was_read(parts.train)
        train, validation, test = (part["document"].tolist() for part in parts)
    else:
        texts, test = _read(options.data, options), None
        rows = split(texts, None, (0.95, 0.05), seed=options.seed)
        train, validation = ([texts[i] for i in part] for part in rows)
    return train, validation, _read(options.test, options) if options.test else test


def _read(path, options):
    from keras_transformer.datasets import read_reviews

    if options.format or Path(path).name.lower().endswith(TABLES):
        column, form = options.text_column, options.format
        settings = {"format": form, "encoding": options.encoding}
        frame = read_reviews(path, text_column=column, label_column=None, **settings)
        say_what_was_read(frame)
        texts = frame[column].tolist()
    else:
        lines = read_lines(path, options.encoding)
        texts = [line for line in lines if line.strip()]
    if not texts:
        raise ValueError(f"{str(path)!r} has no texts.")
    return texts


def _report(generator, texts, folder, part):
    print(f"\n{part}:", end=" ")
    _print_scores(generator, texts)
    step = max(1, len(texts) // SAMPLES)
    # A first word; of texts without spaces, their beginning.
    prompts = [text.split()[0][:10] for text in texts[::step][:SAMPLES]]
    for text in generator.generate(prompts, temperature=0.8, top_p=0.95, seed=0):
        print(f"    {text}")
    report_files(generator, texts, folder, "tokenizer.model")


def _print_scores(generator, texts):
    scores = generator.evaluate(texts)
    print(
        f"perplexity {scores['perplexity']:.2f} a token, "
        f"{scores['bits_per_character']:.3f} bits a character "
        f"({len(texts)} texts, {scores['tokens']} tokens)"
    )
