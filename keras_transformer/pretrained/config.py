"""`config.json`, read strictly: a setting that nobody knows is an error."""

import json
import warnings
from pathlib import Path

import keras

from keras_transformer.layers.feed_forward import get_activation

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# Settings that say nothing about the numbers of one forward pass: bookkeeping,
# training, generation (generation_settings.py).
BOOKKEEPING = frozenset(
    """_attn_implementation _attn_implementation_autoset
    _attn_implementation_internal _commit_hash _flash_attn_2_enabled _name_or_path
    _num_labels architectures attn_implementation author auto_map created_date dtype
    eos_token_ids finetuning_task gradient_checkpointing id2label initializer_range
    init_std initializer_factor is_composition is_encoder_decoder is_llama_config
    kobart_version label2id language license max_sequence_length model_max_length
    model_type n_ctx n_special name_or_path num_labels output_attentions
    output_hidden_states output_past predict_special_tokens problem_type return_dict
    task_specific_params tokenizer_class torch_dtype torchscript
    transformers.js_config transformers_version unk_token_id unsloth_fixed
    unsloth_version use_bfloat16 use_return_dict version use_cache bos_token_id
    cls_token_id sep_token_id mask_token_id chunk_size_feed_forward tf_legacy_loss
    save_step bad_words_ids begin_suppress_tokens diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty
    forced_bos_token_id forced_eos_token_id force_bos_token_to_be_generated
    length_penalty max_length min_length no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_scores prefix remove_invalid_values
    repetition_penalty return_dict_in_generate suppress_tokens temperature top_k
    top_p typical_p classifier_dropout classif_dropout qa_dropout
    seq_classif_dropout summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj directionality
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type pretraining_tp
    """.split()
)
# Settings that must have the value which this library computes.
FIXED = {
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "is_decoder": (False,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "rope_interleaved": (False,),
}


class Config:
    """The settings of a checkpoint; each must be taken, or be known to be idle.

    Args:
        values: The content of `config.json`.
    """

    def __init__(self, values: dict):
        self.values = values
        self._taken = set()

    @classmethod
    def read(cls, folder):
        """Read `config.json` of a folder."""
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise FileNotFoundError(f"The folder {str(folder)!r} has no config.json.")
        return cls(read_json(path))

    def take(self, name: str, default=None):
        """Return a setting, or if it is not set the default of transformers.

        A null says that a setting is not set, as its absence does.
        """
        self._taken.add(name)
        value = self.values.get(name)
        return default if value is None else value

    def require(self, name: str, *allowed, optional: bool = True):
        """Refuse a setting with a value that is none of `allowed`.

        Args:
            name: The setting.
            *allowed: The values, that of a setting which is not set first.
            optional: Whether a null says that it is not set. Older transformers take
                a null for false: no matter where the tensors tell which it is.
        """
        value = self.take(name, allowed[0])
        if not optional and name in self.values:
            value = self.values[name]
        if value not in allowed:
            raise ValueError(
                f"The config has {name}={value!r}, which this library does not "
                f"compute; it has {' or '.join(map(repr, allowed))}."
            )
        return value

    def warn_unless(self, name: str, value):
        """Warn of a setting of training that these layers do not have.

        Args:
            name: The setting.
            value: The value that they compute; also where the config says nothing.
        """
        found = self.take(name, value)
        if found != value:
            warnings.warn(
                f"The config has {name}={found!r}. These layers have no such dropout: "
                f"training is without it ({name}={value!r}), and so is a config that "
                "is saved. Outputs are not touched.",
                stacklevel=4,
            )

    def activation(self, name: str, default: str) -> str:
        """Return our name of an activation."""
        value = self.take(name, default)
        if value not in ACTIVATIONS:
            raise ValueError(
                f"The config has {name}={value!r}, an activation that is not known. "
                f"Known are {', '.join(ACTIVATIONS)}."
            )
        return ACTIVATIONS[value]

    def token_id(self, name: str, default=None) -> int | None:
        """Return an id, `None` if the config says so; the first of several."""
        self._taken.add(name)
        value = self.values.get(name, default)
        value = value[0] if isinstance(value, list) else value
        return None if value is None or value < 0 else value

    def finish(self):
        """Refuse settings that nobody took."""
        for name, allowed in FIXED.items():
            self.require(name, *allowed)
        given = {name for name, value in self.values.items() if value is not None}
        unknown = sorted(given - self._taken - BOOKKEEPING)
        if unknown:
            shown = ", ".join(f"{name}={self.values[name]!r}" for name in unknown)
            raise ValueError(
                f"The config has settings that are not known: {shown}. They may change "
                "what the model computes, so it is not loaded. Remove them from "
                "config.json if you know that they do not."
            )


def read_json(path) -> dict:
    """Read a file that holds an object."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{str(path)!r} must hold an object.")
    return values


def their_activation(activation) -> str:
    """Return transformers' name of one of our activations."""
    if isinstance(activation, dict) or activation is None:
        activation = keras.saving.deserialize_keras_object(activation)
    function = get_activation(activation)
    for theirs, ours in ACTIVATIONS.items():
        if get_activation(ours) is function:
            return theirs
    raise ValueError(f"transformers has no name for the activation {activation!r}.")
