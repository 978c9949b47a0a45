"""Trains spm.model, the tokenizer of the notebooks, on all bundled Korean text.

From the repository's folder, after a change of data/:

    python notebooks/make_spm_model.py
"""

from pathlib import Path

from keras_transformer.datasets import read_reviews
from keras_transformer.tokenizers import SentencePieceTokenizer

NOTEBOOKS = Path(__file__).resolve().parent
DATA = NOTEBOOKS.parent / "data"


def train() -> SentencePieceTokenizer:
    """Return a tokenizer of 8000 pieces; every character of the texts is covered."""
    reviews = read_reviews(DATA / "reviews_ko.tsv")["document"]
    pairs = read_reviews(
        DATA / "translation_ko_en.tsv", text_column="ko", label_column=None
    )["ko"]
    homonyms = read_reviews(
        DATA / "homonyms_ko.tsv", text_column="sentence", label_column=None
    )["sentence"]
    return SentencePieceTokenizer.train(
        [*reviews, *pairs, *homonyms],
        8000,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        num_sub_iterations=4,  # with 2, "타고" became "▁" and "타고"
    )


if __name__ == "__main__":
    path = NOTEBOOKS / "spm.model"
    tokenizer = train()
    tokenizer.save(path)
    print(f"{path}: {tokenizer.vocabulary_size} pieces, {path.stat().st_size} bytes")
