"""The beginning of a text in, the whole text out."""

from collections.abc import Iterator, Sequence
from itertools import chain

import keras
import numpy as np
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer.generation import generate, stream
from keras_transformer.generation.rereading import Rereading, until_stop
from keras_transformer.ops.checks import check_choice, check_integer
from keras_transformer.tasks.compatibility import (
    check_generator_parts,
    warn_of_shared_ids,
)
from keras_transformer.tasks.encoding import begins_with_bos, encode_bare
from keras_transformer.tasks.explanation import Explanation, explain_next, piece_names
from keras_transformer.tasks.fitting import (
    check_optimizer,
    compile_for_tokens,
    fit_model,
    token_batches,
    token_optimizer,
)
from keras_transformer.tasks.prompts import (
    continue_text,
    known_ids,
    place_seed,
    prompt_batches,
    read_prompts,
    read_settings,
)
from keras_transformer.tasks.recipes import GENERATORS
from keras_transformer.tasks.saving import load_task, save_task
from keras_transformer.tasks.texts import check_texts, hold_back_texts
from keras_transformer.tasks.windows import make_windows, text_losses
from keras_transformer.tasks.write_samples import WriteSamples
from keras_transformer.tokenizers import HuggingFaceTokenizer, SentencePieceTokenizer
from keras_transformer.visualization import AttentionRecord

SETTINGS = ("max_length", "add_bos", "recipe")


class TextGenerator:
    """A language model and its tokenizer: writes on from the beginning of a text.

    Args:
        model: A model with `start` and `step` that reads no source, such as
            `LanguageModel`. Its `stop_id` must be the tokenizer's eos id.
        tokenizer: The tokenizer whose ids the model was built for.
        max_length: Most tokens that are read at a time in training; longer texts
            are cut into pieces. By default as many as the model has positions, or
            512 if it has any number.
        add_bos: Whether each text, and each prompt, begins with the bos id (an empty
            prompt does in any case). By default as the tokenizer's template has it
            (Llama's does, GPT-2's does not); without a template they do.
        recipe: The recipe whose way of training `fit` takes by default.

    Raises:
        ValueError: The parts do not fit one another.

    Example:

    >>> generator = TextGenerator.from_texts(texts)
    >>> generator.fit(texts)
    >>> generator.generate(["이 영화는"], temperature=0.8, seed=1)

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners" (text 2: decoder-only)
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SentencePieceTokenizer | HuggingFaceTokenizer,
        *,
        max_length: int | None = None,
        add_bos: bool | None = None,
        recipe: str = "gpt2",
    ):
        check_choice("recipe", recipe, tuple(GENERATORS))
        add_bos = begins_with_bos(tokenizer) if add_bos is None else bool(add_bos)
        max_length = check_generator_parts(
            model, tokenizer, max_length=max_length, add_bos=add_bos
        )
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.add_bos = add_bos
        self.recipe = recipe
        self._processors = ()
        if model.vocabulary_size > tokenizer.vocabulary_size:
            self._processors = (known_ids(tokenizer.vocabulary_size),)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        recipe: str = "gpt2",
        *,
        vocabulary_size: int = 8000,
        max_length: int = 256,
        tokenizer: SentencePieceTokenizer | None = None,
        **settings,
    ) -> "TextGenerator":
        """Train a tokenizer on texts, and build an untrained model for it.

        Args:
            texts: The texts.
            recipe: `"gpt2"` (learned positions, layer norm) or `"llama"` (rotary
                positions, RMS norm, gated, shared keys and values).
            vocabulary_size: Number of token ids; fewer if the texts give no more.
            max_length: As in the constructor; also the number of learned positions.
            tokenizer: A tokenizer to use; if not given, one is trained.
            **settings: Settings of `LanguageModel` in place of the recipe's, such as
                `num_layers=2`.

        Raises:
            TypeError: Texts that are no strings.
            ValueError: No texts, an unknown recipe or setting.
        """
        check_choice("recipe", recipe, tuple(GENERATORS))
        GENERATORS[recipe].check_settings(settings)
        check_integer("max_length", max_length, 2)
        texts, _ = check_texts(texts)
        if tokenizer is None:
            tokenizer = SentencePieceTokenizer.train(texts, vocabulary_size)
        own = {"pad_id": tokenizer.pad_id, "stop_id": tokenizer.eos_id}
        own["sequence_length"] = max_length
        model = GENERATORS[recipe].make(
            tokenizer.vocabulary_size, **{**own, **settings}
        )
        model.build()
        return cls(model, tokenizer, max_length=max_length, recipe=recipe)

    def fit(
        self,
        texts: Sequence[str],
        *,
        validation_data: Sequence[str] | None = None,
        epochs: int = 30,
        max_tokens: int = 4096,
        learning_rate: float | LearningRateSchedule | None = None,
        warmup_steps: int | None = None,
        optimizer: keras.optimizers.Optimizer | None = None,
        label_smoothing: float = 0.0,
        average: int | None = None,
        patience: int | None = 3,
        sample_prompts: Sequence[str] = (),
        checkpoint_folder=None,
        keep_checkpoints: bool = False,
        seed: int = 0,
        callbacks: Sequence = (),
        verbose="auto",
    ) -> keras.callbacks.History:
        """Train the model on what comes next in each text, its end included.

        Args:
            texts: The texts; those without a character are left out.
            validation_data: Texts to watch; if not given, a twentieth of the texts
                (equal texts on one side) is held back.
            epochs: Most passes over the texts.
            max_tokens: Rows times longest row of a batch.
            learning_rate: The highest one (`InverseSquareRoot`); the recipe's if
                not given. Or a Keras `LearningRateSchedule`, taken as it is.
            warmup_steps: Steps until then; the recipe's if not given; not with
                a schedule.
            optimizer: As in `TextClassifier.fit`.
            label_smoothing: Share of probability for all tokens alike.
            average: As in `Translator.fit`.
            patience: As in `Translator.fit`.
            sample_prompts: Beginnings of texts (`""` for none at all) to write on
                from after each epoch. The texts are printed, and kept as
                `"samples"` in the history.
            checkpoint_folder: As in `TextClassifier.fit`.
            keep_checkpoints: As in `TextClassifier.fit`.
            seed: Seed of the order, of the dropout and of the samples.
            callbacks: Further Keras callbacks.
            verbose: As in Keras's `fit`; with 0 no samples are printed either.

        Returns:
            Keras's `History`.

        Raises:
            TypeError, ValueError: Texts that cannot be trained on; a schedule with
                `warmup_steps`, an optimizer with either or that was used elsewhere.
        """
        recipe = GENERATORS[self.recipe]
        prompts, _ = check_texts(sample_prompts)
        check_optimizer(self.model, optimizer, learning_rate, warmup_steps)
        train, validation = hold_back_texts(texts, validation_data, seed)
        warn_of_shared_ids(self.model, self.tokenizer.bos_id, self.tokenizer.eos_id)
        keras.utils.set_random_seed(seed)
        usual = recipe.learning_rate, recipe.warmup_steps
        optimizer = token_optimizer(optimizer, learning_rate, warmup_steps, *usual)
        compile_for_tokens(self.model, optimizer, label_smoothing)
        sampler = WriteSamples(
            self, prompts, verbose, temperature=0.8, top_p=0.95, seed=seed
        )
        history = fit_model(
            self.model,
            self._batches(train, max_tokens=max_tokens, seed=seed),
            self._batches(validation, max_tokens=max_tokens, shuffle=False),
            monitor="val_perplexity",
            mode="min",
            epochs=epochs,
            patience=patience,
            average=average,
            checkpoint_folder=checkpoint_folder,
            keep_checkpoints=keep_checkpoints,
            callbacks=[*callbacks, sampler] if prompts else callbacks,
            verbose=verbose,
        )
        if prompts:
            history.history["samples"] = sampler.samples
        return history

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_new_tokens: int | None = None,
        strip_prompt: bool = False,
        batch_size: int = 16,
        record: AttentionRecord | None = None,
        verbose=0,
        **settings,
    ) -> list[str]:
        """Write on from the beginnings of texts.

        Greedy, unless `temperature`, `top_k` or `top_p` asks for sampling, here or in
        `model.generation` (then `temperature=0` is greedy). Greedily, a
        prompt gets the same text alone and among others. Sampled with a `seed`, the
        text depends on the seed and on the prompt's place among the prompts, so that
        equal prompts get different texts; not on `batch_size`.

        Args:
            prompts: The beginnings; `""` starts from nothing (the bos id).
            max_new_tokens: Most tokens to add; if not given, 64 (or what the model's
                checkpoint says), or as many as the model still has positions for.
            strip_prompt: Whether to return only what is added, without the prompt.
            batch_size: Prompts that are written on at the same time.
            record: An `AttentionRecord(generator.model)`, which is filled with where
                each piece of each text looked; see `keras_transformer.generate`.
            verbose: 1 for a progress bar.
            **settings: Further settings of `keras_transformer.generate`, such as
                `temperature`, `top_k`, `top_p`, `repetition_penalty`, `seed`,
                `jit_compile`.

        Returns:
            A text for each prompt: the prompt as it was given and what follows it.

        Raises:
            TypeError: Prompts that are no strings.
            ValueError: A setting out of range, a prompt that leaves no positions for
                `max_new_tokens`, a record of another model, a used one, or nothing to
                record.
        """
        prompts, _ = check_texts(prompts)
        rows, counts = self._read(prompts, max_new_tokens)
        settings, stops = read_settings(self.model, self._processors, settings)
        seed = settings.pop("seed")
        reading = Rereading(record, self.model, [piece_names(self.tokenizer)] * 2)
        texts = [""] * len(prompts) if strip_prompt else list(prompts)
        progress = keras.utils.Progbar(len(prompts), verbose=verbose)
        for count, places, filled in prompt_batches(rows, counts, batch_size):
            if seed is not None:
                settings["seed"] = [place_seed(seed, place) for place in filled]
            batch = [rows[place] for place in filled]
            found = generate(self.model, batch, max_new_tokens=count, **settings)
            for place, tokens in zip(places, found, strict=False):
                parts = (prompts[place], rows[place], tokens, stops)
                texts[place] += "".join(continue_text(self.tokenizer, *parts))
            written = [until_stop(row, stops) for row in found[: len(places)]]
            reading.read(batch[: len(places)], written, places)
            progress.add(len(places))
        reading.finish(len(prompts))
        return texts

    def stream(
        self,
        prompt: str,
        *,
        max_new_tokens: int | None = None,
        strip_prompt: bool = False,
        **settings,
    ) -> Iterator[str]:
        """Write on from the beginning of one text, piece by piece.

        Args:
            prompt: The beginning.
            max_new_tokens: As in `generate`.
            strip_prompt: As in `generate`; otherwise the prompt is the first piece.
            **settings: As in `generate`.

        Returns:
            An iterator of pieces, whole characters each, as soon as they are there.
            Joined they are the text that `generate([prompt])` returns.

        Raises:
            TypeError, ValueError: As in `generate`, at once.
        """
        (prompt,), _ = check_texts([prompt])
        (row,), (count,) = self._read([prompt], max_new_tokens)
        settings, stops = read_settings(self.model, self._processors, settings)
        if settings["seed"] is not None:
            settings["seed"] = place_seed(settings["seed"], 0)
        tokens = stream(self.model, [row], max_new_tokens=count, **settings)
        tokens = (token[0] for token in tokens)
        pieces = continue_text(self.tokenizer, prompt, row, tokens, stops)
        return pieces if strip_prompt or not prompt else chain([prompt], pieces)

    def perplexity(self, texts: Sequence[str], batch_size: int = 16) -> np.ndarray:
        """Return among how many tokens the model wavers in each text.

        `exp(mean loss of a token)`, the text's end included. A text of more than
        `max_length` tokens is read in pieces, each without those before it. Without a
        bos, which would foresee its end, an empty text has nan.

        Raises:
            TypeError: Texts that are no strings.
        """
        losses, counts = self._losses(check_texts(texts)[0], batch_size)
        return np.exp(losses / np.where(counts, counts, np.nan))

    def evaluate(self, texts: Sequence[str], batch_size: int = 16) -> dict:
        """Measure how well the model foresees texts.

        Returns:
            `"perplexity"` of a token over all texts; `"bits_per_character"`, which
            can be compared between tokenizers (the bits of all tokens, the ends
            included, for each character of the texts); and the number of `"tokens"`.

        Raises:
            TypeError: Texts that are no strings.
            ValueError: Texts without a character.
        """
        texts, _ = check_texts(texts)
        characters = sum(map(len, texts))
        if not characters:
            raise ValueError("`texts` has no characters: there is nothing to measure.")
        losses, counts = self._losses(texts, batch_size)
        return {
            "perplexity": float(np.exp(losses.sum() / counts.sum())),
            "bits_per_character": float(losses.sum() / np.log(2) / characters),
            "tokens": int(counts.sum()),
        }

    def explain(self, text: str) -> Explanation:
        """Return where each token of a text looked, and what is likely to follow.

        Of a text that is longer than the model's positions it is the beginning.
        """
        (text,), _ = check_texts([text])
        (ids,) = encode_bare(self.tokenizer, [text], add_bos=self.add_bos)
        return explain_next(self.model, self.tokenizer, text, ids)

    def save(self, folder):
        """Write model and tokenizer into a folder, whole or not at all."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        save_task(self, folder, settings, tokenizer=self.tokenizer)

    @classmethod
    def load(cls, folder) -> "TextGenerator":
        """Read what `save` wrote, on any backend.

        Raises:
            ValueError: The folder is no saved generator, or is cut short.
        """
        settings, model, parts = load_task(cls, folder)
        return cls(model, **parts, **{name: settings[name] for name in SETTINGS})

    def _read(self, prompts, max_new_tokens):
        """Return the ids of each prompt, and the most tokens that may follow."""
        return read_prompts(
            self.model,
            self.tokenizer,
            prompts,
            add_bos=self.add_bos,
            max_new_tokens=max_new_tokens,
        )

    def _windows(self, texts):
        start = self.tokenizer.bos_id if self.add_bos else None
        ids = encode_bare(self.tokenizer, texts)
        return make_windows(ids, start, self.tokenizer.eos_id, self.max_length)

    def _batches(self, texts, **settings):
        inputs, labels, _ = self._windows(texts)
        return token_batches(labels, inputs={"token_ids": inputs}, **settings)

    def _losses(self, texts, batch_size):
        return text_losses(self.model, self._windows(texts), len(texts), batch_size)
