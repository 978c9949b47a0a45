"""Korean sentences whose homonyms are told apart by their neighbours."""

from typing import NamedTuple

import pandas as pd

from keras_transformer.datasets.reviews import read_reviews
from keras_transformer.datasets.tables import bundled


class Homonyms(NamedTuple):
    """The two parts of the bundled homonyms."""

    train: pd.DataFrame
    test: pd.DataFrame


def load_homonyms() -> Homonyms:
    """Load the bundled sentences around homonyms (`data/README.md`).

    Returns:
        `train` and `test`, each a pandas table with the columns `id`, `word`, `sense`
        and `sentence`. The word stands once in its sentence, at the beginning of a
        token.

    Example:

    >>> train, test = load_homonyms()
    >>> boats = train[(train["word"] == "배") & (train["sense"] == "boat")]

    (chapter: 6)
    """
    frame = read_reviews(
        bundled("homonyms_ko.tsv"), text_column="sentence", label_column=None
    )
    return Homonyms(
        *(
            frame[frame["split"] == name].drop(columns="split").reset_index(drop=True)
            for name in Homonyms._fields
        )
    )
