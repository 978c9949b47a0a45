import base64
import json
import re

import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import fresh_process
from keras_transformer.visualization import attention_view, record_attention
from keras_transformer.visualization.view_data import quantize

ODD = ["</script><script>alert(1)</script>", "<!--", "{{data}}", "a\u2028b", '"&']


def data_of(page):
    """What the page holds, as its own script reads it."""
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*)</script>', page
    )
    return json.loads(text)


def weights_of(data, number):
    """The weights (N, T, S) of a layer of the page, as its own script reads them."""
    layer = data["layers"][number]
    lengths = [len(data["sequences"][layer[side]]) for side in ("query", "key")]
    levels = np.frombuffer(base64.b64decode(layer["weights"]), "uint8")
    levels = levels.reshape(len(layer["scales"]), *lengths)
    return (levels / 255.0) ** 2 * np.array(layer["scales"])[:, None, None]


def translator():
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None,), dtype="int32")
    embed = kt.PositionalEmbedding(9, 12, 8)
    encoded = kt.TransformerEncoder(8, 2, 12, name="encoder")(embed(source))
    decoded = kt.TransformerDecoder(8, 2, 12, name="decoder")(embed(target), encoded)
    additive = kt.BahdanauAttention(4, name="additive")(decoded, encoded)
    views = kt.SelfAttentiveEmbedding(3, 4, name="views")(encoded)
    return keras.Model([source, target], [additive, views])


@pytest.fixture(scope="module")
def translated():
    model = translator()
    with record_attention(model) as record:
        model(
            [np.array([[9, 8, 7, 6, 0], [5, 6, 7, 0, 0]]), np.array([[1, 2, 3, 0]] * 2)]
        )
    return record


def test_the_page_holds_the_recorded_weights_of_the_real_tokens(translated):
    tokens, target = ["나는", "간다", "."], ["<s>", "I", "go"]
    page = attention_view(translated, tokens=tokens, target_tokens=target, batch=1)
    data = data_of(page.html)
    kinds = {layer["name"]: layer["kind"] for layer in data["layers"]}
    assert kinds == {
        "encoder/self_attention": "encoder",
        "decoder/self_attention": "decoder",
        "decoder/cross_attention": "cross",
        "additive": "single",
        "views": "single",
    }
    views = ["view 1", "view 2", "view 3"]
    expected = {"encoder/self_attention": (tokens, tokens), "views": (views, tokens)}
    expected["decoder/self_attention"] = target, target
    for number, layer in enumerate(data["layers"]):
        sides = expected.get(layer["name"], (target, tokens))
        assert (
            data["sequences"][layer["query"]],
            data["sequences"][layer["key"]],
        ) == sides
        recorded = translated[layer["name"]][0][1]
        recorded = recorded if recorded.ndim == 3 else recorded[None]
        shown = weights_of(data, number)
        recorded = recorded[:, : shown.shape[1], : shown.shape[2]]
        np.testing.assert_allclose(shown, recorded, atol=1 / 255)
        np.testing.assert_allclose(shown.sum(-1), 1.0, atol=0.02)


def test_padding_is_left_out_even_where_no_tokens_are_given(translated):
    data = data_of(attention_view(translated, batch=1).html)
    sequences = {tuple(tokens) for tokens in data["sequences"]}
    assert sequences == {("0", "1", "2"), ("view 1", "view 2", "view 3")}
    first = data_of(attention_view(translated, batch=0).html)["sequences"]
    assert ["0", "1", "2", "3"] in first


def test_padding_that_is_given_as_tokens_is_left_out_too():
    tokens = ["<pad>", "<pad>", "a", "b"]
    weights = np.zeros((1, 1, 4, 4))
    weights[:, :, 2:, 2:] = 0.5
    data = data_of(attention_view({"layer": [weights]}, tokens=tokens).html)
    assert data["sequences"] == [["a", "b"]]
    np.testing.assert_allclose(weights_of(data, 0), 0.5, atol=1 / 255)


def test_eight_bits_are_near():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 40, 50)) * np.array([0.1, 2, 8])[:, None, None]
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    scales, levels = quantize(weights)
    near = (levels / 255.0) ** 2 * np.array(scales)[:, None, None]
    limits = np.array(scales)[:, None, None] / 255
    assert (np.abs(near - weights) <= limits * 1.01).all()
    small = (weights >= limits * 2.55) & (weights <= limits * 5)
    assert small.any() and (np.abs(near / weights - 1)[small] < 0.05).all()
    assert quantize(np.zeros((1, 2, 2)))[0] == [0.0]


def test_a_language_model_has_one_sequence():
    block = kt.TransformerBlock(8, 2, 12, causal=True, name="block_0")
    model = keras.Sequential([kt.PositionalEmbedding(9, 12, 8), block])
    with record_attention(model) as record:
        model(np.array([[1, 2, 3]]))
    data = data_of(attention_view(record, tokens=["a", "b", "c"]).html)
    assert [layer["kind"] for layer in data["layers"]] == ["decoder"]
    assert data["sequences"] == [["a", "b", "c"]]


def test_the_page_cuts_off_no_token_that_is_looked_at(translated):
    message = "'encoder/self_attention': `tokens` has 2 tokens, but key 3 is looked at"
    with pytest.raises(ValueError, match=message):
        attention_view(translated, tokens=["나는", "간다"], batch=1)
    tokens = ["나는", "간다", "."]
    data = data_of(attention_view(translated, tokens=tokens, batch=1, hide=".").html)
    assert data["sequences"][0] == tokens[:2]


def test_a_layer_called_twice_is_shown_twice():
    weights = np.full((1, 1, 2, 2), 0.5)
    data = data_of(attention_view({"shared": [weights, weights]}).html)
    assert [x["name"] for x in data["layers"]] == ["shared (call 1)", "shared (call 2)"]


def test_a_mapping_of_tokens_chooses_and_names_the_layers(translated):
    source = ["나는", "집에", "간다", "."]
    pairs = {"additive": (["<s>"], source), "views": (None, source)}
    data = data_of(attention_view(translated, tokens=pairs).html)
    assert [layer["name"] for layer in data["layers"]] == ["additive", "views"]
    names = ["view 1", "view 2", "view 3"]
    assert data["sequences"] == [["<s>"], source, names]


def test_odd_tokens_are_texts_and_end_nothing(tmp_path):
    weights = [np.full((1, 1, 5, 5), 0.2)]
    file = tmp_path / "페이지.html"
    page = attention_view({"a": weights}, file, tokens=ODD, title="</title><b>")
    assert file.read_text("utf-8") == page.html
    assert data_of(page.html)["sequences"] == [ODD]
    assert "alert(1)</script>" not in page.html
    assert "<b>" not in page.html.split("<style>")[0]
    assert page._repr_html_().count("<") == 2  # the frame alone


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda **k: kt.MultiHeadAttention(2, 4, **k), "encoder"),
        (lambda **k: kt.BahdanauAttention(4, **k), "single"),
    ],
)
def test_two_sequences_of_one_length_are_told_from_one(make, kind, policy):
    layer = make(name="attention", dtype=policy)
    one, other = np.random.default_rng(0).normal(size=(2, 1, 3, 8)).astype("float32")
    words, numbers = ["나는", "집에", "간다"], ["0", "1", "2"]
    for queries, rows in ((one, words), (other, numbers)):
        with record_attention(layer) as record:
            layer(queries, one)
        data = data_of(attention_view(record, tokens=words).html)
        (shown,) = data["layers"]
        assert data["sequences"][shown["query"]] == rows
        assert data["sequences"][shown["key"]] == words
        own = rows is words
        assert record.queries == {"attention": "self" if own else "cross"}
        assert shown["kind"] == (kind if own or kind == "single" else "cross")


def test_as_many_views_as_tokens_are_no_tokens():
    layer = kt.SelfAttentiveEmbedding(3, 4, name="views")
    with record_attention(layer) as record:
        layer(np.ones((1, 3, 8), "float32"))
    data = data_of(attention_view(record, tokens=["나는", "집에", "간다"]).html)
    assert ["view 1", "view 2", "view 3"] in data["sequences"]


def test_hidden_tokens_are_left_out():
    weights = np.random.default_rng(0).random((1, 2, 3, 3))
    page = attention_view({"a": [weights]}, tokens=["[CLS]", "배", "[SEP]"], hide="배")
    data = data_of(page.html)
    assert data["sequences"] == [["[CLS]", "[SEP]"]] and data["hides"]
    np.testing.assert_allclose(
        weights_of(data, 0), weights[0][:, ::2, ::2], atol=1 / 255
    )


def test_tokens_are_hidden_by_name_whatever_they_are():
    weights = np.random.default_rng(0).random((1, 2, 3, 3)).astype("float32")
    for hide in (0, [0], (np.int64(0),)):
        page = attention_view({"a": [weights]}, tokens=[0, 7, 8], hide=hide)
        assert data_of(page.html)["sequences"] == [["7", "8"]]
        table = kt.attention_table(weights, [0, 7, 8], hide=hide)
        assert list(table.columns) == [7, 8]


def test_a_row_of_self_attention_is_not_left_out_silently():
    causal = np.tri(4)[None, None] / np.arange(1, 5)[:, None]
    with pytest.raises(ValueError, match="`tokens` has 3 tokens, but key 4"):
        attention_view({"decoder": [causal]}, tokens=["I", "go", "."])


def test_half_a_character_is_shown_and_leaves_an_older_page_whole(tmp_path):
    file, weights = tmp_path / "page.html", [np.ones((1, 1, 1, 1))]
    page = attention_view({"a": weights}, file, tokens=["\ud83d"], title="\udc00")
    assert file.read_text("utf-8") == page.html
    assert data_of(page.html)["sequences"] == [["?"]]
    assert "<title>?" in page.html and "bytes" in repr(page)


def test_a_layer_of_several_sequences_is_numbered_beside_those_of_one():
    layer, other = kt.MultiHeadAttention(1, 2), kt.MultiHeadAttention(1, 2)
    record = kt.AttentionRecord(layer)
    record.add(layer, np.ones((1, 1, 1, 1)), tokens=[(["a"], ["b"])])
    record.add(other, np.ones((1, 1, 1, 1)), tokens=[(["c"], ["d"])])
    both = [(["e", "f"], ["g", "h", "i"])]
    record.add(other, np.ones((1, 1, 2, 3)) / 3, tokens=both)
    for batch in (0, -1):
        data = data_of(attention_view(record, batch=batch).html)
        assert len(data["layers"]) == 3
        shown = [["a"], ["b"], ["0"], ["0"], ["0", "1"], ["0", "1", "2"]]
        assert data["sequences"] == shown


def test_layers_of_other_libraries_are_named():
    inputs = keras.Input((None, 8))
    x = kt.TransformerEncoder(8, 2, 12, name="ours")(inputs)
    theirs = keras.layers.MultiHeadAttention(2, 4, name="theirs")
    model = keras.Model(inputs, theirs(x, x))
    with record_attention(model) as record:
        model(np.ones((1, 3, 8), "float32"))
    assert data_of(attention_view(record).html)["notRecorded"] == ["theirs"]


def test_the_page_loads_nothing_and_is_small():
    page = attention_view({"a": [np.ones((1, 1, 1, 1))]}).html
    assert len(page.encode()) < 300_000
    assert not re.search(r"https?://|@import|url\(|\bsrc=|<link", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(tokens=["a"] * 6), ValueError, "'encoder/self_attention'.*6 tokens"),
        (dict(tokens="나는 간다"), TypeError, "not one text"),
        (dict(target_tokens=["a"] * 5), ValueError, "`target_tokens` has 5 tokens"),
        (dict(batch=2), ValueError, "`batch` must be below 2"),
        (dict(language="fr"), ValueError, "`language` must be one of"),
        (dict(tokens=["a"], hide="a"), ValueError, "Nothing is left"),
        (dict(tokens={"other": (["a"], ["b"])}), KeyError, "Recorded: 'encoder/self"),
        (dict(tokens={"views": ["a"]}), ValueError, r"a tuple \(query tokens"),
        (dict(tokens={}, target_tokens=["a"]), ValueError, "Give no `target_tokens`"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    translated, tmp_path, arguments, error, message
):
    file = tmp_path / "page.html"
    with pytest.raises(error, match=message):
        attention_view(translated, file, **arguments)
    assert not file.exists()


def test_what_is_no_record_is_refused(translated):
    with pytest.raises(TypeError, match="must be what `record_attention` gives"):
        attention_view(translated["views"])
    with pytest.raises(ValueError, match="holds nothing. Call the model"):
        attention_view({})
    model = translator()
    with pytest.raises(ZeroDivisionError):
        with record_attention(model) as record:
            raise ZeroDivisionError
    with pytest.raises(ValueError, match="failed with ZeroDivisionError"):
        attention_view(record)
    with pytest.raises(ValueError, match="'a' must be numbers of at least 0"):
        attention_view({"a": [np.full((1, 1, 2, 2), np.nan)]})
    plain = {"a": [np.ones((1, 1, 2, 2))]}
    with pytest.raises(KeyError, match="recorded as 'b'. Recorded: 'a'"):
        attention_view(plain, tokens={"b": (["x"], ["y"])})
    with pytest.raises(ValueError, match="'a': ndarray. Put an array in a list"):
        attention_view({"a": plain["a"][0]})
    uneven = {"a": [np.ones((1, 1, 2, 2))], "b": [np.ones((1, 1, 3, 3))]}
    with pytest.raises(ValueError, match="'b' has 3 query positions.*mapping"):
        attention_view(uneven)
    with pytest.raises(ValueError, match="`tokens` must name a layer"):
        attention_view(plain, tokens={})


def test_matplotlib_is_not_needed_for_the_page():
    code = """
import sys
sys.modules["matplotlib"] = None
from keras_transformer.visualization import attention_view
print(attention_view({"a": [[[[[1.0]]]]]}))
"""
    assert fresh_process(code).startswith("<AttentionPage of ")
