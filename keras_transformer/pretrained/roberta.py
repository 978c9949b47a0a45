"""RoBERTa and XLM-RoBERTa: BERT with positions that count tokens, and a head."""

from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.text_encoder import TextEncoder
from keras_transformer.pretrained.bert import Bert


class Roberta(Bert):
    """BERT whose position table begins at row `pad_id + 1` and skips padding."""

    model_type = "roberta"
    architectures = {
        "RobertaModel": TextEncoder,
        "RobertaForMaskedLM": MaskedLanguageModel,
    }
    prefix = "roberta."
    heads = ("lm_head.",)
    ignored = (r"embeddings\.(position|token_type)_ids",)
    head = {
        "dense": "lm_head.dense",
        "norm": "lm_head.layer_norm",
        "bias": "lm_head.bias",
        "decoder": "lm_head.decoder",
    }

    def settings(self, config, model_class, checkpoint):
        pad_id = config.take("pad_token_id", 1)
        settings = super().settings(config, model_class, checkpoint)
        settings |= {
            "pad_id": pad_id,
            "position_offset": pad_id + 1,
            "sequence_length": settings["sequence_length"] - pad_id - 1,
            "count_padding": False,
        }
        if model_class is MaskedLanguageModel:
            settings["head_activation"] = "gelu"
        return settings

    def config(self, settings):
        offset = settings["position_offset"]
        length = settings["sequence_length"] + offset
        return {**super().config(settings), "max_position_embeddings": length}


class XlmRoberta(Roberta):
    """RoBERTa for a hundred languages, with a SentencePiece vocabulary."""

    model_type = "xlm-roberta"
    architectures = {
        "XLMRobertaModel": TextEncoder,
        "XLMRobertaForMaskedLM": MaskedLanguageModel,
    }
