"""Random numbers of the tests themselves, separate from those of the decoder: one stream for each seed and use."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class RandomUse(IntEnum):
    """What the numbers are for; second word of the Philox key. No value is also a Purpose of ``specviz.randomness``."""

    NULL_BAND = 1001
    PERMUTATION = 1002
    TRANSFORM = 1003
    RESAMPLED = 1004
    WHOLE_TEXTS = 1005
    OTHER_ROWS = 1006
    CLASSES = 1007


def make_generator(seed: int, use: RandomUse) -> np.random.Generator:
    """A fresh generator; the same seed and use give the same numbers."""
    return np.random.Generator(np.random.Philox(key=[seed, int(use)]))
