"""Decoding against transformers, keras-hub and CTranslate2, with random weights.

    KERAS_BACKEND=jax python tests/benchmarks/generation.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/generation.py

Times whole searches of a fixed number of tokens (no stop id): a translator of 6 + 6
layers, 512 wide, and a language model of GPT-2's shape. Writes the table into
RESULTS.md. With --quick it goes to stdout only, unless --output names a file. First,
at small sizes and with the same weights, transformers and CTranslate2 must write the
same greedy tokens; KerasHub, whose weights have other names, is timed unchecked.
CTranslate2 takes part if it is installed (pip install ctranslate2); it decodes in
float32 with as many threads as there are cores.
"""

import argparse
import gc
import importlib.util
import statistics
import tempfile
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
    from_pretrained,
    generate,
)

RESULTS = Path(__file__).with_name("RESULTS.md")
LENGTH = {"translator": 30, "language model": 30}  # of sources, of prompts

STOP = 1  # of the translator


@dataclass(frozen=True)
class Shape:
    vocabulary: int
    width: int
    heads: int
    inner: int


SHAPES = {
    "translator": Shape(8000, 512, 8, 2048),
    "language model": Shape(50257, 768, 12, 3072),  # of GPT-2
}


@dataclass(frozen=True)
class Case:
    kind: str
    batch_size: int
    num_beams: int
    new_tokens: int
    num_layers: int
    small: Shape | None = None  # in place of the kind's own

    @property
    def shape(self) -> Shape:
        return self.small or SHAPES[self.kind]

    @property
    def columns(self) -> list[str]:
        return [self.kind, str(self.batch_size), str(self.num_beams)]


ALL = [
    *(Case("translator", b, k, 32, 6) for b in (1, 16) for k in (1, 4)),
    *(Case("language model", b, 1, 32, 12) for b in (1, 8)),
]
QUICK = [Case("translator", 2, 2, 8, 1), Case("language model", 2, 1, 8, 1)]
TOLERANCE = 1e-5  # of logits; the two forms of GELU differ by more
CHECKED = [Case(kind, 2, 1, 8, 2, Shape(60, 16, 2, 32)) for kind in SHAPES]


def make_ids(case: Case, length: int) -> np.ndarray:
    """Ids of real tokens, the same for all rivals; CTranslate2 has no last one."""
    rng = np.random.default_rng(0)
    return rng.integers(5, case.shape.vocabulary - 1, (case.batch_size, length))


def make_ours(case: Case) -> keras.Model:
    """Our model, of the same layers as that of transformers."""
    shape = case.shape
    sizes = shape.vocabulary, case.num_layers, shape.width, shape.heads, shape.inner
    if case.kind == "translator":
        model = Seq2SeqTransformer(
            *sizes,
            activation="silu",
            head_bias=True,
            position_layout="concatenated",
            layer_norm_epsilon=1e-5,
            start_id=0,
            pad_id=0,
            stop_id=None,
        )
    else:
        model = LanguageModel(
            *sizes,
            positions="learned",
            sequence_length=1024,
            normalize_first=True,
            activation="gelu_tanh",
            layer_norm_epsilon=1e-5,
            pad_id=None,
            stop_id=None,
        )
    model.build()
    return model


def ours(case: Case) -> Callable:
    """Our search as a function of nothing."""
    return search(make_ours(case), case)


def search(model: keras.Model, case: Case) -> Callable:
    """The search of a model of ours as a function of nothing."""
    settings = dict(max_new_tokens=case.new_tokens, stop_ids=[])
    inputs = make_ids(case, LENGTH[case.kind])
    if case.num_beams == 1:
        return lambda: generate(model, inputs, **settings)
    return lambda: beam_search(model, inputs, num_beams=case.num_beams, **settings)


def make_marian(case: Case):
    """A MarianMTModel of the same shape."""
    from transformers import MarianConfig, MarianMTModel

    shape = case.shape
    config = MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.width,
        encoder_layers=case.num_layers,
        decoder_layers=case.num_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.inner,
        decoder_ffn_dim=shape.inner,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=STOP,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def make_gpt2(case: Case):
    """A GPT2LMHeadModel of the same shape."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = case.shape
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_layer=case.num_layers,
        n_embd=shape.width,
        n_head=shape.heads,
        n_inner=shape.inner,
        bos_token_id=shape.vocabulary - 1,
        eos_token_id=shape.vocabulary - 1,
    )
    return GPT2LMHeadModel(config).eval()


def make_theirs(case: Case):
    """The model of transformers, and the ids that it reads."""
    make = make_marian if case.kind == "translator" else make_gpt2
    return make(case), make_ids(case, LENGTH[case.kind])


def with_transformers(case: Case) -> Callable:
    """The search of transformers as a function of nothing."""
    return search_of_theirs(*make_theirs(case), case)


def search_of_theirs(model, ids: np.ndarray, case: Case) -> Callable:
    import torch

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

    shape = case.shape
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=shape.vocabulary,
        num_layers=case.num_layers,
        num_heads=shape.heads,
        hidden_dim=shape.width,
        intermediate_dim=shape.inner,
        max_sequence_length=1024,
    )
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(sampler="greedy")
    prompt = make_ids(case, LENGTH[case.kind])
    ids = np.pad(prompt.astype("int32"), [(0, 0), (0, case.new_tokens)])
    inputs = {"token_ids": ids, "padding_mask": ids > 0}
    return lambda: model.generate(inputs, stop_token_ids=None)


MAKERS = {
    "transformers": with_transformers,
    "keras-hub": with_keras_hub,
    "ctranslate2": with_ctranslate2,
}


def greedy_tokens(case: Case) -> dict[str, np.ndarray]:
    """What each writes greedily with the same random weights, those of transformers.

    Raises:
        ValueError: Our model computes other logits than the one it is timed beside.
    """
    import torch

    torch.manual_seed(0)
    model, ids = make_theirs(case)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad and weight.ndim > 1:  # Marian's sinusoids stay
                weight.normal_(std=0.3)
        if case.kind == "translator":
            # CTranslate2 takes the start for zeros, and has no last id; 1 is the end.
            model.get_input_embeddings().weight[0] = 0
            model.final_logits_bias[:, [0, STOP, -1]] = -30
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        same, _ = from_pretrained(folder, tokenizer=False, generation=False)
    same_too = make_ours(case)
    same_too.set_weights(same.get_weights())
    check_logits(same_too, model, ids)
    found = {
        "ours": search(same_too, case)(),
        "transformers": search_of_theirs(model, ids, case)()[:, -case.new_tokens :],
    }
    if importlib.util.find_spec("ctranslate2") is not None:
        import ctranslate2_rival

        run = ctranslate2_rival.search(model, ids, 1, case.new_tokens, 1)
        found["ctranslate2"] = ctranslate2_rival.ids_of(run())
    return {name: np.asarray(tokens) for name, tokens in found.items()}


def check_logits(ours: keras.Model, theirs, ids: np.ndarray) -> None:
    """Refuse a model of ours that computes other logits: it does other work."""
    import torch

    inputs, tensor = ids.astype("int32"), torch.tensor(ids)
    arguments = {"input_ids": tensor}
    if theirs.config.is_encoder_decoder:
        arguments["decoder_input_ids"] = tensor
        inputs = {"encoder_token_ids": inputs, "decoder_token_ids": inputs}
    with torch.inference_mode():
        expected = theirs(**arguments).logits.numpy()
    logits = keras.ops.convert_to_numpy(ours(inputs))
    difference = np.abs(logits - expected).max() / np.abs(expected).max()
    if not difference < TOLERANCE:
        raise ValueError(
            f"The logits of ours and transformers differ by {difference:.1e} of the "
            f"greatest, more than {TOLERANCE}: their times would not be of one model."
        )


def check_tokens() -> list[str]:
    """Return who wrote our tokens, or raise an error: others do other work."""
    for case in CHECKED:
        found = greedy_tokens(case)
        for name, tokens in found.items():
            if not np.array_equal(tokens, found["ours"]):
                raise ValueError(
                    f"With the same weights, the {case.kind} of {name} and ours write "
                    f"other tokens:\n{tokens}\n{found['ours']}"
                )
    return [name for name in found if name != "ours"]


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


def report(results: dict, command: str, agreeing: list[str]) -> str:
    """Return the table, and the raw times below it.

    Args:
        results: Times by case.
        command: What was run.
        agreeing: From `check_tokens`.
    """
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
    packages = ["torch", "transformers", "keras-hub"]
    if importlib.util.find_spec("ctranslate2") is not None:
        packages.append("ctranslate2")
    return "\n\n".join(
        [
            f"## Decoding, {keras.backend.backend()}",
            timing.run_line(command, *packages),
            "Tokens each second of ours, and how many times as fast ours is (ratio of "
            "medians; in brackets the lowest and highest in one round). At small sizes "
            "with the same weights, ours wrote the same greedy tokens as "
            f"{' and '.join(agreeing)} (keras-hub was not asked).",
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
    agreeing = check_tokens()
    for results in measure(QUICK if options.quick else ALL, options.rounds):
        text = report(results, command, agreeing)
        if output is not None:  # after each case: the whole run takes long
            timing.write_section(output, f"decoding-{keras.backend.backend()}", text)
    print(text)


if __name__ == "__main__":
    main()
