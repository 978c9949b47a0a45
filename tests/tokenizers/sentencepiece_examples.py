"""What the tests of SentencePieceTokenizer share: a corpus of their own, and models."""

import functools
import io
import itertools
import random
import warnings

import sentencepiece as spm

from keras_transformer.tokenizers import SentencePieceTokenizer

TYPES = ["unigram", "bpe", "char", "word"]
# Stems and endings: a unigram model finds no subwords in words that share none.
STEMS = "만나 기다리 마시 그리 가르치 달리 던지 나누 외우 고치 버리 지우".split()
ENDINGS = "고 지만 려고 면서 니까 는데 던 겠지 거든 네요".split()
PLACES = "강가에서 시장에서 도서관에서 골목에서".split()
ENDS = ["ㅋㅋㅋ", "ㅠㅠ", "(정말로, a b c)", "한글 재밌다!"]
CORPUS = [
    f"오늘 {PLACES[number % 4]} {stem}{ending} {other}{ending} {ENDS[number % 3]}"
    for number, (ending, (stem, other)) in enumerate(
        itertools.product(ENDINGS, itertools.pairwise([*STEMS, "만나"]))
    )
] + [f"어제 {end}" for end in ENDS]
TWELVE = CORPUS[-12:]
SPACED = "  a  b\n\tc "
# What may stand in a text: seen and unseen characters, spaces of many kinds, signs.
ODD = "가강ㅋㅠ㈜︰깰🚀🚁é한ñΩ⁇▁▅a b  \t\n\r\u3000\u00a0\u200b<s></s><pad>0xEA"


@functools.cache
def trained(size=300, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SentencePieceTokenizer.train(CORPUS, size, **arguments)


def small(texts=TWELVE, size=200, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SentencePieceTokenizer.train(texts, size, **arguments)


@functools.cache
def foreign(**arguments):
    """A model file as SentencePiece makes it by itself."""
    arguments = {"vocab_size": 150, "hard_vocab_limit": False, **arguments}
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, minloglevel=2, **arguments
    )
    spm.set_min_log_level(0)
    return model.getvalue()


def plain(tokenizer):
    return spm.SentencePieceProcessor(model_proto=tokenizer.serialized)


def special_ids(tokenizer):
    return [tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id]


def odd_texts(count=150, length=12):
    rng = random.Random(0)
    return ["".join(rng.choices(ODD, k=rng.randrange(length))) for _ in range(count)]
