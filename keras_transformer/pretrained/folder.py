"""Models from folders in Hugging Face's format, and back."""

import inspect
import json
import tempfile
from pathlib import Path

import keras

from keras_transformer.pretrained.checkpoint import (
    INDEX,
    SINGLE,
    Checkpoint,
    index_of,
    write_tensors,
)
from keras_transformer.pretrained.config import Config
from keras_transformer.pretrained.families import describe, find_family
from keras_transformer.pretrained.generation_settings import (
    FILE,
    read_generation,
    write_generation,
)
from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.pretrained.weight_map import collect, fill

_FILES = ("*.json", SINGLE, "*.model", "*.spm", "vocab.txt", "merges.txt")
_FOLDERS = ("*/*",)  # other formats, and the same weights once more
_ROLES = ("bos", "eos")  # ids of the tokenizer that configs have too


def from_pretrained(
    folder_or_id,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    tokenizer: bool = True,
    generation: bool = True,
    name: str | None = None,
):
    """Load a model and its tokenizer from a checkpoint in Hugging Face's format.

    The families are those of `family_table()`. Whatever their settings say, the
    model is made of the same layers. Weights are read tensor by tensor from files
    mapped into memory. Nothing is guessed: a setting, a tensor or a shape that does
    not fit is an error, before a weight is read.

    Args:
        folder_or_id: A folder, or the id of a repository on the Hugging Face hub
            (`"google-bert/bert-base-uncased"`), which `huggingface_hub` downloads
            into its cache, and finds there offline.
        dtype: Dtype policy of the model, such as `"bfloat16"`, whatever the dtype
            of the file; Keras's own if not given.
        revision: Branch, tag or commit on the hub.
        tokenizer: Whether to load the tokenizer too.
        generation: Whether to take over how the checkpoint wants to be written with
            (`generation_config.json`, or what its config says of it), as
            `model.generation`: stop ids, forced and forbidden ids, beams, sampling.
        name: Name of the model.

    Returns:
        The model, and its tokenizer (`None` if not asked for).

    Raises:
        FileNotFoundError: No such folder, no weights, no tokenizer in it.
        ValueError: Another family, an unknown setting (of generation, too), a
            truncated file, tensors that do not fit, a tokenizer with more ids than
            the model.

    Example:

    >>> model, tokenizer = from_pretrained("my_folder")  # doctest: +SKIP
    """
    folder = _find(folder_or_id, revision)
    config = Config.read(folder)
    family, model_class = find_family(config)
    checkpoint = Checkpoint(folder, family.their_class(config))
    settings = family.settings(config, model_class, checkpoint)
    config.finish()
    if generation and "generation" in inspect.signature(model_class).parameters:
        settings = read_generation(folder, config.values, settings, family.generation)
    loaded = load_tokenizer(folder, config.values) if tokenizer else None
    if loaded is not None:
        _check_vocabulary(loaded, settings)
    model = model_class(**settings, dtype=dtype, name=name)
    model.build((None, None))
    fill(
        model,
        checkpoint,
        family.rules(model),
        rename=family.rename,
        tied=family.tied(model),
        ignored=family.ignored_of(model),
        zeros=family.zeros(model),
    )
    return model, loaded


def save_pretrained(model, tokenizer, folder):
    """Write a folder that transformers loads, and `from_pretrained`.

    It is written beside its place and moved there whole.

    Args:
        model: A built model of a family, loaded or made by hand.
        tokenizer: Its tokenizer, or `None`. A `SentencePieceTokenizer` becomes a
            `tokenizer.json` with the same ids.
        folder: The folder; it is made if there is none.

    Raises:
        ValueError: A model with settings that no family has, or settings of
            generation that transformers has not; a model that is quantized or has
            LoRA weights; a `SentencePieceTokenizer` of words, or one with symbols
            of the user's that is not unigram.
        FileExistsError: The folder holds files of these names already.

    Example:

    >>> save_pretrained(model, tokenizer, "my_folder")  # doctest: +SKIP
    """
    folder = Path(folder)
    _check_free(folder, ["config.json"])
    family, config = describe(model)
    tensors = collect(model, family.rules(model), family.zeros(model))
    architecture = config["architectures"][0]
    names = {name: family.file_name(name, architecture) for name in tensors}
    dtype = keras.backend.standardize_dtype(model.weights[0].dtype)
    # A null where nothing tells the id: transformers has ids of its own by default.
    ids = {f"{r}_token_id": getattr(tokenizer, f"{r}_id", None) for r in _ROLES}
    files = {"config.json": {**ids, **config, "torch_dtype": dtype}}
    if hasattr(model, "generation"):
        files[FILE] = write_generation(model, ids["bos_token_id"])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".saving-") as work:
        new = Path(work) / "new"
        new.mkdir()
        write_tensors(new, {names[name]: tensor for name, tensor in tensors.items()})
        if tokenizer is not None:
            reads_source = getattr(model, "start_id", None) is not None
            save_tokenizer(tokenizer, new, family.model_type, reads_source)
        for name, values in files.items():
            text = json.dumps(values, indent=2, ensure_ascii=False)
            (new / name).write_text(text + "\n", "utf-8")
        _move(new, folder)


def _check_free(folder, names):
    taken = sorted(name for name in names if (folder / name).exists())
    if taken or (folder.exists() and not folder.is_dir()):
        held = f"holds a model already ({taken[0]})" if taken else "is a file"
        raise FileExistsError(
            f"The folder {str(folder)!r} {held}. Nothing was written. Take another one."
        )


def _move(new, folder):
    """Move a whole folder to its place, or its files into one that is there."""
    if not folder.exists():
        new.rename(folder)
        return
    # The config comes last: with it the folder is a checkpoint.
    paths = sorted(new.iterdir(), key=lambda path: path.name == "config.json")
    _check_free(folder, [path.name for path in paths])
    for path in paths:
        path.rename(folder / path.name)


def _find(folder_or_id, revision):
    folder = Path(folder_or_id)
    if folder.is_dir():
        return folder
    parts = str(folder_or_id).split("/")
    if isinstance(folder_or_id, Path) or len(parts) > 2 or not all(parts):
        raise FileNotFoundError(f"There is no folder {str(folder_or_id)!r}.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            f"There is no folder {folder_or_id!r}. To look for it on the hub, install "
            "huggingface_hub: pip install 'keras-transformer-layers[pretrained]'."
        ) from error
    folder = Path(
        snapshot_download(
            folder_or_id,
            revision=revision,
            allow_patterns=_FILES,
            ignore_patterns=_FOLDERS,
        )
    )
    if (folder / INDEX).is_file() and not (folder / SINGLE).is_file():
        # The index says which files are the model's. A snapshot is named after its
        # commit: the branch may have moved on.
        files = sorted(set(index_of(folder).values()))
        snapshot_download(folder_or_id, revision=folder.name, allow_patterns=files)
    return folder


def _check_vocabulary(tokenizer, settings):
    """Refuse a tokenizer with more ids than a table, that of the sources included."""
    for name in ("vocabulary_size", "source_vocabulary_size"):
        size = settings.get(name)
        if size is not None and tokenizer.vocabulary_size > size:
            raise ValueError(
                f"The tokenizer has {tokenizer.vocabulary_size} ids, the model's "
                f"embedding only {size} ({name}). They belong to different models, or "
                "tokenizer_config.json names special tokens that the model has no row "
                "for."
            )
