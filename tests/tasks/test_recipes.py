"""The recipes: their models, and which settings of these can be chosen."""

import pytest

import keras_transformer as kt
from keras_transformer.tasks.recipes import CLASSIFIERS, GENERATORS, TRANSLATORS
from keras_transformer.tokenizers import SentencePieceTokenizer

TASKS = {
    "classifier": (CLASSIFIERS, kt.TextClassifier.from_texts, (["a", "b"], [0, 1])),
    "generator": (GENERATORS, kt.TextGenerator.from_texts, (["a", "b"],)),
    "translator": (TRANSLATORS, kt.Translator.from_pairs, ([("a", "b")],)),
}
RECIPES = [(task, name) for task, (recipes, *_) in TASKS.items() for name in recipes]


@pytest.mark.parametrize("task, name", RECIPES)
def test_unknown_settings_are_refused_before_a_tokenizer_is_trained(
    task, name, monkeypatch
):
    monkeypatch.setattr(SentencePieceTokenizer, "train", None)
    recipes, make, data = TASKS[task]
    builder = recipes[name].build.__name__
    message = f"{builder}, has no setting 'embed_dims', 'heads' .* has: .*embed_dim, "
    with pytest.raises(ValueError, match=message):
        make(*data, name, embed_dims=8, dropout=0.1, heads=2)


@pytest.mark.parametrize("task, name", RECIPES)
def test_a_recipes_own_settings_can_be_chosen(task, name):
    recipe = TASKS[task][0][name]
    recipe.check_settings({**recipe.settings, **recipe.plugs, "name": "mine"})


def test_a_setting_of_another_recipe_or_of_the_task_is_refused():
    with pytest.raises(ValueError, match="no setting 'num_heads'.*units, .*trainable"):
        kt.Translator.from_pairs([("a", "b")], "2014", num_heads=2)
    with pytest.raises(ValueError, match="no setting 'stop_id'"):
        kt.Translator.from_pairs([("a", "b")], stop_id=3)
    with pytest.raises(ValueError, match="no setting 'num_classes'"):
        kt.TextClassifier.from_texts(["a", "b"], [0, 1], num_classes=3)


def test_each_model_has_layers_of_its_own_for_its_plugs():
    sizes = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=8)
    one, other = (GENERATORS["llama"].make(20, **sizes) for _ in range(2))
    assert one.decoder.rotary is not other.decoder.rotary
    assert GENERATORS["llama"].make(20, **sizes, rotary=None).decoder.rotary is None
