"""How often a mutant is seen: on how many tables its distribution is off at all, and how often draws say so. 'Power comes from the
enumerated distribution': so draws of a mutant must follow the distribution that was enumerated for it, and be caught as often as that distribution says.

Chance: fit, 17 mutants at 1e-4 each; power, 17 bands of 99.99%: the file fails by chance once in 290 choices of the one seed.
"""

from dataclasses import replace

import pytest
from scipy import stats

from specviz.evidence.mistakes.registry import MISTAKES, enumerate_tv, open_tables
from specviz.statistics.goodness import compute_chi_square
from tests.helpers import toy_tables
from tests.helpers.chance_bands import is_in_band
from tests.helpers.mutant_draws import build_pooled_cells, count_draws, list_distributions, read_stated

QUICK = ("R1", "R6", "R18", "greedy-bonus")  # test_mistakes.py has the distribution and the draws of every mistake


def keep_quick(names) -> list:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def count_caught(name: str) -> int:
    """On how many of forty pairs of tables the distribution is off: twelfths for every prefix, V = 3 (2 for R35; 4 for cuts, at top-k 3)."""
    mutant = MISTAKES[name]
    settings = replace(mutant.settings, top_k=mutant.settings.top_k and 3)
    vocabulary = 2 if name == "R35" else 4 if settings.top_k else 3
    pairs = (open_tables(*toy_tables.pair("random", seed, vocabulary, 12)) for seed in range(40))
    return sum(enumerate_tv(mutant.build, open_, settings) > 1e-9 for open_ in pairs)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", keep_quick(MISTAKES))
def test_on_forty_random_tables_as_many_see_it_as_documented(name):
    """One table is not enough, and some mistakes need many."""
    assert count_caught(name) == read_stated()[name].of_forty


SAMPLED = [mutant.id for mutant in MISTAKES.values() if mutant.tier == "sampled"]


@pytest.mark.parametrize("name", keep_quick(SAMPLED))
def test_a_mutants_draws_follow_the_distribution_that_was_enumerated_for_it(name):
    """2,000 draws with the seed's random numbers, as the mutant mistakes them: no text of probability 0, chi-square above 1e-4."""
    written, _ = list_distributions(MISTAKES[name])
    counts, cells = count_draws(
        MISTAKES[name], MISTAKES[name].build, {text: mass for text, mass in written.items() if mass > 1e-13}, 2000
    )
    assert compute_chi_square(counts, cells.probs).p_value > 1e-4


@pytest.mark.parametrize(
    "name", [name if name in ("R18", "greedy-bonus") else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLED]
)
def test_a_mutant_is_caught_as_often_as_its_enumerated_distribution_says(name):
    """200 repeats of n draws, tested at .01: rejections lie in the 99.99% band of the power that the distribution gives.

    The fit above holds the draws of R1 and R6 to the same distributions.
    """
    mutant, (written, exact) = MISTAKES[name], list_distributions(MISTAKES[name])
    n, power = find_fewest_draws(written, exact)
    cells, _, _ = build_pooled_cells(exact, written, n)
    found = 0
    for repeat in range(200):
        counts, _ = count_draws(mutant, mutant.build, exact, n, first=repeat * n)
        found += compute_chi_square(counts, cells.probs).p_value < 0.01
    assert is_in_band(found, 200, power), (n, found, power)


def find_fewest_draws(written: dict, exact: dict) -> tuple[int, float]:
    """The fewest draws, of 60, 90, 135, ..., that catch a distribution more often than not, and how often they do.

    One draw that the target never writes rejects at once; else chi-square does, with the power of its noncentrality.
    """
    n = 60
    while n < 200_000:
        cells, _, masses = build_pooled_cells(exact, written, n)
        probs, other, never = cells.probs[:-1], masses[:-1], float(masses[-1])
        assert (cells.probs > 0).sum() == len(probs)
        df, apart = len(probs) - 1, n * float(((other - probs) ** 2 / probs).sum())
        power = stats.ncx2.sf(stats.chi2.isf(0.01, df), df, apart) if df and apart > 1e-9 else 0.0
        power = 1.0 - (1.0 - never) ** n * (1.0 - power)
        if power > 0.5:
            return n, power
        n = n * 3 // 2
    raise AssertionError("no number of draws sees it")
