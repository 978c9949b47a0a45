"""Llama: settings and weight map."""

from keras_transformer.layers.rotary_embedding import RotaryEmbedding
from keras_transformer.models.language_model import LanguageModel
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.family import Family, blocks
from keras_transformer.pretrained.weight_map import Rule, dense, norm, projections

_LLAMA3 = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


class Llama(Family):
    """A pre-norm `LanguageModel`: RMS norms, rotary positions, gated, no biases."""

    model_type = "llama"
    architectures = {
        "LlamaForCausalLM": LanguageModel,
        "LlamaModel": LanguageModel,
        "LLaMAForCausalLM": LanguageModel,
    }
    renamed = {"LLaMAForCausalLM": "LlamaForCausalLM"}  # the first conversions
    headless = ("LlamaModel",)
    prefix = "model."
    heads = ("lm_head.",)
    # Parts with biases; our blocks have them everywhere or nowhere, 0 where not here.
    biases = {"attention": False, "mlp": False}
    ignored = (r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)

    def settings(self, config, model_class, checkpoint):
        heads = config.take("num_attention_heads", 32)
        width = config.take("hidden_size", 4096)
        config.take("max_position_embeddings")  # rotary positions have no end
        self.biases = {
            part: config.require(f"{part}_bias", False, True)
            for part in ("attention", "mlp")
        }
        return dict(
            vocabulary_size=config.take("vocab_size", 32000),
            num_layers=config.take("num_hidden_layers", 32),
            embed_dim=width,
            num_heads=heads,
            dense_dim=config.take("intermediate_size", 11008),
            key_dim=config.take("head_dim", width // heads),
            num_key_value_heads=config.take("num_key_value_heads", heads),
            positions=None,
            sequence_length=None,
            rotary=_rotary(config),
            norm="rms",
            normalize_first=True,
            gated=True,
            activation=config.activation("hidden_act", "silu"),
            layer_norm_epsilon=config.take("rms_norm_eps", 1e-6),
            use_bias=any(self.biases.values()),
            # Theirs has dropout in attention alone; ours, if it has more, says so.
            dropout=config.take("hidden_dropout", 0.0),
            attention_dropout=config.take("attention_dropout", 0.0),
            tie_head=self.tie_head(config, checkpoint, False),
            pad_id=config.token_id("pad_token_id"),
            stop_id=config.token_id("eos_token_id", 2),
        )

    def config(self, settings):
        rotary = settings["rotary"]["config"]
        scaling = rotary["scaling"]
        if scaling is not None:
            scaling = {"rope_type": scaling["type"], **scaling}
            del scaling["type"]
        return {
            "vocab_size": settings["vocabulary_size"],
            "num_hidden_layers": settings["num_layers"],
            "hidden_size": settings["embed_dim"],
            "num_attention_heads": settings["num_heads"],
            "intermediate_size": settings["dense_dim"],
            "head_dim": settings["key_dim"],
            "num_key_value_heads": settings["num_key_value_heads"],
            "rope_theta": rotary["max_wavelength"],
            "rope_scaling": scaling,
            "hidden_act": their_activation(settings["activation"]),
            "rms_norm_eps": settings["layer_norm_epsilon"],
            "attention_bias": settings["use_bias"],
            "mlp_bias": settings["use_bias"],
            "attention_dropout": settings["attention_dropout"],
            **({"hidden_dropout": rate} if (rate := settings["dropout"]) else {}),
            "tie_word_embeddings": settings["tie_head"],
            "pad_token_id": settings["pad_id"],
            "eos_token_id": settings["stop_id"],
        }

    def rules(self, model):
        rules = [
            Rule("embed_tokens.weight", "embedding/token_embedding/embeddings"),
            *blocks(model.num_layers, _block(**self.biases)),
            *norm("norm", "decoder/final_norm", bias=False),
        ]
        if not model.tie_head:
            rules += dense("lm_head", "head/projection", bias=False)
        return rules

    def zeros(self, model):
        if not any(self.biases.values()):
            return []
        ruled = {path for rule in _block(**self.biases) for path in rule.paths}
        full = [p for rule in _block(True, True) for p in rule.paths if p not in ruled]
        return [
            path.replace("#", str(index))
            for index in range(model.num_layers)
            for path in full
        ]

    def tied(self, model):
        return {"lm_head.weight": "embed_tokens.weight"}


def _block(attention, mlp):
    ours, theirs = "decoder/block_#", "layers.#"
    names = {"query": "q", "key": "k", "value": "v", "attention_output": "o"}
    names_of = {n: f"{theirs}.self_attn.{x}_proj" for n, x in names.items()}
    inner = {"gate": "gate", "intermediate": "up", "feed_forward_output": "down"}
    parts = {"self_attention": "input", "feed_forward": "post_attention"}
    rules = []
    for name, x in parts.items():
        rules += norm(f"{theirs}.{x}_layernorm", f"{ours}/{name}_norm", bias=False)
    rules += projections(names_of, f"{ours}/self_attention", attention)
    for name, x in inner.items():
        rules += dense(
            f"{theirs}.mlp.{x}_proj", f"{ours}/feed_forward/{name}", bias=mlp
        )
    return rules


def _rotary(config):
    """Read the rotary settings, of this year's configs or of those before."""
    rope = dict(config.take("rope_parameters") or config.take("rope_scaling") or {})
    config.take("rope_scaling")
    theta = rope.pop("rope_theta", None) or config.take("rope_theta", 10000.0)
    config.take("rope_theta")
    kind = rope.pop("rope_type", None) or rope.pop("type", None) or "default"
    rope.pop("type", None)
    if rope.pop("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise ValueError("A partial rotary embedding is not known.")
    fields = {"default": (), "linear": ("factor",), "llama3": ("factor", *_LLAMA3)}
    if kind not in fields or set(rope) - set(fields[kind]):
        raise ValueError(
            f"The config has the rotary scaling {kind!r} with {sorted(rope)}. Known "
            f"are {fields}."
        )
    scaling = None if kind == "default" else {"type": kind, **rope}
    return RotaryEmbedding(max_wavelength=theta, scaling=scaling, name="rotary")
