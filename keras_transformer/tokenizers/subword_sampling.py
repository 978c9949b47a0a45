"""Subword regularization: pieces drawn at random, and the same again by a seed."""

import heapq
import math
import random
import re

from keras_transformer.tokenizers.checks import check_integer
from keras_transformer.tokenizers.model_file import read_pieces, read_settings

NORMAL, USER_DEFINED = 1, 4  # types of pieces
UNIGRAM, BPE = 1, 2  # types of models


class SubwordSampler:
    """Draw pieces as SentencePiece does, in Python and from a seed.

    SentencePiece's own sampler has one seed for the whole process, and draws other
    pieces from the same seed in the next process.

    Args:
        serialized: Content of the model file.
        processor: Its `SentencePieceProcessor`.

    Raises:
        ValueError: Neither a unigram nor a BPE model.

    Source: Kudo 2018, https://arxiv.org/abs/1804.10959 (unigram); Provilkov et al.
    2020, https://arxiv.org/abs/1910.13267 (BPE)
    """

    def __init__(self, serialized: bytes, processor):
        settings = read_settings(serialized)
        if settings["model_type"] not in (UNIGRAM, BPE):
            raise ValueError(
                "`sample=True` needs a model of type 'unigram' or 'bpe': a text has "
                "only one way to be cut into characters or words."
            )
        self.processor = processor
        self.is_bpe = settings["model_type"] == BPE
        self.byte_fallback = settings["byte_fallback"]
        pieces = list(read_pieces(serialized))
        self.scores = {piece: score for piece, score, kind in pieces if kind == NORMAL}
        self.longest = max(map(len, self.scores), default=1)
        # SentencePiece's score for a character that no piece covers.
        self.unknown = min(self.scores.values(), default=0.0) - 10.0
        symbols = [piece for piece, _, kind in pieces if kind == USER_DEFINED]
        self.symbols = frozenset(symbols)
        longest_first = map(re.escape, sorted(symbols, key=len, reverse=True))
        self.split = re.compile(f"({'|'.join(longest_first)})" if symbols else "(?!)")

    def draw(self, texts, out_type, alpha: float, nbest: int, seed: int | None):
        """Return one list of ids or pieces for each text.

        Args:
            texts: Strings.
            out_type: `int` or `str`.
            alpha: As in `SentencePieceTokenizer.encode`.
            nbest: As in `SentencePieceTokenizer.encode`.
            seed: The seed; `None` takes SentencePiece's faster sampler.
        """
        if not (math.isfinite(alpha) and alpha >= 0) or (nbest != -1 and nbest < 2):
            raise ValueError(
                "`alpha` must be at least 0, and `nbest` at least 2, or -1 for all. "
                f"Received: alpha={alpha!r}, nbest={nbest!r}."
            )
        if seed is None:
            return self.processor.encode(
                texts,
                out_type=out_type,
                enable_sampling=True,
                alpha=alpha,
                nbest_size=nbest,
                num_threads=1,
            )
        rng = random.Random(check_integer("seed", seed, 0))
        rows = [self._draw(text, alpha, nbest, rng) for text in texts]
        if out_type is str:
            return rows
        return [[self._id(piece) for piece in row] for row in rows]

    def _id(self, piece):
        # Unknown characters may spell a special piece: "<s>".
        known = piece in self.scores or piece in self.symbols or self.byte_fallback
        return self.processor.piece_to_id(piece) if known else self.processor.unk_id()

    def _draw(self, text, alpha, nbest, rng):
        if nbest > 1 and not self.is_bpe:
            rows = self.processor.nbest_encode(text, nbest_size=nbest, out_type=str)
            # Unknown characters add the same to all.
            sums = [sum(self.scores.get(piece, 0.0) for piece in row) for row in rows]
            return rows[_choose([alpha * score for score in sums], rng)] if rows else []
        pieces = []
        draw = self._merge if self.is_bpe else self._walk
        for part in self.split.split(self.processor.normalize(text)):
            pieces += [part] if part in self.symbols else draw(part, alpha, rng)
        return list(self._known(pieces))

    def _walk(self, text, alpha, rng):
        """Draw one of all ways to cut a text, with probability ~ p(way) ** alpha."""
        # Each place: log of the sum over all ways that end there, then the last
        # pieces that those ways have.
        sums, ends = [0.0], [[]]
        for end in range(1, len(text) + 1):
            starts, weights = [], []
            for start in range(max(0, end - self.longest), end):
                score = self.scores.get(text[start:end])
                if score is None and start == end - 1:
                    score = self.unknown
                if score is not None:
                    starts.append(start)
                    weights.append(sums[start] + alpha * score)
            peak = max(weights)
            sums.append(peak + math.log(sum(math.exp(w - peak) for w in weights)))
            ends.append((starts, weights))
        pieces, end = [], len(text)
        while end:
            starts, weights = ends[end]
            start = starts[_choose(weights, rng)]
            pieces.append(text[start:end])
            end = start
        return pieces[::-1]

    def _merge(self, text, alpha, rng):
        """Merge the best pair again and again, but leave out a share `alpha`."""
        parts = list(text)
        after = [*range(1, len(parts)), None]
        before = [None, *range(len(parts) - 1)]
        queue = []

        def offer(left, right):
            if left is not None and right is not None:
                score = self.scores.get(parts[left] + parts[right])
                if score is not None:
                    entry = (-score, left, right, parts[left], parts[right])
                    heapq.heappush(queue, entry)

        for left in range(len(parts) - 1):
            offer(left, left + 1)
        while queue:
            _, left, right, first, second = heapq.heappop(queue)
            if (parts[left], parts[right]) != (first, second) or rng.random() < alpha:
                continue
            parts[left], parts[right] = first + second, ""
            after[left] = after[right]
            if after[right] is not None:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [part for part in parts if part]

    def _known(self, pieces):
        """Turn unknown characters into bytes, or join neighbours as one unknown."""
        run = ""
        for piece in pieces:
            if piece in self.scores or piece in self.symbols:
                if run:
                    yield run
                run = ""
                yield piece
            elif self.byte_fallback:
                yield from (f"<0x{byte:02X}>" for byte in piece.encode())
            else:
                run += piece
        if run:
            yield run


def _choose(weights, rng):
    """Draw an index, given logarithms of weights."""
    peak = max(weights)
    sizes = [math.exp(weight - peak) for weight in weights]
    place = rng.random() * sum(sizes)
    for index, size in enumerate(sizes):
        place -= size
        if place < 0:
            return index
    return len(sizes) - 1
