"""Keys and values of one layer in a buffer with spare columns. Concatenating at every pass would copy all columns."""

from __future__ import annotations

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

SPARE_COLUMNS = 64  # free columns at the end of a new buffer


def append_columns(layer: CacheLayerMixin, keys: Tensor, values: Tensor) -> None:
    """Append the columns of ``keys`` and ``values``, each (B, heads, T, D), to a layer of a cache.

    Since the last call the held tensors may have been cropped or replaced. If they no longer lie in the buffer, a new one is made.
    """
    before = layer.keys.shape[2]
    after = before + keys.shape[2]
    buffer = getattr(layer, "buffer", None)
    if buffer is None or not _has_room(buffer[0], layer.keys, after) or not _has_room(buffer[1], layer.values, after):
        buffer = layer.buffer = tuple(_copy_columns(old, after + SPARE_COLUMNS) for old in (layer.keys, layer.values))
    for whole, fresh in zip(buffer, (keys, values), strict=True):
        whole.narrow(2, before, fresh.shape[2]).copy_(fresh)
    layer.keys, layer.values = (whole.narrow(2, 0, after) for whole in buffer)


def _has_room(buffer: Tensor, old: Tensor, columns: int) -> bool:
    """Whether ``old`` is the beginning of ``buffer``, and ``buffer`` has at least this many columns."""
    return buffer.data_ptr() == old.data_ptr() and buffer.shape[0] == old.shape[0] and buffer.shape[2] >= columns


def _copy_columns(old: Tensor, columns: int) -> Tensor:
    buffer = old.new_empty((*old.shape[:2], columns, old.shape[3]))
    buffer.narrow(2, 0, old.shape[2]).copy_(old)
    return buffer
