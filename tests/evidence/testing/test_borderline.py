"""Distributions that round otherwise move no draw to another cell but those that were counted as near an edge.

Rounding is played by distributions whose masses are all off by up to a two-thousandth of themselves, and the window is widened as
much, so that many draws move.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specviz.decoding.sampler import Shard, sample_with_shared_distributions
from specviz.evidence.testing import borderline
from specviz.evidence.testing.partition import build_partition
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import model, pair

V, N, LENGTH, OFF, WIDE = 6, 40_000, 3, 5e-4, 2e-3
P, Q = (
    pair("random", 5, V, 30)[0],
    pair("random", 5, V, 31)[1],
)  # nowhere equal but at 0: an edge that rounding makes has no place
SETTINGS = Settings(max_new_tokens=LENGTH, gamma=2)


class Rounded:
    """The same model whose masses are each off by up to ``OFF`` of themselves, another way after each text."""

    context = None

    def __init__(self, model, seed: int):
        self.model, self.vocabulary, self.rng = model, model.vocabulary, torch.Generator().manual_seed(seed)

    def compute_distributions(self, rows, block):
        distributions = self.model.compute_distributions(rows, block)
        off = 1.0 + OFF * (2.0 * torch.rand(distributions.shape, generator=self.rng, dtype=torch.float64) - 1.0)
        return distributions * off / (distributions * off).sum(-1, keepdim=True)


@pytest.fixture(scope="module")
def draws():
    """The draws' cells, the same draws' cells under rounded distributions, and which draws are near an edge."""
    before, borderline.NEAR = borderline.NEAR, WIDE
    target, draft = model(P, V), model(Q, V)
    cells = build_partition(target, (0,), LENGTH, 40, 1e-3)

    def shard(target, draft, first: int = 0, count: int = N) -> Shard:
        return Shard(target, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(1), SETTINGS, (0,), first=first, count=count)

    parts = [shard(target, draft, first, N // 4) for first in range(0, N, N // 4)]
    near = np.concatenate([borderline.find_borderline(part, cells.names) for part in parts])
    borderline.NEAR = before
    return [
        _cells(cells, sample_with_shared_distributions(one))
        for one in (shard(target, draft), shard(Rounded(target, 1), Rounded(draft, 2)))
    ], near


def _cells(partition, samples) -> np.ndarray:
    number = {name: index for index, name in enumerate(partition.names)}
    rows = [tuple(row) for row in samples.tokens.tolist()]
    return np.array([next(number[row[:cut]] for cut in range(LENGTH, -1, -1) if row[:cut] in number) for row in rows])


def test_only_samples_near_an_edge_fall_into_another_cell(draws):
    (before, after), near = draws
    moved = before != after
    assert moved.sum() > 10
    assert not (moved & ~near).any()


def test_few_samples_lie_near_an_edge(draws):
    """Each random number has a window of twice ``WIDE`` at each of at most 2 V edges and a threshold; a draw tosses at most 3 a
    token. The window of a residual is wider, by one over its mass."""
    _, near = draws
    assert 0 < near.mean() < 3 * LENGTH * (2 * V + 1) * 2 * WIDE


def test_edges_inside_a_cell_do_not_count():
    """With one cell for all texts nothing can move."""
    shard = Shard(model(P, V), DraftModel(model(Q, V), 2), TokenRule(), PhiloxRandomness(1), SETTINGS, (0,), count=N)
    assert not borderline.find_borderline(shard, [()]).any()
