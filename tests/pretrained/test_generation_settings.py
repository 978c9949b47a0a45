"""What a checkpoint says of generation is done, and comes back when it is saved."""

import json

import numpy as np
import pytest
from tiny_checkpoints import inputs, make

from cases.examples import quick
from cases.helpers import slow_on
from keras_transformer import beam_search, generate
from keras_transformer.models import LanguageModel
from keras_transformer.pretrained import from_pretrained, save_pretrained

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

BEAMS = dict(num_beams=3, length_penalty=2.0, early_stopping=True)
MARIAN = dict(bad_words_ids=[[22]], forced_eos_token_id=0, eos_token_id=0)
MARIAN |= dict(pad_token_id=22, decoder_start_token_id=22)
BART = dict(forced_bos_token_id=7, forced_eos_token_id=2, eos_token_id=2)
BART |= dict(pad_token_id=1, decoder_start_token_id=2)
# Name -> (checkpoint, generation config).
SETTINGS = {
    "llama": (
        "llama",
        dict(eos_token_id=[2, 5, 9, 11], pad_token_id=0, repetition_penalty=1.3),
    ),
    "llama-beams": ("llama", dict(eos_token_id=[5, 9], pad_token_id=0, **BEAMS)),
    "gpt2": ("gpt2", dict(eos_token_id=[2], pad_token_id=0, suppress_tokens=[8, 12])),
    "bart": (
        "bart",
        dict(**BART, **BEAMS, max_length=9, min_length=4, no_repeat_ngram_size=2),
    ),
    "bart-greedy": ("bart", dict(**BART, max_length=7)),
    "marian": (
        "marian",
        dict(**MARIAN, num_beams=3, max_length=8, renormalize_logits=True),
    ),
    "t5": (
        "t5",
        dict(decoder_start_token_id=3, eos_token_id=1, pad_token_id=0, max_length=6),
    ),
    "gpt2-beams": ("gpt2", dict(eos_token_id=2, pad_token_id=0, **BEAMS)),
    "t5-beams": (
        "t5",
        dict(**BEAMS, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0)
        | dict(max_length=7),
    ),
}


def write(name, folder):
    key, settings = SETTINGS[name]
    theirs = make(key)
    if name == "marian":  # or padding would not be the likeliest
        with torch.no_grad():
            theirs.final_logits_bias[0, 22] = 9.0
    theirs.generation_config = transformers.GenerationConfig(**settings)
    theirs.save_pretrained(folder)
    return theirs


def written(theirs, batch):
    """Return the rows that transformers writes, up to their first stop id."""
    name = "encoder_token_ids" if "encoder_token_ids" in batch else "token_ids"
    ids = torch.tensor(batch[name].astype("int64"))
    mask = torch.tensor(batch[name.replace("token_ids", "padding_mask")])
    more = {} if theirs.generation_config.max_length else {"max_new_tokens": 6}
    found = theirs.generate(ids, attention_mask=mask, **more).numpy()
    first = 1 if name.startswith("encoder") else ids.shape[1]
    return [row[first:].tolist() for row in found]


def prompts(theirs, key):
    batch = inputs(key, theirs)
    if "token_ids" in batch:  # transformers punishes repeated padding too
        batch["padding_mask"][:] = True
    return batch


def ours_writes(model, batch):
    name = "encoder_" if "encoder_token_ids" in batch else ""
    batch = {n: batch[f"{name}{n}"] for n in ("token_ids", "padding_mask")}
    more = {} if "max_new_tokens" in model.generation else {"max_new_tokens": 6}
    if "num_beams" in model.generation:
        return [row[0].token_ids for row in beam_search(model, batch, **more)]
    return generate(model, batch, **more).tolist()


def same(ours, theirs, stops):
    """Compare rows, without the padding after their stop ids."""

    def cut(row):
        place = next((i for i, id in enumerate(row) if id in stops), len(row))
        return row[: place + 1]

    return list(map(cut, ours)) == list(map(cut, theirs))


@pytest.mark.parametrize("name", quick(SETTINGS, list(SETTINGS)[:3]))
def test_generation_is_that_of_transformers_with_its_generation_config(name, tmp_path):
    key, settings = SETTINGS[name]
    theirs = write(name, tmp_path / "theirs")
    batch = prompts(theirs, key)
    expected = written(theirs, batch)
    ours, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    stops = np.atleast_1d(settings["eos_token_id"]).tolist()
    assert same(ours_writes(ours, batch), expected, stops)

    save_pretrained(ours, None, tmp_path / "ours")
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    assert same(written(again, batch), expected, stops)
    twice, _ = from_pretrained(tmp_path / "ours", tokenizer=False)
    assert twice.generation == ours.generation

    plain, _ = from_pretrained(tmp_path / "theirs", tokenizer=False, generation=False)
    assert plain.generation is None
    if name != "gpt2":  # what the settings do is seen
        plain.generation = {k: 6 for k in ("max_new_tokens",)}
        assert not same(ours_writes(plain, batch), expected, stops)


@pytest.mark.parametrize("key", ["gpt2", "llama"])
def test_prompts_padded_on_the_left_are_written_on_as_in_transformers(key, tmp_path):
    theirs = make(key)
    theirs.generation_config = transformers.GenerationConfig(
        eos_token_id=2, pad_token_id=0
    )
    theirs.save_pretrained(tmp_path)
    batch = {"token_ids": np.array([[5, 6, 7, 8], [0, 0, 9, 4], [0, 3, 12, 11]])}
    batch["padding_mask"] = batch["token_ids"] != 0
    expected = written(theirs, batch)
    ours, _ = from_pretrained(tmp_path, tokenizer=False)
    found = generate(ours, batch, max_new_tokens=6).tolist()
    assert same(found, expected, [2])


def test_without_a_file_of_its_own_the_config_says_how_to_generate(tmp_path):
    theirs = make("bart")
    theirs.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    path = tmp_path / "config.json"
    values = json.loads(path.read_text("utf-8"))
    values |= dict(forced_bos_token_id=7, num_beams=2, max_length=6)
    path.write_text(json.dumps(values))
    ours, _ = from_pretrained(tmp_path, tokenizer=False)
    assert ours.generation == dict(
        forced_bos_token_id=7, forced_eos_token_id=2, num_beams=2, max_new_tokens=5
    )


@pytest.mark.parametrize("bos", [{}, {"bos_token_id": 7}])
def test_the_flag_of_old_configs_forces_bos(bos, tmp_path):
    # https://github.com/huggingface/transformers/pull/6526: bart-large-cnn's flag
    make("bart").save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    path = tmp_path / "config.json"
    values = json.loads(path.read_text("utf-8"))
    del values["bos_token_id"]
    values |= dict(force_bos_token_to_be_generated=True, **bos)
    path.write_text(json.dumps(values))
    ours, _ = from_pretrained(tmp_path, tokenizer=False)
    theirs = transformers.BartForConditionalGeneration.from_pretrained(tmp_path)
    forced = theirs.generation_config.forced_bos_token_id
    assert ours.generation.get("forced_bos_token_id") == forced == (7 if bos else None)


@slow_on("tensorflow")
def test_sampling_is_that_of_the_generation_config(tmp_path):
    theirs = make("gpt2")
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "generation_config.json"
    values = dict(do_sample=True, temperature=0.7, top_p=0.9, eos_token_id=2)
    path.write_text(json.dumps(values))
    ours, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    drawn = dict(temperature=0.7, top_k=50, top_p=0.9)  # 50: transformers' default
    assert ours.generation == drawn
    plain = LanguageModel.from_config({**ours.get_config(), "generation": None})
    plain.build()
    plain.set_weights(ours.get_weights())
    batch, more = [[5, 6], [7]], dict(max_new_tokens=9, seed=3)
    found = generate(ours, batch, **more).tolist()
    assert found == generate(plain, batch, **more, **drawn).tolist()
    greedy = generate(plain, batch, max_new_tokens=9).tolist()
    assert found != greedy
    assert generate(ours, batch, **more, temperature=0).tolist() == greedy
    save_pretrained(ours, None, tmp_path / "ours")
    saved = transformers.GenerationConfig.from_pretrained(tmp_path / "ours")
    assert saved.do_sample and saved.temperature == 0.7 and saved.top_k == 50


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(bad_words_ids=[[3, 4]]), r"bad_words_ids=\[3, 4\].*must be one token"),
        (dict(stop_strings=["."]), r"stop_strings=\['.'\].*generation=False"),
        (dict(num_beam_groups=2), "num_beam_groups=2"),
        (dict(do_sample=True, min_p=0.1), "min_p=0.1"),
        (dict(do_sample=True, num_beams=2), "do_sample=True with num_beams=2"),
        (dict(forced_bos_token_id=3), "forced_bos_token_id=3"),
        (dict(forced_eos_token_id=[2, 3]), r"forced_eos_token_id=\[2, 3\]"),
        (dict(rotate_tokens=3), "rotate_tokens=3"),
    ],
)
def test_what_generation_here_has_not_is_refused(settings, message, tmp_path):
    make("gpt2").save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=message):
        from_pretrained(tmp_path, tokenizer=False)
    model, _ = from_pretrained(tmp_path, tokenizer=False, generation=False)
    assert model.generation is None


def test_what_changes_nothing_is_no_reason_to_refuse(tmp_path):
    make("gpt2").save_pretrained(tmp_path)
    idle = dict(typical_p=0.9, min_p=0.1, max_length=50, use_cache=True, top_k=20)
    idle |= dict(diversity_penalty=0.0, guidance_scale=None, temperature=0.6)
    (tmp_path / "generation_config.json").write_text(json.dumps(idle))
    model, _ = from_pretrained(tmp_path, tokenizer=False)
    assert model.generation is None  # nothing of it without do_sample


def test_a_models_own_settings_are_checked_and_saved(tmp_path):
    sizes = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=8)
    for settings, message in (
        (dict(beams=2), "knows: 'beams'. Remove them. Known are"),
        (dict(seed=2), "'seed'"),
        (dict(top_p=2.0), "`top_p`"),
        ([2], "must be a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            LanguageModel(20, **sizes, generation=settings)
    model = LanguageModel(20, **sizes, generation={"stop_ids": [3, 4], "top_k": 5})
    again = LanguageModel.from_config(model.get_config())
    assert again.generation == {"stop_ids": [3, 4], "top_k": 5}
    with pytest.raises(ValueError, match="`suppress_tokens` holds the id 20"):
        generate(model, [[1]], suppress_tokens=[20])


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(length_normalization="gnmt"), "length_normalization='gnmt'"),
        (dict(coverage_penalty=0.2), "coverage_penalty=0.2"),
        (dict(num_beams=3, temperature=0.8), "temperature and num_beams=3"),
        (dict(forced_bos_token_id=3), "forced_bos_token_id=3"),
        (dict(stop_ids=[]), r"stop_ids=\[\]"),
    ],
)
def test_what_transformers_has_not_is_not_saved(settings, message, tmp_path):
    make("gpt2").save_pretrained(tmp_path / "theirs")
    model, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    model.generation = settings
    with pytest.raises(ValueError, match=f"{message}.*Nothing was written"):
        save_pretrained(model, None, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    "settings",
    [
        dict(num_beams=2, length_normalization="length", coverage_penalty=0.0),
        dict(num_beams=3, temperature=0.0),
        dict(num_beams=2, top_k=0),
    ],
)
def test_settings_that_change_nothing_are_left_out(settings, tmp_path):
    make("gpt2").save_pretrained(tmp_path / "theirs")
    model, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    model.generation = settings
    save_pretrained(model, None, tmp_path / "ours")
    again, _ = from_pretrained(tmp_path / "ours", tokenizer=False)
    assert again.generation == {"num_beams": settings["num_beams"]}
