"""Decoding against transformers, keras-hub and CTranslate2, with random weights.

    KERAS_BACKEND=jax python tests/benchmarks/generation.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/generation.py

Times whole searches of a fixed number of tokens (no stop id): a translator of 6 + 6
layers, 512 wide, and a language model of GPT-2's shape. Writes the table into
RESULTS.md. With --quick it goes to stdout only, unless --output names a file.
CTranslate2 takes part if it is installed (pip install ctranslate2); it decodes in
float32 with as many threads as there are cores.
"""

import argparse
import gc
import importlib.util
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import timing

from keras_transformer import (
    LanguageModel,
    Seq2SeqTransformer,
    beam_search,
    generate,
)

RESULTS = Path(__file__).with_name("RESULTS.md")
SOURCE_LENGTH, PROMPT_LENGTH = 30, 30
VOCABULARY = {"translator": 8000, "language model": 50257}


@dataclass(frozen=True)
class Case:
    kind: str
    batch_size: int
    num_beams: int
    new_tokens: int
    num_layers: int

    @property
    def columns(self) -> list[str]:
        return [self.kind, str(self.batch_size), str(self.num_beams)]


ALL = [
    *(Case("translator", b, k, 32, 6) for b in (1, 16) for k in (1, 4)),
    *(Case("language model", b, 1, 32, 12) for b in (1, 8)),
]
QUICK = [Case("translator", 2, 2, 8, 1), Case("language model", 2, 1, 8, 1)]


def make_ids(case: Case, length: int) -> np.ndarray:
    """Ids of real tokens, the same for all rivals."""
    rng = np.random.default_rng(0)
    return rng.integers(5, VOCABULARY[case.kind], (case.batch_size, length))


def ours(case: Case) -> Callable:
    """Our search as a function of nothing."""
    if case.kind == "translator":
        model = Seq2SeqTransformer(
            VOCABULARY[case.kind],
            case.num_layers,
            512,
            8,
            2048,
            activation="silu",
            head_bias=True,
            position_layout="concatenated",
            start_id=0,
            pad_id=0,
            stop_id=None,
        )
        inputs = make_ids(case, SOURCE_LENGTH)
    else:
        model = LanguageModel(
            VOCABULARY[case.kind],
            case.num_layers,
            768,
            12,
            3072,
            positions="learned",
            sequence_length=1024,
            normalize_first=True,
            activation="gelu",
            pad_id=None,
        )
        inputs = make_ids(case, PROMPT_LENGTH)
    model.build()
    settings = dict(max_new_tokens=case.new_tokens)
    if case.num_beams == 1:
        return lambda: generate(model, inputs, **settings)
    return lambda: beam_search(model, inputs, num_beams=case.num_beams, **settings)


def make_marian(case: Case):
    """A MarianMTModel of the same shape."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY[case.kind],
        d_model=512,
        encoder_layers=case.num_layers,
        decoder_layers=case.num_layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=1,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def make_gpt2(case: Case):
    """A GPT2LMHeadModel of the same shape."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=case.num_layers)).eval()


def make_theirs(case: Case):
    """The model of transformers, and the ids that it reads."""
    if case.kind == "translator":
        return make_marian(case), make_ids(case, SOURCE_LENGTH)
    return make_gpt2(case), make_ids(case, PROMPT_LENGTH)


def with_transformers(case: Case) -> Callable:
    """The search of transformers as a function of nothing."""
    import torch

    model, ids = make_theirs(case)
    ids = torch.tensor(ids)
    settings = dict(
        num_beams=case.num_beams,
        do_sample=False,
        min_new_tokens=case.new_tokens,
        max_new_tokens=case.new_tokens,
        attention_mask=torch.ones_like(ids),
        pad_token_id=0,
    )

    @torch.inference_mode()
    def call():
        return model.generate(ids, **settings)

    return call


def with_ctranslate2(case: Case) -> Callable | None:
    """The search of CTranslate2, if it is installed."""
    if importlib.util.find_spec("ctranslate2") is None:
        return None
    import ctranslate2_rival

    model, ids = make_theirs(case)
    return ctranslate2_rival.search(
        model, ids, case.num_beams, case.new_tokens, timing.cores()
    )


def with_keras_hub(case: Case) -> Callable | None:
    """The search of keras-hub; it has no translator of this kind."""
    if case.kind != "language model":
        return None
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=VOCABULARY[case.kind],
        num_layers=case.num_layers,
        num_heads=12,
        hidden_dim=768,
        intermediate_dim=3072,
        max_sequence_length=1024,
    )
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(sampler="greedy")
    length = PROMPT_LENGTH + case.new_tokens
    ids = np.zeros((case.batch_size, length), "int32")
    ids[:, :PROMPT_LENGTH] = make_ids(case, PROMPT_LENGTH)
    inputs = {"token_ids": ids, "padding_mask": ids > 0}
    return lambda: model.generate(inputs, stop_token_ids=None)


MAKERS = {
    "transformers": with_transformers,
    "keras-hub": with_keras_hub,
    "ctranslate2": with_ctranslate2,
}


def measure(cases, rounds: int) -> Iterator[dict]:
    """Time all rivals of each case in turn; yield what is known after each."""
    results = {}
    progress = timing.Progress(len(cases))
    for case in cases:
        progress.step(", ".join(case.columns))
        keras.utils.set_random_seed(0)
        calls = {"ours": ours(case)}
        for name, make in MAKERS.items():
            call = make(case)
            if call is not None:
                calls[name] = call
        results[case] = timing.time_in_turn(calls, rounds)
        yield results
        del calls
        gc.collect()
    progress.close()


def report(results: dict, command: str) -> str:
    """Return the table, and the raw times below it."""
    rows, raw = [], []
    for case, times in results.items():
        tokens = case.batch_size * case.new_tokens
        speed = tokens / statistics.median(times["ours"])
        cells = [timing.ratio_cell(times, name) for name in MAKERS]
        rows.append([*case.columns, f"{speed:.0f}", *cells])
        for name, values in times.items():
            raw.append(
                f"{' '.join(case.columns)} {name}: {timing.milliseconds(values)}"
            )
    header = ["model", "batch", "beams", "tokens/s", *MAKERS]
    return "\n\n".join(
        [
            f"## Decoding, {keras.backend.backend()}",
            timing.run_line(command, "torch", "transformers", "keras-hub"),
            "Tokens each second of ours, and how many times as fast ours is (ratio of "
            "medians; in brackets the lowest and highest in one round).",
            timing.markdown_table(header, rows),
            timing.details("milliseconds a search", "\n".join(raw)),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two tiny cases")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--output", type=Path, help="where the table goes")
    options = parser.parse_args()
    command = "tests/benchmarks/generation.py" + (" --quick" if options.quick else "")
    command += f" --rounds {options.rounds}"
    output = options.output or (None if options.quick else RESULTS)
    for results in measure(QUICK if options.quick else ALL, options.rounds):
        text = report(results, command)
        if output is not None:  # after each case: the whole run takes long
            timing.write_section(output, f"decoding-{keras.backend.backend()}", text)
    print(text)


if __name__ == "__main__":
    main()
