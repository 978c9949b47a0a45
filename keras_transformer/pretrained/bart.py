"""BART: settings and weight map."""

from types import MappingProxyType

from keras_transformer.models.seq2seq_transformer import Seq2SeqTransformer
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.family import Family, blocks, has
from keras_transformer.pretrained.weight_map import Rule, dense, norm, projections

# Settings of old configs whose other values are other models (mBART's, Pegasus').
OLD_SETTINGS = {
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "do_blenderbot_90_layernorm": False,
    "normalize_before": False,
    "normalize_embedding": True,
    "static_position_embeddings": False,
}


class Bart(Family):
    """A post-norm `Seq2SeqTransformer` with learned positions from row 2 on."""

    model_type = "bart"
    architectures = {
        "BartForConditionalGeneration": Seq2SeqTransformer,
        "BartModel": Seq2SeqTransformer,
    }
    prefix = "model."
    heads = ("lm_head.", "final_logits_bias")
    old_settings = OLD_SETTINGS
    generation = MappingProxyType({"forced_eos_token_id": 2})
    defaults = {"pad_token_id": 1, "decoder_start_token_id": 2, "eos_token_id": 2}

    def settings(self, config, model_class, checkpoint):
        for name, value in self.old_settings.items():
            config.require(name, value)
        config.require("tie_word_embeddings", True)
        for name in ("num_hidden_layers", "hidden_size", "num_attention_heads"):
            config.take(name)  # repeat others
        for part in ("activation_dropout", "encoder_layerdrop", "decoder_layerdrop"):
            config.warn_unless(part, 0.0)
        take = config.take
        return dict(
            vocabulary_size=take("vocab_size", 50265),
            num_layers=take("encoder_layers", 12),
            num_decoder_layers=take("decoder_layers", 12),
            embed_dim=take("d_model", 1024),
            num_heads=take("encoder_attention_heads", 16),
            num_decoder_heads=take("decoder_attention_heads", 16),
            dense_dim=take("encoder_ffn_dim", 4096),
            decoder_dense_dim=take("decoder_ffn_dim", 4096),
            count_padding=True,
            scale_embedding=take("scale_embedding", False),
            activation=config.activation("activation_function", "gelu"),
            layer_norm_epsilon=1e-5,
            dropout=take("dropout", 0.1),
            attention_dropout=take("attention_dropout", 0.0),
            head_bias=has(checkpoint, "final_logits_bias"),
            pad_id=take("pad_token_id", self.defaults["pad_token_id"]),
            start_id=take(
                "decoder_start_token_id", self.defaults["decoder_start_token_id"]
            ),
            stop_id=config.token_id("eos_token_id", self.defaults["eos_token_id"]),
            **self.position_settings(config),
        )

    def position_settings(self, config):
        """Return the settings of the embeddings."""
        config.require("extra_pos_embeddings", 2)
        return dict(
            positions="learned",
            sequence_length=config.take("max_position_embeddings", 1024),
            position_offset=2,
            embedding_norm=True,
        )

    def config(self, settings):
        return {
            "vocab_size": settings["vocabulary_size"],
            "encoder_layers": settings["num_layers"],
            "decoder_layers": settings["num_decoder_layers"],
            "d_model": settings["embed_dim"],
            "encoder_attention_heads": settings["num_heads"],
            "decoder_attention_heads": settings["num_decoder_heads"],
            "encoder_ffn_dim": settings["dense_dim"],
            "decoder_ffn_dim": settings["decoder_dense_dim"],
            "max_position_embeddings": settings["sequence_length"],
            "scale_embedding": settings["scale_embedding"],
            "activation_function": their_activation(settings["activation"]),
            "dropout": settings["dropout"],
            "attention_dropout": settings["attention_dropout"],
            "is_encoder_decoder": True,
            "pad_token_id": settings["pad_id"],
            "decoder_start_token_id": settings["start_id"],
            "eos_token_id": settings["stop_id"],
        }

    def rules(self, model):
        rules = self.table_rules(model)
        counts = {
            "encoder": model.num_layers,
            "decoder": model.num_decoder_layers or model.num_layers,
        }
        for stack, count in counts.items():
            ours = f"{stack}_embedding"
            if model.positions == "learned":
                rules.append(
                    Rule(
                        f"{stack}.embed_positions.weight",
                        f"{ours}/position_embedding/embeddings",
                    )
                )
            if model.embedding_norm:
                rules += norm(f"{stack}.layernorm_embedding", f"{ours}/embedding_norm")
            rules += blocks(count, _block(stack))
        if model.head_bias:
            rules.append(Rule("final_logits_bias", "head/bias", "row"))
        return rules

    def table_rules(self, model):
        """Return the rules of the token tables and of the head."""
        return [Rule("shared.weight", "encoder_embedding/token_embedding/embeddings")]

    def tied(self, model):
        names = ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
        return {f"{name}.weight": "shared.weight" for name in names}


def _block(stack):
    names = {"query": "q", "key": "k", "value": "v", "attention_output": "out"}
    parts = [("self_attention", "self_attn")]
    if stack == "decoder":
        parts.append(("cross_attention", "encoder_attn"))
    rules, theirs, ours = [], f"{stack}.layers.#", f"{stack}/block_#"
    for name, their_name in parts:
        names_of = {n: f"{theirs}.{their_name}.{x}_proj" for n, x in names.items()}
        rules += projections(names_of, f"{ours}/{name}")
        rules += norm(f"{theirs}.{their_name}_layer_norm", f"{ours}/{name}_norm")
    for name, their_name in (("intermediate", "fc1"), ("feed_forward_output", "fc2")):
        rules += dense(f"{theirs}.{their_name}", f"{ours}/feed_forward/{name}")
    return rules + norm(f"{theirs}.final_layer_norm", f"{ours}/feed_forward_norm")
