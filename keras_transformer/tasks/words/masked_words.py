"""Train an encoder on raw text: hide words, and have it find them."""

from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.datasets import BucketedDataset
from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.tasks.encoding import masked_by_length
from keras_transformer.tasks.fitting import rise_and_fall
from keras_transformer.tasks.texts import check_texts
from keras_transformer.tasks.words.word_vectors import mask_id, word_pieces
from keras_transformer.training import TokenCrossentropy, mask_tokens

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
    rarity: float | None = None,
    learning_rate: float = 2e-3,
    max_tokens: int = 4096,
    seed: int = 0,
    verbose="auto",
) -> keras.callbacks.History:
    """Train a `MaskedLanguageModel` on raw texts; each epoch hides other words.

    Args:
        model: The model; it is compiled here, with AdamW and a learning rate that
            rises for a twentieth of the updates and falls to nothing along a cosine.
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
        rarity: Ask less for what is frequent, particles and endings: a piece of the
            frequency f is asked for at `rate * min(1, sqrt(rarity / f))`. Of what is
            asked for, more are words that say what a text is about.
        learning_rate: The highest learning rate.
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

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (3.1); the rarity:
    Mikolov et al. 2013, https://arxiv.org/abs/1310.4546 (2.3) (chapter: 6)
    """
    epochs = check_integer("epochs", epochs)
    check_number("learning_rate", learning_rate, above=0)
    check_number("rate", rate, above=0, at_most=1)
    check_number("span_rate", span_rate, above=0, at_most=1)
    check_number("rarity", rarity, above=0, at_most=1, optional=True)
    texts, _ = check_texts(texts)
    spans = [None] * len(texts) if spans is None else list(spans)
    if len(spans) != len(texts):
        raise ValueError(
            "`spans` must have a span or None for each text. Received: "
            f"{len(texts)} texts, {len(spans)} spans."
        )
    hidden = mask_id(tokenizer)
    empty = {getattr(tokenizer, f"{role}_id", None) for role in ENDS}
    special = {*empty, tokenizer.unk_id}
    rows, rates = [], []
    encoded = tokenizer.encode(texts)
    piece_rates = _piece_rates(encoded, tokenizer.vocabulary_size, rate, rarity)
    for index, (text, span, row) in enumerate(zip(texts, spans, encoded, strict=True)):
        rates_of_row = piece_rates[np.asarray(row, int)]
        if span is not None:
            rates_of_row[word_pieces(tokenizer, text, span)] = span_rate
        row, rates_of_row = (
            part[: model.position_limit] for part in (row, rates_of_row)
        )
        if set(row) - empty:
            if not set(row) - special - {hidden}:
                raise ValueError(
                    f"Text {index} of `texts` has no piece that may be hidden, only "
                    f"unknown ones: {text!r}. Leave it out."
                )
            rows.append(row)
            rates.append(rates_of_row)
    if not rows:
        raise ValueError("`texts` must have at least one text with a letter.")
    draws = []
    for epoch in range(epochs):
        inputs, labels, weights = mask_tokens(
            rows,
            hidden,
            tokenizer.vocabulary_size,
            unselectable_token_ids=special,
            mask_selection_rate=rates,
            seed=seed * epochs + epoch,
        )
        draws.append((inputs, labels, [np.flatnonzero(row) for row in weights]))
    # As many places in each epoch, so that all have the same few shapes of batches.
    most = [max(map(len, row)) for row in zip(*(d[2] for d in draws), strict=True)]
    history = keras.callbacks.History()
    for epoch, (inputs, labels, found) in enumerate(draws):
        places = [np.resize(row, n) for row, n in zip(found, most, strict=True)]
        asked = [np.arange(n) < len(row) for row, n in zip(found, most, strict=True)]
        data = BucketedDataset(
            {**masked_by_length(token_ids=inputs), "mask_positions": places},
            [label[place] for label, place in zip(labels, places, strict=True)],
            sample_weight=[row.astype("float32") for row in asked],
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


def _piece_rates(rows, vocabulary_size, rate, rarity):
    """How often each id is asked for, (V,)."""
    if rarity is None:
        return np.full(vocabulary_size, rate)
    ids = np.concatenate([np.asarray(row, int) for row in rows])
    shares = np.bincount(ids, minlength=vocabulary_size) / max(len(ids), 1)
    return rate * np.minimum(1, np.sqrt(rarity / np.maximum(shares, 1e-12)))


def _compile(model, learning_rate, steps):
    rate = rise_and_fall(learning_rate, steps, parts=20)
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01), loss=TokenCrossentropy()
    )
