"""`keras-transformer convert`: what is converted writes the same texts."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.cli import main
from keras_transformer.pretrained import from_pretrained, save_pretrained

sys.path.append(str(Path(__file__).parent / "pretrained"))
transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")

TEXTS = ["나는 학교에 간다", "너는 집에서 잔다", "비가 온다", "날씨가 아주 좋다"]
SMALL = dict(vocabulary_size=60, num_layers=1, embed_dim=16, num_heads=2, dense_dim=16)


def random_weights(model):
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.weights])


@pytest.mark.parametrize("recipe", ["gpt2", "llama"])
def test_a_generator_goes_there_and_back(recipe, tmp_path, capsys):
    task, there, back = (str(tmp_path / name) for name in ("task", "there", "back"))
    generator = kt.TextGenerator.from_texts(TEXTS, recipe, max_length=32, **SMALL)
    random_weights(generator.model)
    generator.save(task)
    assert main(["convert", task, there]) == 0
    output = capsys.readouterr().out
    assert "TextGenerator -> " in output and "max_length=32, recipe=" in output
    theirs = transformers.AutoModelForCausalLM.from_pretrained(there)
    assert theirs.config.model_type == recipe
    assert main(["convert", there, back]) == 0
    assert "predict --task generation" in capsys.readouterr().out
    again = kt.TextGenerator.load(back)
    settings = dict(max_new_tokens=8, temperature=1.0, seed=2)
    prompts = ["나는", "비가 ", ""]
    expected = generator.generate(prompts, **settings)
    # Unknown characters are shown by SentencePiece, and not by Hugging Face's library.
    expected = [text.replace("⁇", "") for text in expected]
    assert again.generate(prompts, **settings) == expected
    for name in ("dropout", "attention_dropout"):
        config = again.model.get_config()
        assert config[name] in (0.2, None) and config["dropout"] == 0.2
    assert again.add_bos and again.tokenizer.eos_id == generator.tokenizer.eos_id
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["back", "task", "there"]


def test_a_translator_of_transformers_comes_and_goes(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    from test_tokenizer_files import write_marian
    from tiny_checkpoints import MARIAN

    there, task, back = (tmp_path / name for name in ("there", "task", "back"))
    there.mkdir()
    write_marian(there)
    tokenizer = transformers.MarianTokenizer.from_pretrained(there)
    pad, size = tokenizer.pad_token_id, len(tokenizer)
    ids = dict(vocab_size=size, decoder_vocab_size=size, pad_token_id=pad)
    config = {**MARIAN, **ids, "max_position_embeddings": 64}
    config = transformers.MarianConfig(**{**config, "decoder_start_token_id": pad})
    torch.manual_seed(0)
    theirs = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(std=0.4)
    theirs.generation_config = transformers.GenerationConfig(
        **dict(bad_words_ids=[[pad]], forced_eos_token_id=0, eos_token_id=0),
        **dict(num_beams=3, max_length=9, renormalize_logits=True),
        **dict(pad_token_id=pad, decoder_start_token_id=pad),
    )
    theirs.save_pretrained(there)
    assert main(["convert", str(there), str(task)]) == 0
    texts = ["the film was good", "the end was bad", "a longer text"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    expected = theirs.generate(**batch)
    expected = tokenizer.batch_decode(expected, skip_special_tokens=True)
    translator = kt.Translator.load(task)
    assert translator.translate(texts) == expected
    assert all(expected)

    assert main(["convert", str(task), str(back)]) == 0
    assert "Translator -> MarianMTModel (marian)" in capsys.readouterr().out
    again = transformers.MarianMTModel.from_pretrained(back).eval()
    for name, weight in theirs.state_dict().items():
        # Sinusoids may be written for more positions.
        assert torch.equal(again.state_dict()[name][: len(weight)], weight), name
    found = again.generate(**batch)
    assert tokenizer.batch_decode(found, skip_special_tokens=True) == expected


def test_a_translator_trained_here_goes_there_as_marian(tmp_path):
    pairs = [(text, text[::-1]) for text in TEXTS]
    marian = dict(position_layout="concatenated", layer_norm_epsilon=1e-5)
    marian |= dict(head_bias=True, count_padding=True, normalize_first=False)
    translator = kt.Translator.from_pairs(pairs, **SMALL, **marian)
    random_weights(translator.model)
    translator.save(tmp_path / "task")
    for source, target in (("task", "there"), ("there", "back")):
        assert main(["convert", str(tmp_path / source), str(tmp_path / target)]) == 0
    again = kt.Translator.load(tmp_path / "back")
    settings = dict(num_beams=2, max_new_tokens=6)
    assert again.translate(TEXTS, **settings) == translator.translate(TEXTS, **settings)


def test_mistakes_end_with_a_message_and_nothing_is_written(tmp_path, capsys):
    generator = kt.TextGenerator.from_texts(TEXTS, **SMALL)
    generator.save(tmp_path / "task")
    other = kt.LanguageModel(60, 1, 16, 2, 16, pad_id=0, stop_id=3)
    other.build()
    kt.TextGenerator(other, generator.tokenizer).save(tmp_path / "post-norm")
    model = kt.build_text_classifier(60, 8, 2, 8)
    labels = ["bad", "good"]
    kt.TextClassifier(model, generator.tokenizer, labels).save(tmp_path / "classifier")
    encoder = kt.TextEncoder(60, 1, 8, 2, 8, num_segments=2, **BERT)
    encoder.build()
    save_pretrained(encoder, generator.tokenizer, tmp_path / "bert")
    (tmp_path / "no-object").mkdir()
    (tmp_path / "no-object" / "task.json").write_text("[]")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for source, target, message in (
        ("task", "notes", "exists and is not empty"),
        ("task", "task", "exists and is not empty"),
        ("notes", "new", "neither a saved task"),
        ("post-norm", "new", "of no family that transformers has"),
        ("classifier", "new", "holds a TextClassifier"),
        ("no-object", "new", "is not what `save` wrote"),
        ("bert", "new", "A TextEncoder writes no text"),
        ("none/of/these", "new", "There is no folder"),
    ):
        command = ["convert", str(tmp_path / source), str(tmp_path / target)]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.startswith("keras-transformer: ") and message in error
        assert sorted(tmp_path.rglob("*")) == before


BERT = dict(activation="gelu", layer_norm_epsilon=1e-12, count_padding=True)


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    generator = kt.TextGenerator.from_texts(TEXTS, **SMALL)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")

    def broken(*arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("keras_transformer.pretrained.folder.save_tokenizer", broken)
        for name in ("new", "mine"):
            with pytest.raises(OSError, match="no space left"):
                save_pretrained(generator.model, generator.tokenizer, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    save_pretrained(generator.model, generator.tokenizer, tmp_path / "mine")
    assert (tmp_path / "mine" / "README.md").read_text() == "mine"
    model, _ = from_pretrained(tmp_path / "mine")
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(model.weights[0]),
        keras.ops.convert_to_numpy(generator.model.weights[0]),
    )
    (tmp_path / "mine" / "config.json").unlink()
    before = (tmp_path / "mine" / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="Nothing was written"):
        save_pretrained(generator.model, generator.tokenizer, tmp_path / "mine")
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "mine" / "config.json").exists()


def test_help_is_for_people(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "turn a task's folder into Hugging Face's format" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    output = capsys.readouterr().out
    assert "SOURCE TARGET" in output and "examples:" in output
    assert max(map(len, output.splitlines())) < 90
