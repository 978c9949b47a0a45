"""Text from token ids that come one at a time."""


class DecodeStream:
    """Decode ids one at a time, as they are generated.

    The texts of `put` and `end`, joined, are `tokenizer.decode` of all the ids.
    `put` returns `""` while the bytes of a character are incomplete, so that no
    U+FFFD (replacement character) stands for half of one.

    Args:
        tokenizer: A `SentencePieceTokenizer`, whose `decode_stream()` makes this.

    Example:

    >>> from keras_transformer.tokenizers import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 다"], 8, model_type="char")
    >>> stream = tokenizer.decode_stream()
    >>> [stream.put(id) for id in tokenizer.encode("나 다")] + [stream.end()]
    ['', '나', ' ', '다', '']
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self._start, self._bytes = [], []

    def put(self, id) -> str:
        """Take one id, and return the text that is certain with it.

        Args:
            id: A Python or NumPy integer.

        Returns:
            Text that follows what was returned before; often `""`.

        Raises:
            TypeError: An id that is not an integer.
            ValueError: An id outside the vocabulary.
        """
        tokenizer, byte = self.tokenizer, self.tokenizer.byte_of(id)
        if id in (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id):
            return ""
        if byte is None:
            return self._emit([id])
        self._bytes.append((id, byte))
        return self._emit([]) if _is_utf8(byte for _, byte in self._bytes) else ""

    def end(self) -> str:
        """Return what is left (bytes of no character), and begin anew."""
        rest = self._emit([])
        self._start = []
        return rest

    def _emit(self, ids):
        # The first text of all loses its leading space, others do not: so ids are
        # decoded after those of the first text, which is then cut off.
        ids, self._bytes = [id for id, _ in self._bytes] + ids, []
        before = self.tokenizer.decode(self._start)
        text = self.tokenizer.decode(self._start + ids)[len(before) :]
        if not before:
            self._start = self._start + ids
        return text


def _is_utf8(values):
    try:
        bytes(values).decode()
    except UnicodeDecodeError:
        return False
    return True
