"""Marian's translators (OPUS-MT): BART with sinusoids, settings and weight map."""

from types import MappingProxyType

from keras_transformer.models.seq2seq_transformer import Seq2SeqTransformer
from keras_transformer.pretrained.bart import OLD_SETTINGS, Bart
from keras_transformer.pretrained.weight_map import Rule


class Marian(Bart):
    """A post-norm `Seq2SeqTransformer` with sinusoids, all sines first."""

    model_type = "marian"
    architectures = {
        "MarianMTModel": Seq2SeqTransformer,
        "MarianModel": Seq2SeqTransformer,
    }
    ignored = (r"(en|de)coder\.embed_positions\.weight",)  # the same sinusoids
    generation = MappingProxyType({"forced_eos_token_id": 0})
    old_settings = {
        **OLD_SETTINGS,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }
    defaults = {
        "pad_token_id": 58100,
        "decoder_start_token_id": 58100,
        "eos_token_id": 0,
    }

    def settings(self, config, model_class, checkpoint):
        settings = super().settings(config, model_class, checkpoint)
        source = settings["vocabulary_size"]
        shared = config.require("share_encoder_decoder_embeddings", True, False)
        target = config.take("decoder_vocab_size", source)
        if shared:
            return settings
        return {
            **settings,
            "vocabulary_size": target,
            "source_vocabulary_size": source,
            "share_embeddings": False,
        }

    def position_settings(self, config):
        config.take("max_position_embeddings")  # sinusoids have no end
        config.take("extra_pos_embeddings")  # of BART's table; old files have any
        return dict(
            positions="sinusoidal", position_layout="concatenated", sequence_length=None
        )

    def config(self, settings):
        target, source = settings["vocabulary_size"], settings["source_vocabulary_size"]
        return {
            **super().config(settings),
            "vocab_size": source or target,
            "decoder_vocab_size": target,
            "share_encoder_decoder_embeddings": settings["share_embeddings"],
            # sinusoids have no end, but transformers makes a table of them
            "max_position_embeddings": 512,
        }

    def table_rules(self, model):
        if model.share_embeddings:
            return super().table_rules(model)
        return [
            Rule(
                f"{stack}.embed_tokens.weight",
                f"{stack}_embedding/token_embedding/embeddings",
            )
            for stack in ("encoder", "decoder")
        ]

    def tied(self, model):
        if model.share_embeddings:
            return super().tied(model)
        return {"lm_head.weight": "decoder.embed_tokens.weight"}
