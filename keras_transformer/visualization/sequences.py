"""Which sequence of tokens a recorded layer looks from, and which it looks at."""

from collections.abc import Mapping

import numpy as np

from keras_transformer.visualization.attention_table import (
    check_tokens,
    check_whole,
    hidden_names,
)


class Sequence:
    """The tokens of one sequence, and which of its positions are shown.

    Args:
        argument: The name of the argument that gave the tokens.
        tokens: The tokens; None numbers the positions.
        views: Whether positions without tokens are views, counted from 1, as in
            `attention_table`; others are numbered from 0.
    """

    def __init__(self, argument: str, tokens=None, views: bool = False):
        self.argument, self.tokens, self.views = argument, tokens, views
        self._length: int | None = None
        self._seen = np.zeros(0, bool)

    def fit(self, path: str, weights, axis: str):
        """Check the tokens against the weights (N, T, S) of a layer, on one axis."""
        length = weights.shape[1 if axis == "query" else 2]
        if self.tokens is not None:
            try:
                self.tokens = check_tokens(self.tokens, self.argument, axis, length)
            except ValueError as error:
                raise ValueError(f"Layer {path!r}: {error}") from None
        elif self._length not in (None, length):
            raise ValueError(
                f"Layer {path!r} has {length} {axis} positions, other layers of the "
                f"same sequence have {self._length}. Give `tokens` as a mapping of "
                "each path to its pair (query tokens, key tokens); of several calls "
                "record one at a time."
            )
        self._length = length
        if axis == "key":
            seen = (weights > 0).any((0, 1))
            size = max(len(seen), len(self._seen))
            padded = [np.pad(x, (0, size - len(x))) for x in (seen, self._seen)]
            self._seen = padded[0] | padded[1]

    def kept(self, hide=None) -> list[int]:
        """Return the positions that are shown.

        A position that no query looks at, in any layer, is padding: softmax gives
        every other one a weight.
        """
        hidden = hidden_names(hide)
        count = self._length if self.tokens is None else len(self.tokens)
        seen = self._seen if self._seen.any() else np.ones(count, bool)
        names = self.texts(range(count))
        kept = [n for n in range(count) if seen[n] and names[n] not in hidden]
        if not kept:
            raise ValueError(
                f"Nothing is left to show of `{self.argument}`: {count} positions, "
                f"hide={hide!r}."
            )
        return kept

    def check_whole(self, path: str, weights):
        """Refuse tokens that leave out keys at which the queries (N, T, S) look."""
        if self.tokens is None:
            return
        try:
            check_whole(weights, len(self.tokens), self.argument)
        except ValueError as error:
            raise ValueError(f"Layer {path!r}: {error}") from None

    def texts(self, positions) -> list[str]:
        """Return the tokens at these positions."""
        if self.tokens is None and self.views:
            return [f"view {n + 1}" for n in positions]
        if self.tokens is None:
            return [str(n) for n in positions]
        return [str(self.tokens[n]) for n in positions]


def pair_sequences(kinds, queries, heads, tokens, target_tokens) -> dict:
    """Return the pair (query, key) of `Sequence`s of each layer; None if not known.

    Args:
        kinds: Layer path -> kind, see `attention_kind`.
        queries: Layer path -> what its queries are, see `AttentionRecord.queries`.
        heads: Layer path -> list of weights (N, T, S).
        tokens: The tokens of the only sequence, or of the source; or a mapping of
            each path to its pair.
        target_tokens: The tokens of the decoder's sequence, or None.
    """
    if isinstance(tokens, Mapping):
        if target_tokens is not None:
            raise ValueError("Give no `target_tokens` beside a mapping of `tokens`.")
        return _pairs_as_given(tokens)
    source = Sequence("tokens", tokens)
    target = Sequence("target_tokens", target_tokens)
    crossing = "cross" in kinds.values() or "cross" in queries.values()
    two = target_tokens is not None or crossing
    lengths = {
        heads[path][0].shape[1] for path in kinds if kinds[path] in ("decoder", "cross")
    }
    pairs = {}
    for path, kind in kinds.items():
        time, length = heads[path][0].shape[1:]
        known = queries.get(path)
        if known == "views":
            pairs[path] = Sequence("views", views=True), source
        elif kind == "cross" or known == "cross":
            pairs[path] = target, source
        elif kind == "single" and known == "self":
            own = target if two and time in lengths else source
            pairs[path] = own, own
        elif kind == "decoder" and two:
            pairs[path] = target, target
        elif kind == "single" and two and (time in lengths or not lengths):
            pairs[path] = target, source
        elif kind == "single" and time != length:
            pairs[path] = Sequence("views", views=True), source
        else:
            pairs[path] = source, source
    return pairs


def _pairs_as_given(tokens):
    if not tokens:
        raise ValueError("A mapping of `tokens` must name a layer. Received: {}.")
    made, pairs = {}, {}
    for path, pair in tokens.items():
        if pair is None:
            pairs[path] = None
            continue
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(
                "A mapping of `tokens` must hold a tuple (query tokens, key tokens) "
                f"for each layer. Received for {path!r}: {pair!r}."
            )
        query, key = (
            Sequence(f"tokens[{path!r}]", side, views=True)
            if side is None or isinstance(side, str)
            else made.setdefault(tuple(side), Sequence(f"tokens[{path!r}]", side))
            for side in pair
        )
        pairs[path] = query, key
    return pairs
