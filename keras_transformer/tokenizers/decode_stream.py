"""Text from token ids that come one at a time."""


class DecodeStream:
    """Decode ids one at a time, as they are generated.

    The texts of `put` and `end`, joined, are `tokenizer.decode` of all the ids,
    unless decoding a later id changes text before it (as the clean-up of a BERT
    tokenizer does to `it ' s`): what was returned stays as it is. `put` returns `""`
    while the bytes of a character are incomplete, so that no U+FFFD (replacement
    character) stands for half of one.

    Args:
        tokenizer: A tokenizer with `decode`, whose `decode_stream()` makes this.

    Example:

    >>> from keras_transformer.tokenizers import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 다"], 8, model_type="char")
    >>> stream = tokenizer.decode_stream()
    >>> [stream.put(id) for id in tokenizer.encode("나 다")] + [stream.end()]
    ['', '나', ' ', '다', '']
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self._ids, self._said = [], 0

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
        ids = [*self._ids, id]
        text = self._rest(ids)
        self._ids = ids
        if not text or text.endswith("\ufffd"):
            return ""
        # A text loses its spaces at the front: so the ids of the last visible text
        # stay, and what they say is cut off.
        if text.strip():
            self._ids = ids[self._said :]
        self._said = len(self._ids)
        return text

    def end(self) -> str:
        """Return what is left (bytes of no character), and begin anew."""
        rest = self._rest(self._ids)
        self._ids, self._said = [], 0
        return rest

    def _rest(self, ids):
        said = self.tokenizer.decode(ids[: self._said])
        return self.tokenizer.decode(ids)[len(said) :]
