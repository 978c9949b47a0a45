"""The text that follows a prompt, from token ids that come one at a time."""

from collections.abc import Iterable, Iterator

REPLACEMENT = "\ufffd"  # what bytes are decoded to that form no character


class Continuation:
    """Decode the ids that follow a prompt.

    The texts of `put` and `end`, joined, are the continuation: behind the prompt as
    it was given, they read on. Bytes that form no character are left out.

    Args:
        tokenizer: A tokenizer with `decode_stream`.
        prompt: The prompt as it was given.
        ids: Its token ids.

    Example:

    >>> continuation = Continuation(tokenizer, "나는", tokenizer.encode("나는"))
    >>> text = "".join(map(continuation.put, ids)) + continuation.end()
    """

    def __init__(self, tokenizer, prompt: str, ids):
        self._stream = tokenizer.decode_stream()
        seen = "".join(map(self._stream.put, ids))
        # A space at the prompt's end that the tokenizer did not see stands there.
        self._has_space = prompt[-1:].isspace() and not seen[-1:].isspace()

    def put(self, id: int) -> str:
        """Take one id, and return the text that is certain with it, often `""`."""
        return self._clean(self._stream.put(id))

    def end(self) -> str:
        """Return what is left."""
        return self._clean(self._stream.end())

    def _clean(self, text):
        text = text.replace(REPLACEMENT, "")
        if text and self._has_space:
            text, self._has_space = text.removeprefix(" "), False
        return text


def continue_text(
    tokenizer, prompt: str, ids, tokens: Iterable, stop_ids
) -> Iterator[str]:
    """Yield the text of the tokens that follow a prompt, piece by piece.

    Args:
        tokenizer: As in `Continuation`.
        prompt: As in `Continuation`.
        ids: As in `Continuation`.
        tokens: The ids of the continuation.
        stop_ids: The first of these ends it, and is no part of it.
    """
    continuation = Continuation(tokenizer, prompt, ids)
    for id in map(int, tokens):
        if id in stop_ids:
            break
        if piece := continuation.put(id):
            yield piece
    if piece := continuation.end():
        yield piece
