"""The n-gram baseline of the language model: the formulas, and a sum of one."""

from collections import Counter

import numpy as np
import pytest
from kneser_ney import FALLBACK, KneserNey

V, START, STOP = 12, 2, 3


def make_texts(seed, count, longest=9):
    """Texts whose tokens lean on the one before; the last two ids never come."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        text = [START, int(rng.integers(4, V - 2))]
        while len(text) <= rng.integers(1, longest):
            near = (text[-1] + rng.geometric(0.5)) % (V - 6)
            text.append(4 + int(near))
        texts.append([*text, STOP])
    return texts


class Plain:
    """The paper's formulas with dictionaries, one n-gram at a time."""

    def __init__(self, texts, order):
        self.order = order
        grams = [
            [tuple(t[i : i + n]) for t in texts for i in range(len(t) - n + 1)]
            for n in range(1, order + 1)
        ]
        self.k = []
        for n, found in enumerate(grams, start=1):
            times = Counter(found)
            if n < order:
                before = Counter(gram[1:] for gram in set(grams[n]))
                begin = {g: c for g, c in times.items() if g[0] == START}
                times = {**before, **begin}
            self.k.append({g: c for g, c in times.items() if g != (START,)})
        self.discounts = [self.discounts_of(k) for k in self.k]

    def discounts_of(self, k):
        n = Counter(k.values())
        if not (n[1] and n[2] and n[3]):
            return FALLBACK
        y = n[1] / (n[1] + 2 * n[2])
        found = tuple(c - (c + 1) * y * n[c + 1] / n[c] for c in (1, 2, 3))
        return found if min(found) >= 0 else FALLBACK

    def probability(self, token, context):
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        if context:
            shorter = self.probability(token, context[1:])
        else:
            shorter = 1 / (V - 1)
        k = self.k[len(context)]
        discounts = self.discounts[len(context)]
        followers = {g[-1]: c for g, c in k.items() if g[:-1] == context}
        if not followers:
            return shorter
        total = sum(followers.values())
        taken = sum(discounts[min(c, 3) - 1] for c in followers.values())
        own = followers.get(token, 0)
        kept = max(own - discounts[min(own, 3) - 1], 0) if own else 0
        return kept / total + taken / total * shorter


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [3, 200])
def test_it_equals_the_papers_formulas(order, count):
    texts, others = make_texts(0, count), make_texts(1, 20)
    model, plain = KneserNey(texts, V, order), Plain(texts, order)
    np.testing.assert_allclose(model.discounts, plain.discounts)
    assert model.parameters == sum(map(len, plain.k))
    if count == 200 and order > 1:  # order 1 has no n-gram that is rare
        assert model.discounts[-1] != FALLBACK
    expected = [
        plain.probability(text[place], text[:place])
        for text in others
        for place in range(1, len(text))
    ]
    np.testing.assert_allclose(2 ** model.log2_probabilities(others), expected)


def test_probabilities_sum_to_one_after_seen_and_unseen_contexts():
    texts = make_texts(0, 100)
    model = KneserNey(texts, V)
    seen = max(texts, key=len)[:6]
    unseen = [[START, V - 1], [*seen[:5], V - 2], [START, V - 1, *seen[2:5]]]
    after = [token for token in range(V) if token != START]
    for context in [seen[:size] for size in range(1, 7)] + unseen:
        rows = [[*context, token] for token in after]
        found = model.log2_probabilities(rows).reshape(len(after), len(context))
        assert (2.0 ** found[:, -1]).sum() == pytest.approx(1, abs=1e-12)
        assert np.isfinite(found).all()


def test_a_text_has_the_same_bits_alone_and_among_others():
    texts = make_texts(0, 50)
    model = KneserNey(texts, V)
    others = make_texts(1, 5)
    alone = [model.log2_probabilities([text]) for text in others]
    np.testing.assert_array_equal(
        model.log2_probabilities(others), np.concatenate(alone)
    )


def test_longer_contexts_foresee_texts_better_that_hang_together():
    train, test = make_texts(0, 500), make_texts(1, 100)
    bits = [-KneserNey(train, V, n).log2_probabilities(test).mean() for n in (1, 2)]
    assert bits[1] < bits[0] - 0.2
