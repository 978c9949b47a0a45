"""Texts in, labels out."""

from collections.abc import Sequence

import keras
import numpy as np
import pandas as pd
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer.datasets import BucketedDataset
from keras_transformer.models import build_text_classifier
from keras_transformer.ops.checks import check_choice, check_integer, check_number
from keras_transformer.tasks.compatibility import check_classifier_parts
from keras_transformer.tasks.encoding import length_batches
from keras_transformer.tasks.explanation import Explanation, NothingToSee
from keras_transformer.tasks.fitting import (
    check_optimizer,
    compile_for_labels,
    fit_model,
    rise_and_fall,
)
from keras_transformer.tasks.recipes import CLASSIFIERS
from keras_transformer.tasks.saving import load_task, save_task
from keras_transformer.tasks.texts import check_texts, hold_back
from keras_transformer.tokenizers import HuggingFaceTokenizer, SentencePieceTokenizer
from keras_transformer.tokenizers.checks import pad_rows
from keras_transformer.visualization import record_attention

SETTINGS = ("labels", "max_length", "recipe")


class TextClassifier:
    """A model, its tokenizer and its labels: texts in, labels out.

    Args:
        model: A Keras model from ids (B, T) to probabilities: (B, 1) for two
            labels, (B, n) for n.
        tokenizer: The tokenizer whose ids the model was built for.
        labels: The labels in the order of the model's outputs; of two, the first
            is that of probability 0.
        max_length: Most tokens of a text; longer ones are cut off. By default as
            many as the model has positions, or no limit if it has any number.
        recipe: The recipe whose way of training `fit` takes by default.

    Raises:
        ValueError: The parts do not fit one another.

    Example:

    >>> classifier = TextClassifier.from_texts(texts, labels)
    >>> classifier.fit(texts, labels)
    >>> classifier.predict(["정말 재미있게 봤다"])

    Source: the chapter's section 12
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SentencePieceTokenizer | HuggingFaceTokenizer,
        labels: Sequence,
        *,
        max_length: int | None = None,
        recipe: str = "chapter",
    ):
        check_choice("recipe", recipe, tuple(CLASSIFIERS))
        labels, max_length = check_classifier_parts(
            model, tokenizer, labels, max_length
        )
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.max_length = max_length
        self.recipe = recipe

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        labels: Sequence,
        recipe: str = "default",
        *,
        vocabulary_size: int = 8000,
        max_length: int | None = None,
        **settings,
    ) -> "TextClassifier":
        """Train a tokenizer on texts, and build an untrained model for their labels.

        Args:
            texts: The texts.
            labels: Their labels, of any kind; at least two different ones.
            recipe: `"default"`, `"chapter"` (the chapter's model) or
                `"sentence-embedding"` (the 2017 model of its section 2).
            vocabulary_size: Number of token ids; fewer if the texts give no more.
            max_length: Most tokens of a text; by default `sequence_length` if that is
                among the settings, else 256.
            **settings: Settings of the model in place of the recipe's, such as
                `num_layers=2`.

        Raises:
            TypeError: Texts that are no strings.
            ValueError: No texts, one label only, an unknown recipe or setting, fewer
                positions than `max_length`.
        """
        check_choice("recipe", recipe, tuple(CLASSIFIERS))
        CLASSIFIERS[recipe].check_settings(settings, ["num_classes"])
        texts, labels = check_texts(texts, labels)
        kinds = sorted(set(labels), key=lambda label: (str(type(label)), label))
        if len(kinds) < 2:
            raise ValueError(
                f"All {len(labels)} labels are {kinds[0]!r}. A classifier needs "
                "texts of at least two labels."
            )
        if max_length is None:
            max_length = settings.get("sequence_length") or 256
        tokenizer = SentencePieceTokenizer.train(
            texts, vocabulary_size, pad_id=settings.get("pad_id")
        )
        own = {"num_classes": 1 if len(kinds) == 2 else len(kinds)}
        if CLASSIFIERS[recipe].build is build_text_classifier:
            own["sequence_length"] = max_length
        model = CLASSIFIERS[recipe].make(
            tokenizer.vocabulary_size, **{**own, **settings}
        )
        return cls(model, tokenizer, kinds, max_length=max_length, recipe=recipe)

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence,
        *,
        validation_data: tuple | None = None,
        epochs: int = 10,
        batch_size: int = 64,
        learning_rate: float | LearningRateSchedule | None = None,
        optimizer: keras.optimizers.Optimizer | None = None,
        sampling: float | bool | None = None,
        label_smoothing: float = 0.0,
        average: int | None = None,
        patience: int | None = 3,
        checkpoint_folder=None,
        keep_checkpoints: bool = False,
        seed: int = 0,
        callbacks: Sequence = (),
        verbose="auto",
    ) -> keras.callbacks.History:
        """Train the model.

        Args:
            texts: The texts.
            labels: Their labels.
            validation_data: `(texts, labels)` to watch; if not given, a tenth of the
                texts (equal texts on one side) is held back.
            epochs: Most passes over the texts.
            batch_size: Texts a batch.
            learning_rate: Of the optimizer, Adam; the recipe's if not given: the
                default one's rises to 1e-3 in the first tenth of the updates and
                falls along a cosine. A number or a Keras `LearningRateSchedule`.
                Callbacks that set the rate, such as `ReduceLROnPlateau`, need a number.
            optimizer: A Keras optimizer that is used as it is in place of `fit`'s own,
                for what Keras's take: `clipnorm`, `gradient_accumulation_steps`,
                `weight_decay` and so on. It has its own learning rate. A new one, or
                the one that the model was trained with last, which keeps its state.
            sampling: Cut the texts into other pieces in each epoch (subword
                regularization), the more so the smaller this is; 0.2 is usual. The
                recipe's if not given, where the tokenizer can; `False` for none.
            label_smoothing: Share of probability for all labels alike.
            average: The weights at the end are the mean of those after the last so
                many epochs; `None` for the best epoch's (with `patience`) or the
                last one's.
            patience: Stop after so many epochs without a better validation
                accuracy, and go back to the best (without `average`); `None` to
                train all epochs.
            checkpoint_folder: Where to keep the state after each epoch. A training
                that was interrupted goes on from there when `fit` is called again
                with the same folder; the folder is removed when it is done.
            keep_checkpoints: Whether the folder stays instead, so that nothing is
                lost before `save`: `fit` with it then gives the trained model at
                once, with a history of no epochs. Remove it after `save`.
            seed: Seed of the order of the texts, of the held-back tenth, of the
                dropout (`keras.utils.set_random_seed`) and of `sampling`. The first
                weights are drawn before, by `from_texts`: for equal ones call
                `keras.utils.set_random_seed` before it.
            callbacks: Further Keras callbacks.
            verbose: As in Keras's `fit`.

        Returns:
            Keras's `History`.

        Raises:
            TypeError, ValueError: Texts or labels that cannot be trained on; an
                optimizer with a learning rate, or that was used elsewhere.
        """
        check_optimizer(self.model, optimizer, learning_rate)
        epochs = check_integer("epochs", epochs)
        keras.utils.set_random_seed(seed)
        recipe = CLASSIFIERS[self.recipe]
        if sampling is None and getattr(self.tokenizer, "can_sample", False):
            sampling = recipe.sampling
        train, validation = hold_back(texts, labels, validation_data, seed)
        batches = self._batches(
            *train, sampling=sampling, batch_size=batch_size, seed=seed
        )
        if learning_rate is None:
            learning_rate = recipe.learning_rate
            if recipe.decays:
                learning_rate = rise_and_fall(learning_rate, epochs * len(batches))
        optimizer = optimizer or keras.optimizers.Adam(learning_rate)
        compile_for_labels(self.model, optimizer, label_smoothing)
        return fit_model(
            self.model,
            batches,
            self._batches(*validation, batch_size=256, shuffle=False),
            monitor="val_accuracy",
            mode="max",
            epochs=epochs,
            patience=patience,
            average=average,
            checkpoint_folder=checkpoint_folder,
            keep_checkpoints=keep_checkpoints,
            callbacks=callbacks,
            verbose=verbose,
        )

    def predict_probabilities(
        self, texts: Sequence[str], batch_size: int = 256, verbose=0
    ) -> np.ndarray:
        """Return the probability of each label for each text, (texts, labels).

        Texts are padded to few lengths and numbers of rows, the same in each call, so
        that few shapes are compiled.

        Args:
            texts: The texts; an empty one is allowed.
            batch_size: Most texts a batch.
            verbose: 1 for a progress bar.
        """
        texts, _ = check_texts(texts)
        outputs = np.zeros((len(texts), self.model.output_shape[-1]), "float32")
        progress = keras.utils.Progbar(len(texts), verbose=verbose)
        for length, numbers, batch in length_batches(self._encode(texts), batch_size):
            length = min(length, self.max_length or length)
            ids = pad_rows(batch, self.tokenizer.pad_id, length, "right")
            outputs[numbers] = self.model.predict_on_batch(ids)[: len(numbers)]
            progress.add(len(numbers))
        if outputs.shape[-1] == 1:
            return np.concatenate([1 - outputs, outputs], axis=-1)
        return outputs

    def predict(self, texts: Sequence[str], *, table: bool = False, verbose=0):
        """Return the label of each text.

        Args:
            texts: The texts; an empty one is allowed.
            table: Whether to return a pandas table with the columns `text`, `label`
                and `probability` instead of a list.
            verbose: 1 for a progress bar.
        """
        texts, _ = check_texts(texts)  # an iterator's are read but once
        chances = self.predict_probabilities(texts, verbose=verbose)
        labels = [self.labels[index] for index in chances.argmax(axis=-1)]
        if not table:
            return labels
        return pd.DataFrame(
            {"text": texts, "label": labels, "probability": chances.max(axis=-1)}
        )

    def evaluate(self, texts: Sequence[str], labels: Sequence, *, verbose=0) -> dict:
        """Compare predictions with the truth.

        Returns:
            `accuracy`; `f1`, the mean F1 of the labels that are true or predicted
            somewhere; and `confusion`, a pandas table with the true labels as rows
            and the predicted ones as columns.
        """
        texts, labels = check_texts(texts, labels)
        truth = self._indices(labels)
        guess = self.predict_probabilities(texts, verbose=verbose).argmax(axis=-1)
        size = len(self.labels)
        counts = np.zeros((size, size), int)
        np.add.at(counts, (truth, guess), 1)
        right = np.diag(counts)
        both = counts.sum(axis=0) + counts.sum(axis=1)
        f1 = 2 * right[both > 0] / both[both > 0]
        index = pd.Index(self.labels, name="true")
        columns = pd.Index(self.labels, name="predicted")
        return {
            "accuracy": float(right.sum() / len(texts)),
            "f1": float(f1.mean()),
            "confusion": pd.DataFrame(counts, index=index, columns=columns),
        }

    def explain(self, text: str) -> Explanation:
        """Classify one text and keep every attention weight of the call."""
        (text,), _ = check_texts([text])
        ids = self._encode([text])
        if not ids[0]:
            raise NothingToSee("`text` has no tokens: there is nothing to look at.")
        with record_attention(self.model) as record:
            outputs = np.array(
                keras.ops.convert_to_numpy(self.model(np.array(ids, "int32")))
            )[0]
        chances = [1 - outputs[0], outputs[0]] if len(outputs) == 1 else outputs
        probabilities = dict(zip(self.labels, map(float, chances), strict=True))
        return Explanation(
            text=text,
            tokens=self._encode([text], out_type=str)[0],
            label=max(probabilities, key=probabilities.get),
            probabilities=probabilities,
            attention=record,
        )

    def save(self, folder):
        """Write model, tokenizer and labels into a folder, whole or not at all."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        save_task(self, folder, settings, tokenizer=self.tokenizer)

    @classmethod
    def load(cls, folder) -> "TextClassifier":
        """Read what `save` wrote, on any backend.

        Raises:
            ValueError: The folder is no saved classifier, or is cut short.
        """
        settings, model, parts = load_task(cls, folder)
        return cls(model, **parts, **{name: settings[name] for name in SETTINGS})

    def _encode(self, texts, **settings):
        return self.tokenizer.encode(texts, max_length=self.max_length, **settings)

    def _indices(self, labels):
        places = {label: index for index, label in enumerate(self.labels)}
        unknown = sorted({repr(label) for label in labels if label not in places})
        if unknown:
            raise ValueError(
                f"Labels that this classifier does not know: {', '.join(unknown)}. It "
                f"knows {', '.join(map(repr, self.labels))}."
            )
        return np.array([places[label] for label in labels], "int32")

    def _batches(self, texts, labels, *, sampling=None, seed=0, **settings):
        if sampling is None or sampling is False:
            rows = self._encode(texts)
        elif not getattr(self.tokenizer, "can_sample", False):
            raise ValueError(
                "`sampling` needs a tokenizer that can cut a text in several ways: a "
                "SentencePieceTokenizer of the type 'unigram' or 'bpe'. Received: "
                f"sampling={sampling!r} and a {type(self.tokenizer).__name__} that "
                "cannot. Leave it out."
            )
        else:
            check_number("sampling", sampling, at_least=0)

            def draw(epoch):
                number = np.random.default_rng([seed, epoch]).integers(2**32 - 1)
                return self._encode(texts, sample=True, alpha=sampling, seed=number)

            rows = draw(0)
            if len(rows) > 1:  # one row is a batch that TensorFlow takes for constant
                settings["redraw"] = draw
        labels, pad_id = self._indices(labels), self.tokenizer.pad_id
        if self.model.output_shape[-1] > 1:  # see `compile_for_labels`
            labels = np.eye(len(self.labels), dtype="float32")[labels]
        settings |= dict(pad_id=pad_id, seed=seed, max_length=self.max_length)
        return BucketedDataset(rows, labels, **settings)
