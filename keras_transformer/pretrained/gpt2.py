"""GPT-2: settings and weight map."""

from keras_transformer.models.language_model import LanguageModel
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.family import Family, blocks
from keras_transformer.pretrained.weight_map import Rule, dense, norm


class Gpt2(Family):
    """A pre-norm `LanguageModel` with learned positions and a tied head.

    Its Conv1D kernels are (in, out); query, key and value are one kernel.
    """

    model_type = "gpt2"
    architectures = {"GPT2LMHeadModel": LanguageModel, "GPT2Model": LanguageModel}
    headless = ("GPT2Model",)
    prefix = "transformer."
    heads = ("lm_head.",)
    ignored = (r"h\.\d+\.attn\.(bias|masked_bias)",)  # causal masks
    block = [
        *norm("h.#.ln_1", "decoder/block_#/self_attention_norm"),
        Rule(
            "h.#.attn.c_attn.weight",
            tuple(
                f"decoder/block_#/self_attention/{name}/kernel"
                for name in ("query", "key", "value")
            ),
            "conv",
        ),
        Rule(
            "h.#.attn.c_attn.bias",
            tuple(
                f"decoder/block_#/self_attention/{name}/bias"
                for name in ("query", "key", "value")
            ),
            "flat",
        ),
        *dense(
            "h.#.attn.c_proj",
            "decoder/block_#/self_attention/attention_output",
            "conv_out",
        ),
        *norm("h.#.ln_2", "decoder/block_#/feed_forward_norm"),
        *dense("h.#.mlp.c_fc", "decoder/block_#/feed_forward/intermediate", "conv"),
        *dense(
            "h.#.mlp.c_proj",
            "decoder/block_#/feed_forward/feed_forward_output",
            "conv",
        ),
    ]

    def settings(self, config, model_class, checkpoint):
        width, dropout = config.take("n_embd", 768), config.take("resid_pdrop", 0.1)
        config.warn_unless("embd_pdrop", dropout)
        config.require("scale_attn_by_inverse_layer_idx", False)
        config.take("reorder_and_upcast_attn")  # the same numbers
        scaled = config.require("scale_attn_weights", True, False, optional=False)
        return dict(
            vocabulary_size=config.take("vocab_size", 50257),
            num_layers=config.take("n_layer", 12),
            embed_dim=width,
            num_heads=config.take("n_head", 12),
            dense_dim=config.take("n_inner", 4 * width),
            sequence_length=config.take("n_positions", 1024),
            normalize_first=True,
            activation=config.activation("activation_function", "gelu_new"),
            layer_norm_epsilon=config.take("layer_norm_epsilon", 1e-5),
            attention_scale=None if scaled else 1.0,
            dropout=dropout,
            attention_dropout=config.take("attn_pdrop", 0.1),
            tie_head=self.tie_head(config, checkpoint, True),
            pad_id=config.token_id("pad_token_id"),
            stop_id=config.token_id("eos_token_id", 50256),
        )

    def config(self, settings):
        return {
            "vocab_size": settings["vocabulary_size"],
            "n_layer": settings["num_layers"],
            "n_embd": settings["embed_dim"],
            "n_head": settings["num_heads"],
            "n_inner": settings["dense_dim"],
            "n_positions": settings["sequence_length"],
            "activation_function": their_activation(settings["activation"]),
            "layer_norm_epsilon": settings["layer_norm_epsilon"],
            "scale_attn_weights": settings["attention_scale"] is None,
            "resid_pdrop": settings["dropout"],
            "embd_pdrop": settings["dropout"],
            "attn_pdrop": settings["attention_dropout"],
            "tie_word_embeddings": settings["tie_head"],
            "pad_token_id": settings["pad_id"],
            "eos_token_id": settings["stop_id"],
        }

    def rules(self, model):
        rules = [
            Rule("wte.weight", "embedding/token_embedding/embeddings"),
            Rule("wpe.weight", "embedding/position_embedding/embeddings"),
            *blocks(model.num_layers, self.block),
            *norm("ln_f", "decoder/final_norm"),
        ]
        if not model.tie_head:
            rules += dense("lm_head", "head/projection", bias=False)
        return rules

    def tied(self, model):
        return {"lm_head.weight": "wte.weight"}
