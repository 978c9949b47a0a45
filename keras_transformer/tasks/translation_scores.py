"""BLEU and chrF, as sacrebleu computes them."""

import re
from collections.abc import Sequence

HANGUL = re.compile("[\uac00-\ud7a3]")


def translation_metrics(references: Sequence[str]) -> dict:
    """Return sacrebleu's `"bleu"` and `"chrf"` for references of this language.

    References most of which have Hangul are cut into morphemes by sacrebleu's
    `ko-mecab`, others by its `13a`.

    Raises:
        ImportError: sacrebleu, or its Korean tokenizer, is not installed.
    """
    hangul = sum(HANGUL.search(text) is not None for text in references)
    korean = 2 * hangul > len(references)
    try:
        from sacrebleu.metrics import BLEU, CHRF

        return {
            "bleu": BLEU(tokenize="ko-mecab" if korean else "13a"),
            "chrf": CHRF(),
        }
    except (ImportError, RuntimeError) as error:  # the second without MeCab
        raise ImportError(
            "BLEU and chrF need sacrebleu, with its tokenizer for Korean. Install "
            "them with pip install 'keras-transformer-layers[metrics]'."
        ) from error


def translation_scores(
    metrics: dict, translations: Sequence[str], references: Sequence[str]
) -> dict[str, float | str]:
    """Return each metric's score (0 to 100), and its signature."""
    scores = {}
    for name, metric in metrics.items():
        scores[name] = metric.corpus_score(translations, [references]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores
