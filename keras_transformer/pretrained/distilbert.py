"""DistilBERT: settings and weight map."""

from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.text_encoder import TextEncoder
from keras_transformer.pretrained.bert import Bert
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.weight_map import dense, norm, projections


class DistilBert(Bert):
    """BERT without segments and pooler, under other names."""

    model_type = "distilbert"
    architectures = {
        "DistilBertModel": TextEncoder,
        "DistilBertForMaskedLM": MaskedLanguageModel,
    }
    prefix = "distilbert."
    heads = ("vocab_",)
    ignored = (r"embeddings\.position_ids",)
    block = [
        *projections(
            {
                "query": "transformer.layer.#.attention.q_lin",
                "key": "transformer.layer.#.attention.k_lin",
                "value": "transformer.layer.#.attention.v_lin",
                "attention_output": "transformer.layer.#.attention.out_lin",
            },
            "encoder/block_#/self_attention",
        ),
        *norm(
            "transformer.layer.#.sa_layer_norm", "encoder/block_#/self_attention_norm"
        ),
        *dense(
            "transformer.layer.#.ffn.lin1", "encoder/block_#/feed_forward/intermediate"
        ),
        *dense(
            "transformer.layer.#.ffn.lin2",
            "encoder/block_#/feed_forward/feed_forward_output",
        ),
        *norm(
            "transformer.layer.#.output_layer_norm", "encoder/block_#/feed_forward_norm"
        ),
    ]
    head = {
        "dense": "vocab_transform",
        "norm": "vocab_layer_norm",
        "bias": "vocab_projector.bias",
        "decoder": "vocab_projector",
    }

    def settings(self, config, model_class, checkpoint):
        config.take("sinusoidal_pos_embds")  # how the table began; it is in the file
        config.take("eos_token_id")
        config.require("tie_weights_", True)  # in old files, beside the usual setting
        settings = dict(
            vocabulary_size=config.take("vocab_size", 30522),
            num_layers=config.take("n_layers", 6),
            embed_dim=config.take("dim", 768),
            num_heads=config.take("n_heads", 12),
            dense_dim=config.take("hidden_dim", 3072),
            sequence_length=config.take("max_position_embeddings", 512),
            count_padding=True,
            activation=config.activation("activation", "gelu"),
            layer_norm_epsilon=1e-12,
            dropout=config.take("dropout", 0.1),
            attention_dropout=config.take("attention_dropout", 0.1),
            pad_id=config.token_id("pad_token_id", 0),
        )
        return {**settings, **self.ends(config, model_class, checkpoint)}

    def config(self, settings):
        if settings.get("pooler"):
            raise ValueError("pooler=True")
        return {
            "vocab_size": settings["vocabulary_size"],
            "n_layers": settings["num_layers"],
            "dim": settings["embed_dim"],
            "n_heads": settings["num_heads"],
            "hidden_dim": settings["dense_dim"],
            "max_position_embeddings": settings["sequence_length"],
            "activation": their_activation(settings["activation"]),
            "dropout": settings["dropout"],
            "attention_dropout": settings["attention_dropout"],
            "pad_token_id": settings["pad_id"],
            "tie_word_embeddings": settings.get("tie_head", True),
        }
