"""Streams of tokenizers whose decoding changes earlier text."""

from keras_transformer.tokenizers.decode_stream import DecodeStream


class Cleaning:
    """Decodes as BERT's tokenizer: what stands before an apostrophe moves to it."""

    words = ["it", "'", "s", "good", "."]

    def decode(self, ids):
        text = " ".join(self.words[id] for id in ids)
        return text.replace(" ' s", "'s").replace(" .", ".")


def test_a_stream_goes_on_after_earlier_text_has_changed():
    stream = DecodeStream(Cleaning())
    assert [stream.put(id) for id in range(5)] == ["it", " '", " s", " good", "."]
    assert stream.end() == ""
    assert [stream.put(3), stream.put(4), stream.end()] == ["good", ".", ""]
