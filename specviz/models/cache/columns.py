"""Keys and values of one layer in memory with room to spare, so that a fresh column is written behind the others.

Joining old and new columns anew at every pass copies all of them: half a millisecond of a small target's pass, and most of a
batch's.
"""

from __future__ import annotations

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

ROOM = 64  # columns that are free behind those that a new piece of memory was made for


def extend(held: CacheLayerMixin, keys: Tensor, values: Tensor) -> None:
    """``held`` grows by the columns of ``keys`` and ``values``, each (B, heads, T, D).

    What it holds may since have been cropped, or replaced by other tensors: then the room is not its own, and is made anew.
    """
    before = held.keys.shape[2]
    after = before + keys.shape[2]
    room = getattr(held, "room", None)
    if room is None or not _fits(room[0], held.keys, after) or not _fits(room[1], held.values, after):
        room = held.room = tuple(_copied(old, after + ROOM) for old in (held.keys, held.values))
    for whole, fresh in zip(room, (keys, values), strict=True):
        whole.narrow(2, before, fresh.shape[2]).copy_(fresh)
    held.keys, held.values = (whole.narrow(2, 0, after) for whole in room)


def _fits(room: Tensor, old: Tensor, columns: int) -> bool:
    """Whether ``old`` are the first columns of ``room``, which has so many."""
    return room.data_ptr() == old.data_ptr() and room.shape[0] == old.shape[0] and room.shape[2] >= columns


def _copied(old: Tensor, columns: int) -> Tensor:
    room = old.new_empty((*old.shape[:2], columns, old.shape[3]))
    room.narrow(2, 0, old.shape[2]).copy_(old)
    return room
