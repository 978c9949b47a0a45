"""Train an encoder on raw text: hide words, and have it find them."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.datasets import BucketedDataset
from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.tasks.texts import check_texts
from keras_transformer.tasks.words.word_vectors import word_pieces
from keras_transformer.training import TokenCrossentropy, mask_tokens

MASK_PIECE = "<mask>"
ENDS = ("pad", "bos", "eos", "cls", "sep")  # what a text without a letter may have


def fit_masked_words(
    model,
    tokenizer,
    texts: Sequence[str],
    *,
    spans: Sequence | None = None,
    epochs: int = 10,
    rate: float = 0.15,
    span_rate: float = 0.5,
    learning_rate: float = 2e-3,
    max_tokens: int = 4096,
    seed: int = 0,
    verbose="auto",
) -> keras.callbacks.History:
    """Train a `MaskedLanguageModel` on raw texts; each epoch hides other words.

    Args:
        model: The model; it is compiled here, with AdamW and a learning rate that
            falls to nothing along a line.
        tokenizer: Its tokenizer, with a `mask_id`, as BERT's has it, or with a piece
            `<mask>`:
            `SentencePieceTokenizer.train(..., user_defined_symbols=["<mask>"])`.
        texts: The texts. What is longer than the model's positions is cut off; texts
            without a letter are left out.
        spans: For each text `None`, or a word in it (first letter, last + 1) that is
            asked for more often than others, so that the model learns to tell it
            from its context.
        epochs: How often each text is read.
        rate: Probability of a piece to be asked for; see `mask_tokens`.
        span_rate: The same for a piece of a span.
        learning_rate: Where the learning rate begins.
        max_tokens: Most ids in a batch, padding included.
        seed: Seed of the masks and of the batches' order. The weights' and the
            dropout's are set by `keras.utils.set_random_seed` before.
        verbose: As in `fit`.

    Returns:
        Keras's `History`, with `loss` for each epoch.

    Raises:
        TypeError: A text that is no string.
        ValueError: No texts, a text of nothing but unknown pieces, a tokenizer without
            a mask, a rate out of range.

    Example:

    >>> history = fit_masked_words(model, tokenizer, texts, epochs=5)

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (3.1) (chapter: 6)
    """
    epochs = check_integer("epochs", epochs)
    check_number("learning_rate", learning_rate, above=0)
    check_number("rate", rate, above=0, at_most=1)
    check_number("span_rate", span_rate, above=0, at_most=1)
    texts, _ = check_texts(texts)
    spans = [None] * len(texts) if spans is None else list(spans)
    if len(spans) != len(texts):
        raise ValueError(
            "`spans` must have a span or None for each text. Received: "
            f"{len(texts)} texts, {len(spans)} spans."
        )
    mask_id = _mask_id(tokenizer)
    empty = {getattr(tokenizer, f"{role}_id", None) for role in ENDS}
    special = {*empty, tokenizer.unk_id}
    rows, rates = [], []
    encoded = tokenizer.encode(texts)
    for index, (text, span, row) in enumerate(zip(texts, spans, encoded, strict=True)):
        rates_of_row = np.full(len(row), rate)
        if span is not None:
            rates_of_row[word_pieces(tokenizer, text, span)] = span_rate
        row, rates_of_row = (
            part[: model.position_limit] for part in (row, rates_of_row)
        )
        if set(row) - empty:
            if not set(row) - special - {mask_id}:
                raise ValueError(
                    f"Text {index} of `texts` has no piece that may be hidden, only "
                    f"unknown ones: {text!r}. Leave it out."
                )
            rows.append(row)
            rates.append(rates_of_row)
    if not rows:
        raise ValueError("`texts` must have at least one text with a letter.")
    history = keras.callbacks.History()
    for epoch in range(epochs):
        inputs, labels, weights = mask_tokens(
            rows,
            mask_id,
            tokenizer.vocabulary_size,
            unselectable_token_ids=special,
            mask_selection_rate=rates,
            seed=seed * epochs + epoch,
        )
        places = [np.flatnonzero(weight) for weight in weights]
        data = BucketedDataset(
            {"token_ids": inputs, "mask_positions": places},
            [label[place] for label, place in zip(labels, places, strict=True)],
            sample_weight="tokens",
            max_tokens=max_tokens,
            seed=seed * epochs + epoch,
        )
        if not epoch:
            _compile(model, learning_rate, epochs * len(data))
        model.fit(
            data,
            initial_epoch=epoch,
            epochs=epoch + 1,
            callbacks=[history],
            verbose=verbose,
        )
    history.epoch = list(range(epochs))  # each `fit` begins it anew
    return history


def _mask_id(tokenizer):
    if getattr(tokenizer, "mask_id", None) is not None:
        return tokenizer.mask_id
    id = tokenizer.piece_to_id(MASK_PIECE)
    if id is None or tokenizer.id_to_piece(id) != MASK_PIECE:
        raise ValueError(
            f"The tokenizer has no piece {MASK_PIECE!r}. Train it with "
            f"user_defined_symbols=[{MASK_PIECE!r}]."
        )
    return id


def _compile(model, learning_rate, steps):
    rate = keras.optimizers.schedules.PolynomialDecay(learning_rate, steps, 0.0)
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01), loss=TokenCrossentropy()
    )
