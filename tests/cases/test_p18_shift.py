"""P18 in generation: a token is predicted from the one before it, not the next.

Sources: keras-team/keras-io#1968, #1969; huggingface/transformers#16940, #7112;
jadore801120/attention-is-all-you-need-pytorch#123, #44; keras-team/keras PR #8187.
"""

import numpy as np
import pytest

from keras_transformer.generation import beam_search, generate, stream
from stub_models import counting_table, table_model

from .examples import quick

STOP = 14
BUFFERS = [
    [[10]],
    np.array([[10]]),
    *[np.array([[10, *[0] * padding]]) for padding in (1, 5, 20)],
    *[np.array([[*[0] * padding, 10]]) for padding in (1, 5, 20)],
    {
        "token_ids": np.array([[7, 7, 10, 7]]),
        "padding_mask": np.array([[0, 0, 1, 0]], bool),
    },
]


def counter(**settings):
    """After each token i comes i + 1."""
    return table_model(counting_table(16), last_only=True, stop_id=STOP, **settings)


@pytest.mark.parametrize("compiled", quick([True, False], [False]))
@pytest.mark.parametrize("inputs", BUFFERS, ids=range(len(BUFFERS)))
def test_the_count_goes_on_from_prompts_padded_to_any_length(inputs, compiled):
    settings = {"max_new_tokens": 8, "jit_compile": compiled}
    expected = [11, 12, 13, STOP]
    assert generate(counter(), inputs, **settings).tolist() == [expected]
    steps = [int(token[0]) for token in stream(counter(), inputs, **settings)]
    assert steps == expected
    for beams in (1, 3):
        (row,) = beam_search(counter(), inputs, num_beams=beams, **settings)
        assert row[0].token_ids == expected


def test_rows_count_on_from_where_each_is():
    prompts = [[10], [1, 2, 3], [13]]
    found = generate(counter(), prompts, max_new_tokens=4)
    assert found.tolist() == [[11, 12, 13, 14], [4, 5, 6, 7], [14, 0, 0, 0]]
    beams = beam_search(counter(), prompts, num_beams=2, max_new_tokens=4)
    best = [row[0].token_ids for row in beams]
    assert best == [[11, 12, 13, 14], [4, 5, 6, 7], [14]]


def test_a_translation_counts_on_from_the_start_id():
    for source in ([[3]], [[3, 8, 9]], np.array([[3, 0, 0, 0]])):
        model = counter(start_id=10)
        expected = [11, 12, 13, STOP]
        assert generate(model, source, max_new_tokens=8).tolist() == [expected]
        (row,) = beam_search(model, source, num_beams=2, max_new_tokens=8)
        assert row[0].token_ids == expected
