"""Scores of sampled tokens from the exact distributions are right for exact samples, and shift for samples of another distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from specviz.decoding.engine import TargetOnlyRandomness
from specviz.decoding.sampler import Shard, sample_with_shared_distributions
from specviz.decoding.samples import NONE, Samples
from specviz.evidence.testing.partition import build_partition
from specviz.evidence.testing.scores import group_by_prefix, score_samples
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import model, pair

V, L = 5, 3
SETTINGS = Settings(max_new_tokens=L, gamma=2)
P, Q = pair("random", 5, V, 20)


def draw_samples(n: int, table=P, eos_token_ids=frozenset()) -> Samples:
    return sample_with_shared_distributions(
        Shard(
            model(table, V),
            NoDraft(),
            TokenRule(),
            TargetOnlyRandomness(PhiloxRandomness(7)),
            SETTINGS,
            (0,),
            eos_token_ids,
            count=n,
        ),
        source="target",
    )


def test_each_token_is_placed_in_the_distribution_after_its_own_prefix():
    samples = draw_samples(200)
    scores = score_samples(model(P, V), model(Q, V), (0,), samples)
    for row in range(200):
        text = samples.tokens[row].tolist()
        for place, token in enumerate(text):
            p = np.array([float(x) for x in P((0, *text[:place]))])
            q = np.array([float(x) for x in Q((0, *text[:place]))])
            assert scores.below[row, place] == pytest.approx(p[:token].sum(), abs=1e-12)
            assert scores.mass[row, place] == pytest.approx(p[token], abs=1e-12)
            assert scores.favored[row, place] == (q[token] > p[token])
            assert scores.favored_mass[row, place] == pytest.approx(p[q > p].sum(), abs=1e-12)
    assert scores.impossible == 0


def test_after_the_end_there_is_nothing_to_score():
    samples = draw_samples(100, eos_token_ids=frozenset({1}))
    ended = samples.tokens == NONE
    scores = score_samples(model(P, V), None, (0,), samples)
    assert ended.any() and np.isnan(scores.mass[ended]).all() and not np.isnan(scores.mass[~ended]).any()


def test_a_token_that_the_target_never_writes_is_counted():
    tokens = np.array([[0, 0, 0]], dtype=np.int32)
    never = lambda ids: (0.0, 0.25, 0.25, 0.25, 0.25)  # noqa: E731
    assert score_samples(model(never, V), None, (0,), Samples(tokens, {}, "x")).impossible == 3


def cut_cells(counts: list[float], probs: list[float]) -> list[tuple[list[float], list[float]]]:
    found = group_by_prefix(torch.tensor([counts], dtype=torch.float64), torch.tensor([probs], dtype=torch.float64))
    return [(seen.tolist(), masses.round(12).tolist()) for seen, masses in found]


def test_light_tokens_join_the_lightest_cell():
    """By hand: n = 20, expected 10, 6, 4: the last is below 5 and joins the lightest, so both cells expect 10."""
    assert cut_cells([12, 5, 3], [0.5, 0.3, 0.2]) == [([12, 8], [0.5, 0.5])]


def test_light_tokens_that_reach_five_together_are_a_cell_of_their_own():
    """n = 40, expected 28, 4, 4, 4: the last three are one cell of 12."""
    assert cut_cells([22, 6, 6, 6], [0.7, 0.1, 0.1, 0.1]) == [([22, 18], [0.7, 0.3])]


def test_a_prefix_with_one_cell_says_nothing():
    assert cut_cells([3, 1], [0.5, 0.5]) == cut_cells([30, 1], [1.0, 0.0]) == []


def test_the_distribution_of_the_cells_is_the_distribution_of_what_falls_into_them():
    """Enumerated: every continuation falls into one cell, and the masses of those in a cell are its mass."""
    eos_token_ids = frozenset({1})
    cells = build_partition(model(P, V), (0,), L, cells=12, min_mass=0.01, eos_token_ids=eos_token_ids)
    texts, masses = [], []

    def walk(text: tuple[int, ...], mass: float) -> None:
        if len(text) == L or (text and text[-1] in eos_token_ids):
            texts.append(text + (NONE,) * (L - len(text)))
            masses.append(mass)
            return
        for token, probability in enumerate(P((0, *text))):
            if probability:
                walk((*text, token), mass * float(probability))

    walk((), 1.0)
    total = np.zeros(len(cells.names))
    for text, mass in zip(texts, masses, strict=True):
        total += mass * cells.count_samples(Samples(np.array([text], dtype=np.int32), {}, "x"))
    assert np.abs(total - cells.masses).max() < 1e-12 and len(cells.names) == 12
    assert cells.masses[cells.masses > 0].min() >= 0.01  # mass 0: all was given off, what falls there is impossible
    one = [sum(text[: len(name)] == name for text in texts) for name in cells.names]
    assert all(count == 1 for count, whole in zip(one, cells.is_whole_text, strict=True) if whole)


def test_speculative_and_target_only_samples_have_the_same_cells():
    """Cells come from the distribution: they are fixed before sampling, and the same for every decoder."""
    cells = build_partition(model(P, V), (0,), L, cells=10, min_mass=5 / 3000)
    fast = sample_with_shared_distributions(
        Shard(model(P, V), DraftModel(model(Q, V), 2), TokenRule(), PhiloxRandomness(7), SETTINGS, (0,), count=3000)
    )
    for samples in (fast, draw_samples(3000)):
        counts = cells.count_samples(samples)
        possible = cells.masses > 0
        assert counts[possible].sum() == 3000
        assert stats.chisquare(counts[possible], cells.masses[possible] * 3000).pvalue > 1e-4
