"""A tokenizer of whole words whose special ids are one and the same, as GPT-2's."""


class WordTokenizer:
    """Ids from 1 on for words; id 0 is padding, the beginning and the end."""

    pad_id = bos_id = eos_id = 0

    def __init__(self, words):
        self.words = ["<end>", *words]
        self.vocabulary_size = len(self.words)

    def encode(self, texts, *, add_bos=False):
        first = [0] if add_bos else []
        if isinstance(texts, str):
            return [*first, *map(self.words.index, texts.split())]
        return [self.encode(text, add_bos=add_bos) for text in texts]

    def id_to_piece(self, id):
        return self.words[id]

    def decode_stream(self):
        return WordStream(self)


class WordStream:
    def __init__(self, tokenizer):
        self.tokenizer, self.space = tokenizer, ""

    def put(self, id):
        if not id:
            return ""
        space, self.space = self.space, " "
        return space + self.tokenizer.words[id]

    def end(self):
        return ""
