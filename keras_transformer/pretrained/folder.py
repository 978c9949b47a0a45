"""Models from folders in Hugging Face's format, and back."""

import json
from pathlib import Path

import keras

from keras_transformer.pretrained.checkpoint import Checkpoint, write_tensors
from keras_transformer.pretrained.config import Config
from keras_transformer.pretrained.families import describe, find_family
from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.pretrained.weight_map import collect, fill

_FILES = ("*.json", "*.safetensors", "*.model", "*.spm", "vocab.txt", "merges.txt")


def from_pretrained(
    folder_or_id,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    tokenizer: bool = True,
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
        name: Name of the model.

    Returns:
        The model, and its tokenizer (`None` if not asked for).

    Raises:
        FileNotFoundError: No such folder, no weights, no tokenizer in it.
        ValueError: Another family, an unknown setting, a truncated file, tensors
            that do not fit, a tokenizer with more ids than the model.

    Example:

    >>> model, tokenizer = from_pretrained("my_folder")  # doctest: +SKIP
    """
    folder = _find(folder_or_id, revision)
    config = Config.read(folder)
    family, model_class = find_family(config)
    checkpoint = Checkpoint(folder)
    settings = family.settings(config, model_class, checkpoint)
    config.finish()
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

    Args:
        model: A built model of a family, loaded or made by hand.
        tokenizer: Its tokenizer, or `None`.
        folder: The folder; it is made if there is none.

    Raises:
        ValueError: A model with settings that no family has, or that is quantized
            or has LoRA weights.
        FileExistsError: The folder holds a checkpoint already.

    Example:

    >>> save_pretrained(model, tokenizer, "my_folder")  # doctest: +SKIP
    """
    folder = Path(folder)
    if (folder / "config.json").exists():
        raise FileExistsError(
            f"The folder {str(folder)!r} holds a model already. Take another one."
        )
    family, config = describe(model)
    tensors = collect(model, family.rules(model), family.zeros(model))
    architecture = config["architectures"][0]
    names = {name: family.file_name(name, architecture) for name in tensors}
    dtype = keras.backend.standardize_dtype(model.weights[0].dtype)
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder, {names[name]: tensor for name, tensor in tensors.items()})
    if tokenizer is not None:
        save_tokenizer(tokenizer, folder)
    text = json.dumps({**config, "torch_dtype": dtype}, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", "utf-8")


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
    return Path(
        snapshot_download(folder_or_id, revision=revision, allow_patterns=_FILES)
    )


def _check_vocabulary(tokenizer, settings):
    size = settings["vocabulary_size"]
    if tokenizer.vocabulary_size > size:
        raise ValueError(
            f"The tokenizer has {tokenizer.vocabulary_size} ids, the model's embedding "
            f"only {size}. They belong to different models."
        )
