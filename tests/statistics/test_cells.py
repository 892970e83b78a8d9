"""Cells are fixed from the exact distribution before any draw; small cases are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.errors import EvidenceError
from specviz.statistics.cells import UNLISTED, Cells
from specviz.statistics.power import affordable_df, detectable_tv
from tests.chance import zipf


def test_heavy_outcomes_have_own_cells_light_ones_share_one_and_impossible_ones_have_the_last():
    """100 draws, at least 5 expected: 0.5, 0.3, 0.1 alone; 0.06 too; 0.03 and 0.01 expect 4 together, so they join ... nobody
    lighter.

    Packed: 0.03 + 0.01 = 0.04 < 0.05 reaches no cell, so the lightest single outcome, 0.06, takes them in.
    """
    cells = Cells.of([0.5, 0.3, 0.1, 0.06, 0.03, 0.01, 0.0], 100)
    assert cells.cell.tolist() == [0, 1, 2, 3, 3, 3, 4]
    assert cells.probs == pytest.approx([0.5, 0.3, 0.1, 0.1, 0.0])
    assert (cells.own, cells.df) == (3, 3)
    assert cells.pooled_mass == pytest.approx(0.1)


def test_light_outcomes_are_packed_heaviest_first():
    """100 draws: 0.04 + 0.03 reach 5, 0.02 + 0.02 + 0.01 reach 5 again; the last 0.01 joins them. Order of the list does not matter."""
    cells = Cells.of([0.01, 0.04, 0.02, 0.87, 0.03, 0.02, 0.01], 100)
    assert cells.probs == pytest.approx([0.87, 0.07, 0.06, 0.0])
    assert cells.cell.tolist() == [2, 1, 2, 0, 1, 2, 2]


def test_a_tally_counts_draws_per_cell():
    cells = Cells.of([0.5, 0.3, 0.1, 0.06, 0.03, 0.01, 0.0], 100)
    assert cells.tally([0, 0, 5, 6]).tolist() == [2, 0, 0, 1, 1]
    assert cells.tally([0, 5, 6], [10, 20, 30]).tolist() == [10, 0, 0, 20, 30]


def test_a_distribution_known_in_part_keeps_the_rest_as_one_outcome():
    """The joint distribution of three tokens has 4096^3 outcomes: those of mass minimum / n or more are listed, the rest is a number."""
    full = zipf(5000)
    n = 2000
    listed = full[full >= 5 / n]
    cells = Cells.of(listed, n, rest=1.0 - listed.sum())
    assert cells.own == len(listed) == Cells.of(full, n).own
    assert cells.probs[cells.unlisted] == pytest.approx(1.0 - listed.sum())
    assert cells.tally([0, UNLISTED, UNLISTED]).tolist()[cells.unlisted] == 2


def test_with_no_rest_an_unlisted_outcome_is_impossible():
    cells = Cells.of([0.5, 0.5], 100)
    assert cells.tally([UNLISTED]).tolist() == [0, 0, 1]
    assert cells.probs[-1] == 0.0


def test_a_rest_too_light_for_a_cell_joins_the_lightest_outcome():
    cells = Cells.of([0.6, 0.38], 100, rest=0.02)
    assert cells.probs == pytest.approx([0.6, 0.4, 0.0])
    assert cells.unlisted == 1 and cells.own == 1


def test_rounding_in_one_minus_a_sum_is_no_negative_mass():
    assert Cells.of([0.5, 0.5], 100, rest=-1e-16).unlisted == 2


@pytest.mark.parametrize(("size", "n", "most"), ((3000, 10_000, None), (200_000, 1_000_000, None), (200_000, 1_000_000, 90)))
def test_every_cell_expects_enough_and_no_mass_is_lost(size, n, most):
    probs = np.random.default_rng(size).permutation(zipf(size))
    cells = Cells.of(probs, n, most=most)
    assert cells.probs.sum() == pytest.approx(1.0)
    assert n * cells.probs[:-1].min() >= cells.minimum * (1 - 1e-9)
    assert np.bincount(cells.cell, weights=probs, minlength=len(cells.probs)) == pytest.approx(cells.probs)
    assert most is None or cells.df + 1 <= most


def test_a_partition_made_to_measure_sees_the_distance_that_was_asked_for():
    """All cells that 1,000,000 draws allow see 0.016; the fewer cells that 0.005 affords see 0.005."""
    probs, n = zipf(200_000), 1_000_000
    fine, coarse = Cells.of(probs, n), Cells.of(probs, n, most=affordable_df(0.005, n) + 1)
    assert detectable_tv(fine.df, n) > 0.015
    assert detectable_tv(coarse.df, n) <= 0.005
    assert coarse.pooled_mass > fine.pooled_mass, "what is gained in sight is lost inside the pools, and said"


def test_one_outcome_with_all_the_mass_is_no_error():
    cells = Cells.of([0.0, 1.0, 0.0], 1000)
    assert (cells.df, cells.own) == (0, 1)
    assert cells.tally([1, 1, 0]).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    (
        (lambda: Cells.of([0.5, 0.5], 0), "samples must be above 0, got 0"),
        (lambda: Cells.of([0.5, 0.5], 6), "every outcome is pooled"),
        (lambda: Cells.of([0.5, 0.5], 100, most=1), "at least 2, got 1"),
        (lambda: Cells.of([0.5, 0.4], 100), "must sum to 1, got 0.9"),
        (lambda: Cells.of([1.5, -0.5], 100), "negative mass, -0.5"),
        (lambda: Cells.of([0.9, float("nan")], 100), "not a number"),
        (lambda: Cells.of([], 100), "one mass or more"),
        (lambda: Cells.of([0.6, 0.6], 100, rest=-0.2), "negative mass, -0.2"),
        (lambda: Cells.of([0.5, 0.5], 100).tally([2]), "between 0 and 1"),
    ),
)
def test_bad_distributions_get_a_sentence(call, words):
    with pytest.raises(EvidenceError, match=words):
        call()
