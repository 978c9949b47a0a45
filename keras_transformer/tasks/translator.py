"""Sentences of one language in, of another out."""

from collections.abc import Sequence

import keras
import numpy as np
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer.generation import beam_search
from keras_transformer.generation.limits import ids_that_stop, own_settings
from keras_transformer.generation.rereading import Rereading
from keras_transformer.ops.checks import check_choice, check_integer
from keras_transformer.tasks.alignment import Alignment, Translation
from keras_transformer.tasks.compatibility import (
    check_translator_parts,
    warn_of_shared_ids,
)
from keras_transformer.tasks.encoding import (
    encode_bare,
    encode_source,
    length_batches,
    masked_by_length,
)
from keras_transformer.tasks.explanation import NothingToSee, piece_names
from keras_transformer.tasks.fitting import (
    check_optimizer,
    compile_for_tokens,
    fit_model,
    pair_batches,
    token_optimizer,
)
from keras_transformer.tasks.recipes import TRANSLATORS
from keras_transformer.tasks.saving import load_task, save_task
from keras_transformer.tasks.texts import check_pairs, check_texts, hold_back_pairs
from keras_transformer.tasks.translation_scores import (
    translation_metrics,
    translation_scores,
)
from keras_transformer.tokenizers import HuggingFaceTokenizer, SentencePieceTokenizer
from keras_transformer.training import shift_right
from keras_transformer.visualization import AttentionRecord, record_attention

TOKENIZER_IDS = ("pad_id", "start_id", "stop_id")  # settings that are not chosen


class Translator:
    """A model and its tokenizers: sentences in, translations out.

    Args:
        model: A model with `start` and `step` that reads a source, such as
            `Seq2SeqTransformer`.
        source_tokenizer: The tokenizer of the sources.
        target_tokenizer: The tokenizer of the targets; `source_tokenizer` if not
            given. Its eos and pad ids must be the model's, and one of its bos, eos
            and pad ids the model's `start_id`.
        max_length: Most tokens of a sentence; longer ones are cut off.
        recipe: The recipe whose way of training `fit` takes by default.

    Raises:
        ValueError: The parts do not fit one another.

    Example:

    >>> translator = Translator.from_pairs(pairs)
    >>> translator.fit(pairs)
    >>> translator.translate(["내일 봐요."])

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9)
    """

    def __init__(
        self,
        model: keras.Model,
        source_tokenizer: SentencePieceTokenizer | HuggingFaceTokenizer,
        target_tokenizer: SentencePieceTokenizer | HuggingFaceTokenizer | None = None,
        *,
        max_length: int = 256,
        recipe: str = "transformer",
    ):
        check_choice("recipe", recipe, tuple(TRANSLATORS))
        target_tokenizer = target_tokenizer or source_tokenizer
        check_integer("max_length", max_length, 2)
        check_translator_parts(model, source_tokenizer, target_tokenizer, max_length)
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_length = max_length
        self.recipe = recipe

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence,
        recipe: str = "transformer",
        *,
        vocabulary_size: int | None = None,
        share_vocabulary: bool = True,
        max_length: int = 256,
        **settings,
    ) -> "Translator":
        """Train tokenizers on sentence pairs, and build an untrained model for them.

        Args:
            pairs: Pairs `(source, target)`, or a table with these two columns.
            recipe: `"transformer"`; `"2014"` (one fixed vector), `"2015"` (additive
                attention) or `"luong"` (multiplicative attention), which are
                recurrent.
            vocabulary_size: Number of token ids, fewer if the texts give no more; if
                not given, as many as there are pairs, of 2,000 to 10,000.
            share_vocabulary: Whether both languages have one vocabulary (and the
                model one token table), or `vocabulary_size` ids each.
            max_length: Most tokens of a sentence.
            **settings: Settings of the model in place of the recipe's, such as
                `num_layers=2`.

        Raises:
            TypeError: Sentences that are no strings.
            ValueError: No pairs, an unknown recipe or setting.
        """
        check_choice("recipe", recipe, tuple(TRANSLATORS))
        TRANSLATORS[recipe].check_settings(settings, TOKENIZER_IDS)
        sources, targets = check_pairs(pairs)
        if vocabulary_size is None:
            vocabulary_size = min(max(len(sources), 2000), 10_000)
        settings = {"share_embeddings": share_vocabulary, **settings}
        if share_vocabulary:
            both = SentencePieceTokenizer.train([*sources, *targets], vocabulary_size)
            tokenizers = (both, both)
        else:
            tokenizers = tuple(
                SentencePieceTokenizer.train(texts, vocabulary_size)
                for texts in (sources, targets)
            )
            settings = {
                "source_vocabulary_size": tokenizers[0].vocabulary_size,
                **settings,
            }
        target = tokenizers[1]
        ids = (target.pad_id, target.bos_id, target.eos_id)
        model = TRANSLATORS[recipe].make(
            target.vocabulary_size,
            **dict(zip(TOKENIZER_IDS, ids, strict=True)),
            **settings,
        )
        model.build()
        return cls(model, *tokenizers, max_length=max_length, recipe=recipe)

    def fit(
        self,
        pairs: Sequence,
        *,
        validation_data: Sequence | None = None,
        epochs: int = 30,
        max_tokens: int | None = None,
        learning_rate: float | LearningRateSchedule | None = None,
        warmup_steps: int | None = None,
        optimizer: keras.optimizers.Optimizer | None = None,
        label_smoothing: float = 0.1,
        average: int | None = 5,
        patience: int | None = None,
        checkpoint_folder=None,
        keep_checkpoints: bool = False,
        seed: int = 0,
        callbacks: Sequence = (),
        verbose="auto",
    ) -> keras.callbacks.History:
        """Train the model on what comes next in each target.

        A character that a tokenizer does not know is its unknown token, in sources
        and targets; an empty side is a sentence that ends at once.

        Args:
            pairs: Pairs `(source, target)`, or a table with these two columns.
            validation_data: Pairs to watch; if not given, a twentieth of the pairs
                (equal sources on one side) is held back.
            epochs: Most passes over the pairs.
            max_tokens: Rows times longest side of a batch; if not given, a 64th of
                the pairs' tokens, of 512 to 4,096.
            learning_rate: The highest one (`InverseSquareRoot`); the recipe's if
                not given. Or a Keras `LearningRateSchedule`, taken as it is.
            warmup_steps: Steps until then; a tenth of all steps if not given; not with
                a schedule.
            optimizer: As in `TextClassifier.fit`.
            label_smoothing: Share of probability for all tokens alike.
            average: The weights at the end are the mean of those after the last so
                many epochs; `None` for the best epoch's (with `patience`) or the
                last one's.
            patience: Stop after so many epochs without a better validation
                perplexity; `None` to train all epochs.
            checkpoint_folder: As in `TextClassifier.fit`.
            keep_checkpoints: As in `TextClassifier.fit`.
            seed: Seed of the order and of the dropout.
            callbacks: Further Keras callbacks.
            verbose: As in Keras's `fit`.

        Returns:
            Keras's `History`.

        Raises:
            TypeError, ValueError: Pairs that cannot be trained on; a schedule with
                `warmup_steps`, an optimizer with either or that was used elsewhere.
        """
        check_integer("epochs", epochs)
        check_optimizer(self.model, optimizer, learning_rate, warmup_steps)
        train, validation = hold_back_pairs(pairs, validation_data, seed)
        tokenizers = self.source_tokenizer, self.target_tokenizer
        warn_of_shared_ids(self.model, *(known.eos_id for known in tokenizers))
        keras.utils.set_random_seed(seed)
        train = self._batches(*train, max_tokens=max_tokens, seed=seed)
        warmup = max(1, epochs * len(train) // 10)
        usual = TRANSLATORS[self.recipe].learning_rate, warmup
        optimizer = token_optimizer(optimizer, learning_rate, warmup_steps, *usual)
        compile_for_tokens(self.model, optimizer, label_smoothing)
        return fit_model(
            self.model,
            train,
            self._batches(*validation, max_tokens=max_tokens, shuffle=False),
            monitor="val_perplexity",
            mode="min",
            epochs=epochs,
            patience=patience,
            average=average,
            checkpoint_folder=checkpoint_folder,
            keep_checkpoints=keep_checkpoints,
            callbacks=callbacks,
            verbose=verbose,
        )

    def translate(
        self,
        texts: Sequence[str],
        num_beams: int | None = None,
        *,
        n_best: int | None = None,
        batch_size: int = 16,
        record: AttentionRecord | None = None,
        verbose=0,
        **settings,
    ) -> list:
        """Translate sentences.

        An empty sentence gives an empty translation, and so does one for which every
        token is forbidden. One of more than `max_length`
        tokens is cut off. A sentence gets the same translation alone and among
        others.

        Args:
            texts: The sentences.
            num_beams: Translations that are followed at the same time; 1 is greedy. If
                not given, as many as the model's checkpoint says, or 4.
            n_best: Return so many translations of each sentence with their scores.
            batch_size: Sentences that are translated at the same time.
            record: An `AttentionRecord(translator.model)`, which is filled with where
                each piece of each (best) translation looked; see `generate`.
            verbose: 1 for a progress bar.
            **settings: Further settings of `beam_search`, such as `length_penalty`.
                `max_new_tokens` is, if neither given nor in `model.generation`,
                twice the length that a batch's sources are padded to.

        Returns:
            The translations, a string for each text; with `n_best`, a list of
            `Translation`s for each, the best first.

        Raises:
            TypeError: Texts that are no strings.
            ValueError: A setting out of range; a text that is no valid Unicode, with
                its index; a record of another model, a used one, or nothing to record.
        """
        texts, _ = check_texts(texts)
        own = own_settings(self.model)
        num_beams = own.get("num_beams", 4) if num_beams is None else num_beams
        check_integer("num_beams", num_beams)
        check_integer("n_best", n_best, 1, num_beams, optional=True)
        names = map(piece_names, (self.source_tokenizer, self.target_tokenizer))
        reading = Rereading(record, self.model, tuple(names))
        stops = settings.get("stop_ids", own.get("stop_ids"))
        stops = ids_that_stop(self.model, stops)
        results = [[Translation("", 0.0)] for _ in texts]
        ids, _ = self._encode(texts, [])
        filled = [index for index, text in enumerate(texts) if text.strip()]
        progress = keras.utils.Progbar(len(filled), verbose=verbose)
        ids = [ids[index] for index in filled]
        for length, rows, batch in length_batches(ids, batch_size):
            limit = own.get("max_new_tokens", min(2 * length, self.max_length))
            limited = {"max_new_tokens": limit, **settings}
            found = beam_search(self.model, batch, num_beams=num_beams, **limited)
            for row, hypotheses in zip(rows, found, strict=False):
                results[filled[row]] = [
                    Translation(self._decode(tokens, stops), score)
                    for tokens, score in hypotheses[: n_best or 1]
                ] or results[filled[row]]  # every token was forbidden
            best = [row[0].token_ids if row else [] for row in found[: len(rows)]]
            reading.read(batch[: len(rows)], best, [filled[row] for row in rows])
            progress.add(len(rows))
        reading.finish(len(texts))
        return [best if n_best else best[0].text for best in results]

    def explain(self, text: str, translation: str | None = None) -> Alignment:
        """Return where each token of a translation looked in the source.

        Args:
            text: The source.
            translation: Its translation; the model's own if not given.

        Raises:
            ValueError: A text without tokens, or a model without attention.
        """
        if getattr(self.model, "attention", True) is None:
            raise NothingToSee(
                "This model has no attention to look at: its encoder hands on one "
                'fixed vector. Use recipe="2015".'
            )
        if translation is None:
            (translation,) = self.translate([text])
        source, target = self._encode([text], [translation])
        if not text.strip() or len(source[0]) < 2:
            raise NothingToSee("`text` has no tokens: there is nothing to look at.")
        inputs, labels = self._shifted(target)
        with record_attention(self.model) as record:
            rows = masked_by_length(encoder_token_ids=source, decoder_token_ids=inputs)
            self.model({name: np.array(row, "int32") for name, row in rows.items()})
        return Alignment(
            text=text,
            translation=translation,
            source_tokens=[*map(piece_names(self.source_tokenizer), source[0])],
            target_tokens=[*map(piece_names(self.target_tokenizer), labels[0])],
            attention=record,
        )

    def evaluate(
        self, pairs: Sequence, num_beams: int | None = None, *, verbose=0, **settings
    ) -> dict:
        """Translate the sources and compare with the targets.

        Args:
            pairs: Pairs `(source, target)`, or a table with these two columns.
            num_beams: As in `translate`.
            verbose: 1 for a progress bar.
            **settings: As in `translate`.

        Returns:
            `"bleu"` and `"chrf"` (0 to 100) with their signatures, which say how
            they were computed, and the `"translations"`.

        Raises:
            ImportError: sacrebleu is not installed.
        """
        sources, targets = check_pairs(pairs)
        metrics = translation_metrics(targets)
        found = self.translate(sources, num_beams, verbose=verbose, **settings)
        scores = translation_scores(metrics, found, targets)
        return {**scores, "translations": found}

    def save(self, folder):
        """Write model and tokenizers into a folder, whole or not at all."""
        parts = {"source": self.source_tokenizer}
        if self.target_tokenizer is not self.source_tokenizer:
            parts["target"] = self.target_tokenizer
        settings = {"max_length": self.max_length, "recipe": self.recipe}
        save_task(self, folder, settings, **parts)

    @classmethod
    def load(cls, folder) -> "Translator":
        """Read what `save` wrote, on any backend.

        Raises:
            ValueError: The folder is no saved translator, or is cut short.
        """
        settings, model, parts = load_task(cls, folder)
        return cls(
            model,
            parts["source"],
            parts.get("target"),
            max_length=settings["max_length"],
            recipe=settings["recipe"],
        )

    def _encode(self, sources, targets):
        """Return ids: sources with their end, targets without start and end."""
        longest = self.max_length  # start_id or stop_id is counted
        sources = encode_source(self.source_tokenizer, sources, longest)
        return sources, encode_bare(
            self.target_tokenizer, targets, target=True, max_length=longest - 1
        )

    def _decode(self, tokens, stops):
        size = self.target_tokenizer.vocabulary_size  # the model may have more
        kept = [id for id in tokens if id < size and id not in stops]
        return self.target_tokenizer.decode(kept)

    def _shifted(self, targets):
        return shift_right(targets, self.model.start_id, self.target_tokenizer.eos_id)

    def _batches(self, sources, targets, **settings):
        sources, targets = self._encode(sources, targets)
        return pair_batches(sources, *self._shifted(targets), **settings)
