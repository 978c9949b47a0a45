"""BLEU and chrF, as sacrebleu computes them."""

import re
from collections.abc import Sequence

HANGUL = re.compile("[\uac00-\ud7a3]")


def translation_scores(
    translations: Sequence[str], references: Sequence[str]
) -> dict[str, float | str]:
    """Return `"bleu"` and `"chrf"` (0 to 100), and their signatures.

    Korean references are cut into morphemes by sacrebleu's `ko-mecab`, others by
    its `13a`.

    Raises:
        ImportError: sacrebleu, or its Korean tokenizer, is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError as error:
        raise ImportError(
            "BLEU and chrF need sacrebleu. Install it with "
            "pip install 'keras-transformer-layers[metrics]'."
        ) from error
    korean = any(HANGUL.search(text) for text in references)
    bleu, chrf = BLEU(tokenize="ko-mecab" if korean else "13a"), CHRF()
    scores = {}
    for name, metric in (("bleu", bleu), ("chrf", chrf)):
        scores[name] = metric.corpus_score(translations, [references]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores
