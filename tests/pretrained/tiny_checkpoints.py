"""Small random checkpoints, written by transformers, of every family."""

import numpy as np

from cases.helpers import array

SIZES = dict(vocab_size=23, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
BERT = dict(**SIZES, intermediate_size=12, max_position_embeddings=16)
ROBERTA = dict(**BERT, type_vocab_size=1)
DISTIL = dict(
    vocab_size=23,
    dim=8,
    n_layers=2,
    n_heads=2,
    hidden_dim=12,
    max_position_embeddings=16,
)
GPT2 = dict(vocab_size=23, n_embd=8, n_layer=2, n_head=2, n_positions=16)
GPT2 |= dict(bos_token_id=1, eos_token_id=2)
LLAMA = dict(
    **SIZES,
    intermediate_size=12,
    num_key_value_heads=2,
    max_position_embeddings=16,
    bos_token_id=1,
    eos_token_id=2,
)
T5 = dict(vocab_size=23, d_model=8, d_kv=6, d_ff=12, num_layers=2, num_heads=2)
T5 |= dict(relative_attention_num_buckets=8, relative_attention_max_distance=12)
T5 |= dict(decoder_start_token_id=0)
BART = dict(
    vocab_size=23,
    d_model=8,
    encoder_layers=2,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=4,
    encoder_ffn_dim=12,
    decoder_ffn_dim=10,
    max_position_embeddings=16,
)
MARIAN = dict(
    **BART,
    pad_token_id=22,
    decoder_start_token_id=22,
    eos_token_id=0,
    forced_eos_token_id=0,
)
MARIAN |= dict(decoder_vocab_size=23)
LLAMA3 = dict(
    rope_type="llama3",
    factor=4.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)

# Key -> (class, config class, config).
CHECKPOINTS = {
    "bert": ("BertModel", "BertConfig", BERT),
    "bert-relu": ("BertModel", "BertConfig", dict(BERT, hidden_act="relu")),
    "bert-masked": (
        "BertForMaskedLM",
        "BertConfig",
        dict(BERT, hidden_act="gelu_new", layer_norm_eps=1e-3),
    ),
    "bert-free": (
        "BertForMaskedLM",
        "BertConfig",
        dict(BERT, tie_word_embeddings=False, type_vocab_size=3),
    ),
    "bert-pretraining": ("BertForPreTraining", "BertConfig", BERT),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTIL),
    "distilbert-masked": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        dict(DISTIL, activation="relu", sinusoidal_pos_embds=True),
    ),
    "distilbert-free": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        dict(DISTIL, tie_word_embeddings=False),
    ),
    "roberta-free": (
        "RobertaForMaskedLM",
        "RobertaConfig",
        dict(ROBERTA, tie_word_embeddings=False),
    ),
    "xlm-roberta-free": (
        "XLMRobertaForMaskedLM",
        "XLMRobertaConfig",
        dict(ROBERTA, tie_word_embeddings=False),
    ),
    "roberta": ("RobertaModel", "RobertaConfig", ROBERTA),
    "roberta-masked": (
        "RobertaForMaskedLM",
        "RobertaConfig",
        dict(ROBERTA, layer_norm_eps=1e-5, hidden_act="relu"),
    ),
    "xlm-roberta": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", ROBERTA),
    "xlm-roberta-bare": ("XLMRobertaModel", "XLMRobertaConfig", ROBERTA),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2-bare": ("GPT2Model", "GPT2Config", dict(GPT2, activation_function="relu")),
    "gpt2-free": (
        "GPT2LMHeadModel",
        "GPT2Config",
        dict(
            GPT2,
            tie_word_embeddings=False,
            n_inner=12,
            layer_norm_epsilon=1e-3,
            scale_attn_weights=False,
            activation_function="gelu",
        ),
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama-bare": (
        "LlamaModel",
        "LlamaConfig",
        dict(LLAMA, tie_word_embeddings=True),
    ),
    "llama-single": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(
            LLAMA,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            rms_norm_eps=1e-3,
            rope_parameters=dict(rope_theta=500.0, rope_type="linear", factor=2.0),
        ),
    ),
    "llama-grouped": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(
            LLAMA,
            num_attention_heads=4,
            head_dim=4,
            attention_bias=True,
            rope_parameters=dict(rope_theta=10000.0, **LLAMA3),
        ),
    ),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5-1.1": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(
            T5,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            num_decoder_layers=1,
            layer_norm_epsilon=1e-3,
        ),
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", BART),
    "bart-bare": ("BartModel", "BartConfig", BART),
    "bart-scaled": (
        "BartForConditionalGeneration",
        "BartConfig",
        dict(BART, scale_embedding=True, activation_function="relu"),
    ),
    "marian": (
        "MarianMTModel",
        "MarianConfig",
        dict(MARIAN, scale_embedding=True, activation_function="swish"),
    ),
    "marian-bare": ("MarianModel", "MarianConfig", MARIAN),
    "marian-separate": (
        "MarianMTModel",
        "MarianConfig",
        dict(
            MARIAN,
            share_encoder_decoder_embeddings=False,
            decoder_vocab_size=19,
            pad_token_id=18,
            decoder_start_token_id=18,
        ),
    ),
}


# Models without a head, which become models with one: the table of their embedding.
HEADLESS = ("gpt2-bare", "llama-bare", "bart-bare", "marian-bare")


def make(key, **more):
    """Return a model of transformers with all weights random, biases too."""
    import torch
    import transformers

    class_name, config_name, settings = CHECKPOINTS[key]
    config = getattr(transformers, config_name)(**{**settings, **more})
    model = getattr(transformers, class_name)(config)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for name, weight in [*model.named_parameters(), *model.named_buffers()]:
            fixed = "embed_positions" in name and "Marian" in class_name
            if weight.is_floating_point() and not fixed and "inv_freq" not in name:
                values = rng.normal(scale=0.3, size=tuple(weight.shape))
                if "norm" in name.lower() and name.endswith("weight"):
                    values += 1.0
                weight.copy_(torch.tensor(values))
    return model.eval()


def load(key, folder, **more):
    """Return a model of transformers, and ours from its files."""
    from keras_transformer.pretrained import from_pretrained

    theirs = make(key, **more)
    theirs.save_pretrained(folder)
    return theirs, from_pretrained(folder, tokenizer=False)[0]


def main(outputs):
    """Return the logits, or the vectors of the tokens, of either side."""
    if isinstance(outputs, dict) and "sequence_output" in outputs:
        return array(outputs["sequence_output"])
    for name in ("logits", "prediction_logits", "last_hidden_state"):
        if getattr(outputs, name, None) is not None:
            return getattr(outputs, name).numpy()
    return array(outputs)


def valid(values, batch):
    """Leave out what stands at padding, where the two sides need not agree."""
    for name in ("padding_mask", "decoder_padding_mask"):
        if name in batch:
            return values[batch[name]]
    return values


def inputs(key, model, seed=1):
    """Return inputs for a model of ours: right-padded, with a mask."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, 18, (2, 7)).astype("int32")
    mask = np.ones((2, 7), bool)
    mask[1, 4:] = False
    if "config" in vars(model) and model.config.pad_token_id is not None:
        ids[~mask] = model.config.pad_token_id
    if key.startswith(("t5", "bart", "marian")):
        targets = rng.integers(3, 18, (2, 5)).astype("int32")
        targets[:, 0] = model.config.decoder_start_token_id
        return {
            "encoder_token_ids": ids,
            "encoder_padding_mask": mask,
            "decoder_token_ids": targets,
        }
    return {"token_ids": ids, "padding_mask": mask}


def run(model, ours: dict, **more):
    """Run a model of transformers on inputs for one of ours."""
    import torch

    names = {
        "token_ids": "input_ids",
        "padding_mask": "attention_mask",
        "encoder_token_ids": "input_ids",
        "encoder_padding_mask": "attention_mask",
        "decoder_token_ids": "decoder_input_ids",
        "decoder_padding_mask": "decoder_attention_mask",
        "segment_ids": "token_type_ids",
    }
    theirs = {
        names[k]: torch.tensor(np.asarray(v).astype("int64")) for k, v in ours.items()
    }
    with torch.no_grad():
        return model(**theirs, **more)
