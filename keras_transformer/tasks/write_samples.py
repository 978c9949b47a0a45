"""What a model writes after each epoch of its training."""

from collections.abc import Sequence

import keras


class WriteSamples(keras.callbacks.Callback):
    """Write on from a few prompts after each epoch, print the texts and keep them.

    Args:
        generator: The `TextGenerator` that is trained.
        prompts: The prompts; `""` begins a new text.
        verbose: Whether to print the texts; `"auto"` does.
        **settings: Settings of `TextGenerator.generate`.

    Attributes:
        samples: For each epoch, a list with a text for each prompt.

    Example:

    >>> generator.fit(texts, callbacks=[WriteSamples(generator, [""], seed=0)])
    """

    def __init__(self, generator, prompts: Sequence[str], verbose="auto", **settings):
        super().__init__()
        self.generator, self.prompts = generator, list(prompts)
        self.verbose, self.settings = verbose, settings
        self.samples = []

    def on_epoch_end(self, epoch, logs=None):
        self.samples.append(self.generator.generate(self.prompts, **self.settings))
        if self.verbose:
            lines = (f"    {text!r}" for text in self.samples[-1])
            print("", *lines, sep="\n")  # not behind the progress bar
