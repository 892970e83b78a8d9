"""A vocabulary of 152,064: nothing loops over it in Python, nothing of a round stays behind. Times are bench's matter."""

from __future__ import annotations

import gc

import pytest
import torch

from specviz.decoding.engine import decode
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.tiny_pairs import build_tiny_model

VOCABULARY = 152_064
DISTRIBUTION = VOCABULARY * 8  # bytes of one distribution in float64


@pytest.mark.parametrize("last", [9, pytest.param(100, marks=pytest.mark.slow)], ids="{} rounds".format)
def test_memory_is_flat_over_many_rounds(last):
    """Live tensors are counted, not the allocator's pages: after the last round no more distributions are alive than after round 4."""
    settings = Settings(gamma=2, max_new_tokens=400, temperature=0.9, top_p=0.9)
    model = build_tiny_model(VOCABULARY, layers=1, context=1024)
    rounds = decode(
        CachedModel(model, settings), DraftModel(CachedModel(model, settings), 2), TokenRule(), PhiloxRandomness(1), settings, [1]
    )
    alive = {}
    for number, round_ in enumerate(rounds, start=1):
        del round_
        if number in (4, last):
            alive[number] = count_distribution_bytes()
        if number == last:
            break
    assert alive[last] <= alive[4] + DISTRIBUTION
    assert alive[4] <= 40 * DISTRIBUTION


def count_distribution_bytes() -> int:
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors if t.numel() >= VOCABULARY and t.dtype == torch.float64)
