"""T5, 1.0 and 1.1: settings and weight map."""

from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.models.seq2seq_transformer import Seq2SeqTransformer
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.family import Family, blocks, has
from keras_transformer.pretrained.weight_map import Rule, dense, norm, projections


class T5(Family):
    """A pre-norm `Seq2SeqTransformer`: RMS norms, relative biases, no scaling.

    1.0 scales the inputs of its tied head; 1.1 is gated and has a free head.
    """

    model_type = "t5"
    architectures = {
        "T5ForConditionalGeneration": Seq2SeqTransformer,
        "T5WithLMHeadModel": Seq2SeqTransformer,
    }
    renamed = {"T5WithLMHeadModel": "T5ForConditionalGeneration"}  # in 2020
    heads = ("lm_head.",)
    ignored = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_.*",)

    def settings(self, config, model_class, checkpoint):
        form = config.take("feed_forward_proj", "relu")
        activation = "gelu_new" if form == "gated-gelu" else form.removeprefix("gated-")
        config.take("n_positions")
        # Older configs say only whether the head is tied; then it is scaled.
        scaled = config.require("tie_word_embeddings", True, False)
        either = scaled, not scaled
        scaled = config.require("scale_decoder_outputs", *either, optional=False)
        width, heads = config.take("d_model", 512), config.take("num_heads", 8)
        common = dict(
            num_buckets=config.take("relative_attention_num_buckets", 32),
            max_distance=config.take("relative_attention_max_distance", 128),
            name="position_bias",
        )
        pad_id = config.take("pad_token_id", 0)

        def bias(bidirectional):
            return RelativePositionBias(heads, bidirectional=bidirectional, **common)

        return dict(
            vocabulary_size=config.take("vocab_size", 32128),
            num_layers=(layers := config.take("num_layers", 6)),
            num_decoder_layers=config.take("num_decoder_layers", layers),
            embed_dim=width,
            num_heads=heads,
            dense_dim=config.take("d_ff", 2048),
            key_dim=config.take("d_kv", 64),
            positions=None,
            sequence_length=None,
            count_padding=True,
            encoder_position_bias=bias(True),
            decoder_position_bias=bias(False),
            scale_embedding=False,
            attention_scale=1.0,
            norm="rms",
            normalize_first=True,
            use_bias=False,
            # What the form says can be said apart, and then counts.
            gated=config.take("is_gated_act", form.startswith("gated-")),
            activation=config.activation("dense_act_fn", activation),
            layer_norm_epsilon=config.take("layer_norm_epsilon", 1e-6),
            dropout=config.take("dropout_rate", 0.1),
            tie_head=not has(checkpoint, "lm_head.weight", not scaled)
            or (checkpoint is not None and _repeated(checkpoint)),
            head_scale=width**-0.5 if scaled else None,
            pad_id=pad_id,
            start_id=config.take("decoder_start_token_id", pad_id),
            stop_id=config.token_id("eos_token_id", 1),
        )

    def config(self, settings):
        bias = settings["encoder_position_bias"]["config"]
        form = activation = their_activation(settings["activation"])
        if settings["gated"]:
            form = "gated-gelu" if form == "gelu_new" else f"gated-{form}"
        return {
            "vocab_size": settings["vocabulary_size"],
            "num_layers": settings["num_layers"],
            "num_decoder_layers": settings["num_decoder_layers"],
            "d_model": settings["embed_dim"],
            "num_heads": settings["num_heads"],
            "d_ff": settings["dense_dim"],
            "d_kv": settings["key_dim"],
            "relative_attention_num_buckets": bias["num_buckets"],
            "relative_attention_max_distance": bias["max_distance"],
            "feed_forward_proj": form,
            "dense_act_fn": activation,
            "is_gated_act": settings["gated"],
            "layer_norm_epsilon": settings["layer_norm_epsilon"],
            "dropout_rate": settings["dropout"],
            "tie_word_embeddings": settings["head_scale"] is not None,
            "scale_decoder_outputs": settings["head_scale"] is not None,
            "is_encoder_decoder": True,
            "pad_token_id": settings["pad_id"],
            "decoder_start_token_id": settings["start_id"],
            "eos_token_id": settings["stop_id"],
        }

    def rules(self, model):
        gated, layers = model.encoder.gated, model.num_decoder_layers
        rules = [
            Rule("shared.weight", "encoder_embedding/token_embedding/embeddings"),
            *blocks(model.num_layers, _block("encoder", gated)),
            *blocks(layers or model.num_layers, _block("decoder", gated)),
        ]
        table = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        for part in ("encoder", "decoder"):
            bias = f"{part}/{getattr(model, part).position_bias.name}"
            ours = f"{bias}/relative_attention_bias/embeddings"
            rules += norm(f"{part}.final_layer_norm", f"{part}/final_norm", bias=False)
            rules.append(Rule(f"{part}.{table}", ours))
        if not model.tie_head:
            rules += dense("lm_head", "head/projection", bias=False)
        return rules

    def tied(self, model):
        names = ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
        return {f"{name}.weight": "shared.weight" for name in names}


def _repeated(checkpoint):
    return "shared.weight" in checkpoint.shapes and checkpoint.same(
        "lm_head.weight", "shared.weight"
    )


def _block(stack, gated):
    names = {"query": "q", "key": "k", "value": "v", "attention_output": "o"}
    parts = {"self_attention": "SelfAttention"}
    if stack == "decoder":
        parts["cross_attention"] = "EncDecAttention"
    parts["feed_forward"] = "DenseReluDense"
    rules, ours = [], f"{stack}/block_#"
    for index, (name, their_name) in enumerate(parts.items()):
        theirs = f"{stack}.block.#.layer.{index}"
        rules += norm(f"{theirs}.layer_norm", f"{ours}/{name}_norm", bias=False)
        if name != "feed_forward":
            names_of = {n: f"{theirs}.{their_name}.{x}" for n, x in names.items()}
            rules += projections(names_of, f"{ours}/{name}", bias=False)
    inner = {"gate": "wi_0", "intermediate": "wi_1" if gated else "wi"}
    for name, x in {**inner, "feed_forward_output": "wo"}.items():
        if name == "gate" and not gated:
            continue
        path = f"{ours}/feed_forward/{name}"
        rules += dense(f"{theirs}.{their_name}.{x}", path, bias=False)
    return rules
