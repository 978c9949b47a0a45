"""CTranslate2, filled from a model of transformers with random weights."""

import tempfile
from types import SimpleNamespace

import numpy as np


def converted(model, folder):
    """Write a model of transformers as CTranslate2 reads it, in float32.

    A real conversion reads the vocabulary from a tokenizer's files. Random weights
    have none, so a stand-in names the ids `t0`, `t1`, ...
    """
    from ctranslate2.converters import TransformersConverter

    size = model.config.vocab_size
    tokens = {f"t{id}": id for id in range(size - 1)}
    tokens["<pad>"] = size - 1  # where Marian has it, and CTranslate2 leaves it out
    stand_in = SimpleNamespace(
        get_vocab=lambda: tokens,
        bos_token="t0",
        eos_token="t1",
        unk_token="t2",
        pad_token="<pad>",
    )

    class Converter(TransformersConverter):
        def load_tokenizer(self, *args, **kwargs):
            return stand_in

    with tempfile.TemporaryDirectory() as checkpoint:
        model.save_pretrained(checkpoint)
        Converter(checkpoint).convert(str(folder), force=True)


def names(ids: np.ndarray) -> list[list[str]]:
    """Rows of ids as the stand-in's tokens."""
    return [[f"t{id}" for id in row] for row in ids.tolist()]


def ids_of(results) -> list[list[int]]:
    """The ids of the best text of each row of a search's results."""
    best = [getattr(r, "hypotheses", None) or r.sequences for r in results]
    return [[int(name.removeprefix("t")) for name in texts[0]] for texts in best]


def search(model, ids: np.ndarray, num_beams: int, new_tokens: int, threads: int):
    """Return the search as a function of nothing."""
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        converted(model, folder)
        settings = dict(device="cpu", compute_type="float32", intra_threads=threads)
        if model.config.is_encoder_decoder:
            run = ctranslate2.Translator(folder, **settings).translate_batch
            limits = dict(
                min_decoding_length=new_tokens, max_decoding_length=new_tokens
            )
        else:
            run = ctranslate2.Generator(folder, **settings).generate_batch
            limits = dict(
                min_length=new_tokens,
                max_length=new_tokens,
                include_prompt_in_result=False,
            )
        return lambda: run(names(ids), beam_size=num_beams, **limits)
