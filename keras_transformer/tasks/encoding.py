"""Texts to ids for each use, with any of the package's tokenizers."""

from keras_transformer.tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
)

_TEMPLATED = (HuggingFaceTokenizer, MappedSentencePieceTokenizer)


def encode_source(tokenizer, texts, max_length: int):
    """Return what an encoder reads: a text and its end, or as the template has it."""
    if isinstance(tokenizer, _TEMPLATED):
        return tokenizer.encode(texts, max_length=max_length)
    return tokenizer.encode(texts, add_eos=True, max_length=max_length)


def encode_bare(tokenizer, texts, *, add_bos=False, target=False, max_length=None):
    """Return the ids of texts without a template.

    Args:
        tokenizer: Any of the package's.
        texts: The texts.
        add_bos: Whether the bos id comes first.
        target: Whether they are of the language that is translated to.
        max_length: Most ids of a text.
    """
    settings = {"add_bos": add_bos}
    if max_length is not None:
        settings["max_length"] = max_length
    if isinstance(tokenizer, _TEMPLATED) and not add_bos:
        settings["add_special_tokens"] = False
    if target and isinstance(tokenizer, MappedSentencePieceTokenizer):
        settings["target"] = True
    return tokenizer.encode(texts, **settings)


def begins_with_bos(tokenizer) -> bool:
    """Return whether a text to be written on begins with bos, if nobody says.

    Llama's template has it, GPT-2 has none; without a template it does.
    """
    if not isinstance(tokenizer, _TEMPLATED):
        return True
    first = tokenizer.encode("")[:1]
    return bool(first) and first == [tokenizer.bos_id]
