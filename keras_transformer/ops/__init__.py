"""Pure functions of tensors: no weights, no layers, no state.

Shape letters used throughout: B batch, T query time, S key time, N heads,
K key/value heads, H head size, E embed_dim, D dense_dim, V vocabulary.
"""

from keras_transformer.ops import attention, backend, cache, masks, positions

__all__ = ["attention", "backend", "cache", "masks", "positions"]
