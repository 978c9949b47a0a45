"""BERT, also that of sentence embeddings: settings and weight map."""

import re

from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.text_encoder import TextEncoder
from keras_transformer.pretrained.config import their_activation
from keras_transformer.pretrained.family import Family, blocks, has
from keras_transformer.pretrained.weight_map import Rule, dense, norm, projections


class Bert(Family):
    """`BertModel` is a `TextEncoder`, with its head a `MaskedLanguageModel`."""

    model_type = "bert"
    architectures = {
        "BertModel": TextEncoder,
        "BertForMaskedLM": MaskedLanguageModel,
        "BertForPreTraining": MaskedLanguageModel,
    }
    prefix = "bert."
    heads = ("cls.",)
    renames = ((r"LayerNorm\.gamma$", "LayerNorm.weight"),
               (r"LayerNorm\.beta$", "LayerNorm.bias"))  # fmt: skip
    ignored = (r"embeddings\.position_ids", r"cls\.seq_relationship\..*")
    block = [
        *projections(
            {
                "query": "encoder.layer.#.attention.self.query",
                "key": "encoder.layer.#.attention.self.key",
                "value": "encoder.layer.#.attention.self.value",
                "attention_output": "encoder.layer.#.attention.output.dense",
            },
            "encoder/block_#/self_attention",
        ),
        *norm(
            "encoder.layer.#.attention.output.LayerNorm",
            "encoder/block_#/self_attention_norm",
        ),
        *dense(
            "encoder.layer.#.intermediate.dense",
            "encoder/block_#/feed_forward/intermediate",
        ),
        *dense(
            "encoder.layer.#.output.dense",
            "encoder/block_#/feed_forward/feed_forward_output",
        ),
        *norm("encoder.layer.#.output.LayerNorm", "encoder/block_#/feed_forward_norm"),
    ]
    head = {
        "dense": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
        "decoder": "cls.predictions.decoder",
    }

    def settings(self, config, model_class, checkpoint):
        settings = dict(
            vocabulary_size=config.take("vocab_size", 30522),
            num_layers=config.take("num_hidden_layers", 12),
            embed_dim=config.take("hidden_size", 768),
            num_heads=config.take("num_attention_heads", 12),
            dense_dim=config.take("intermediate_size", 3072),
            sequence_length=config.take("max_position_embeddings", 512),
            num_segments=config.take("type_vocab_size", 2),
            count_padding=True,
            activation=config.activation("hidden_act", "gelu"),
            layer_norm_epsilon=config.take("layer_norm_eps", 1e-12),
            dropout=config.take("hidden_dropout_prob", 0.1),
            attention_dropout=config.take("attention_probs_dropout_prob", 0.1),
            pad_id=config.token_id("pad_token_id", 0),
        )
        config.take("eos_token_id")
        return {**settings, **self.ends(config, model_class, checkpoint)}

    def ends(self, config, model_class, checkpoint):
        """Return what the end of the model is: a pooler, a tied head."""
        tied = config.require("tie_word_embeddings", True, False)
        if model_class is TextEncoder:
            return {"pooler": has(checkpoint, "pooler.dense.weight")}
        return {"tie_head": tied}

    def config(self, settings):
        if not settings["num_segments"]:
            raise ValueError("num_segments=0")
        return {
            "vocab_size": settings["vocabulary_size"],
            "num_hidden_layers": settings["num_layers"],
            "hidden_size": settings["embed_dim"],
            "num_attention_heads": settings["num_heads"],
            "intermediate_size": settings["dense_dim"],
            "max_position_embeddings": settings["sequence_length"],
            "type_vocab_size": settings["num_segments"],
            "hidden_act": their_activation(settings["activation"]),
            "layer_norm_eps": settings["layer_norm_epsilon"],
            "hidden_dropout_prob": settings["dropout"],
            "attention_probs_dropout_prob": settings["attention_dropout"],
            "pad_token_id": settings["pad_id"],
            "tie_word_embeddings": settings.get("tie_head", True),
        }

    def rules(self, model):
        rules = self.embedding_rules(model) + blocks(model.num_layers, self.block)
        if isinstance(model, MaskedLanguageModel):
            rules += [
                *dense(self.head["dense"], "head_dense"),
                *norm(self.head["norm"], "head_norm"),
                Rule(self.bias_name(model), "head/bias"),
            ]
            if not model.tie_head:
                rules += dense(self.head["decoder"], "head/projection", bias=False)
        elif model.pooler:
            rules += dense("pooler.dense", "pooler")
        return rules

    def bias_name(self, model):
        """Return the name of the head's bias: a free head has its own."""
        return self.head["bias"] if model.tie_head else f"{self.head['decoder']}.bias"

    def embedding_rules(self, model):
        """Return the rules of the tables and their norm."""
        tables = {"word": "token", "position": "position"}
        if model.num_segments:
            tables["token_type"] = "segment"
        return [
            *(
                Rule(
                    f"embeddings.{theirs}_embeddings.weight",
                    f"embedding/{ours}_embedding/embeddings",
                )
                for theirs, ours in tables.items()
            ),
            *norm("embeddings.LayerNorm", "embedding/embedding_norm"),
        ]

    def ignored_of(self, model):
        if not isinstance(model, MaskedLanguageModel):
            return self.ignored
        unused = () if model.tie_head else (re.escape(self.head["bias"]),)
        return (*self.ignored, r"pooler\..*", *unused)

    def tied(self, model):
        if not isinstance(model, MaskedLanguageModel):
            return {}
        decoder, bias = self.head["decoder"], self.bias_name(model)
        return {
            f"{decoder}.weight": "embeddings.word_embeddings.weight",
            f"{decoder}.bias": bias,
        }
