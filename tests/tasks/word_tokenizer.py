"""A tokenizer of whole words whose special ids are one and the same, as GPT-2's."""


class WordTokenizer:
    """Ids from 1 on for words; id 0 is padding, the beginning and the end."""

    pad_id = bos_id = eos_id = 0

    def __init__(self, words):
        self.words = ["<end>", *words]
        self.vocabulary_size = len(self.words)

    def encode(self, texts, *, add_bos=False, add_eos=False, max_length=None):
        if not isinstance(texts, str):
            settings = dict(add_bos=add_bos, add_eos=add_eos, max_length=max_length)
            return [self.encode(text, **settings) for text in texts]
        words = map(self.words.index, texts.split())
        return [0] * add_bos + [*words][:max_length] + [0] * add_eos

    def decode(self, ids):
        return " ".join(self.words[id] for id in ids if id)

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
