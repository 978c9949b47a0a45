"""Search: from a model that predicts one token to whole texts.

A model takes part by two methods and a few attributes; nothing here knows more
of it:

- `start(inputs, max_length) -> state`: reads what is known before the first
  token to predict. `inputs` is `{"token_ids": (B, S), "padding_mask": (B, S)}`: the
  source of a translator, the prompt without its last token of a language model.
- `step(tokens, state) -> (logits, state)`: reads one token (B,) of each row and
  gives the logits (B, V) of the next one.
- `generation`, where there is one: a dict of settings in place of the defaults.
- `start_id` (the first token that a decoder reads; `None` for a language model,
  which reads its prompt's last one), `stop_id`, `pad_id`, `vocabulary_size` and
  `position_limit` (how many positions there are; `None` if any number).

A state is nested dicts and lists of tensors with the batch on axis 0, or of
scalars.
"""

from keras_transformer.generation.beam_search import Hypothesis, beam_search
from keras_transformer.generation.generate import generate, stream

__all__ = ["Hypothesis", "beam_search", "generate", "stream"]
