"""`keras-transformer convert`: a task's folder to Hugging Face's format, and back."""

import json
from pathlib import Path

DESCRIPTION = """\
Turn a folder of one kind into a new folder of the other.

A task's folder (model.keras, task.json) becomes one in Hugging Face's format
(config.json, model.safetensors, tokenizer), which transformers loads too: that of a
text generator, or of a translator that has the shape of Marian, BART or T5. A
folder in Hugging Face's format becomes a task: a text generator (GPT-2, Llama) or a
translator (Marian, BART, T5), for predict and evaluate. Which way it goes, SOURCE says.
"""
EPILOG = """\
examples:
  keras-transformer convert generator for_transformers
  keras-transformer convert gpt2_folder generator
  keras-transformer predict --task generation generator prompts.txt

TARGET must not exist, or be empty; it is written whole or not at all. Needs:
pip install 'keras-transformer-layers[pretrained]'.
"""


def add_options(command):
    """Add what `convert` takes."""
    command.add_argument(
        "source",
        metavar="SOURCE",
        help="a task's folder; or a folder in Hugging Face's format, or the id of one "
        "on its hub",
    )
    command.add_argument("target", metavar="TARGET", help="the new folder")


def convert(options):
    """Convert one folder into another, and say what it became."""
    from keras_transformer.tasks.saving import finish_save

    source, target = Path(options.source), Path(options.target)
    finish_save(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(
            f"{str(target)!r} exists and is not empty. Nothing was written. Choose "
            "another TARGET."
        )
    if (source / "task.json").is_file():
        _to_checkpoint(source, target)
    elif source.exists() and not (source / "config.json").is_file():
        raise ValueError(
            f"{str(source)!r} is neither a saved task (it has no task.json) nor a "
            "checkpoint in Hugging Face's format (it has no config.json)."
        )
    else:
        _to_task(options.source, target)


def _to_checkpoint(source, target):
    from keras_transformer import tasks
    from keras_transformer.pretrained import save_pretrained
    from keras_transformer.tasks.saving import read_task

    name = read_task(source)["task"]
    if name not in ("TextGenerator", "Translator"):
        raise ValueError(
            f"{str(source)!r} holds a {name}. Only TextGenerator and Translator have "
            "models of a family that transformers has."
        )
    task = getattr(tasks, name).load(source)
    tokenizer = _translators(task) if name == "Translator" else _generators(task)
    save_pretrained(task.model, tokenizer, target)
    config = json.loads((target / "config.json").read_text("utf-8"))
    print(f"{name} -> {config['architectures'][0]} ({config['model_type']}): {target}")
    lost = ", ".join(f"{n}={getattr(task, n)!r}" for n in ("max_length", "recipe"))
    print(f"Without a place there, and left out: {lost}.")


def _generators(task):
    """Return the tokenizer, with a template that begins as the task does."""
    from keras_transformer.pretrained.tokenizer_files import with_template
    from keras_transformer.tasks.encoding import begins_with_bos
    from keras_transformer.tokenizers import SentencePieceTokenizer

    tokenizer = task.tokenizer
    if isinstance(tokenizer, SentencePieceTokenizer):
        tokenizer = with_template(tokenizer, bos=task.add_bos, eos=False)
    if begins_with_bos(tokenizer) != task.add_bos:
        raise ValueError(
            f"The task has add_bos={task.add_bos}, its tokenizer's template the "
            "contrary, and the folder would have the template alone. Make it with "
            f"TextGenerator(model, tokenizer, add_bos={not task.add_bos})."
        )
    return tokenizer


def _translators(task):
    if task.target_tokenizer is not task.source_tokenizer:
        raise ValueError(
            "The translator has a tokenizer for each language. A folder in Hugging "
            "Face's format has one here: train with share_vocabulary=True."
        )
    return task.source_tokenizer


def _to_task(source, target):
    from keras_transformer.models import LanguageModel, Seq2SeqTransformer
    from keras_transformer.pretrained import from_pretrained
    from keras_transformer.tasks import TextGenerator, Translator

    model, tokenizer = from_pretrained(source)
    if isinstance(model, LanguageModel):
        task, command = TextGenerator(model, tokenizer), "generation"
    elif isinstance(model, Seq2SeqTransformer):
        limit = min(256, model.position_limit or 256)
        task, command = Translator(model, tokenizer, max_length=limit), "translation"
    else:
        raise ValueError(
            f"A {type(model).__name__} writes no text, and no task is made of it. Use "
            f"it in Python: from_pretrained({source!r})."
        )
    task.save(target)
    print(f"{type(model).__name__} -> {type(task).__name__}: {target}")
    print(f"Use it: keras-transformer predict --task {command} {target}")
