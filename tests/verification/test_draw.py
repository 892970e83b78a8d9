"""'sample x ~ p': a draw by inverse CDF is the smallest id whose cumulative mass exceeds u times the total, so a distribution
that is given is the distribution that is drawn, and an impossible token stays impossible for every random number."""

import random
import warnings
from fractions import Fraction

import pytest
import torch

from specviz.verification.draw import draw_tokens

LAST = 1 - 2**-53  # largest number below 1
EDGES = (0.0, 5e-324, 2**-53, 0.5, 1 - 2**-52, LAST)


def draw_one(probs, u: float) -> int:
    return int(draw_tokens(torch.tensor(probs, dtype=torch.float64), torch.tensor(u, dtype=torch.float64)))


def draw_on_fractions(probs, u: float) -> int:
    """The definition on fractions."""
    goal, below = Fraction(u) * sum(map(Fraction, probs)), Fraction(0)
    for token, mass in enumerate(probs):
        below += Fraction(mass)
        if below > goal:
            return token
    raise AssertionError("no mass")


@pytest.mark.parametrize("u", EDGES)
@pytest.mark.parametrize("probs", ([0, 0, 1, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 0.1, 0.2, 0.7, 0], [0, 1e-300, 0], [0, 3.0, 0, 4.0]))
def test_a_token_of_mass_zero_is_never_drawn_at_either_end(probs, u):
    assert probs[draw_one(probs, u)] > 0


def test_the_ends_of_the_uniform_draw_the_first_and_last_possible_token():
    probs = [0, 0.25, 0.25, 0.5, 0]
    assert draw_one(probs, 0.0) == 1
    assert draw_one(probs, LAST) == 3


def test_a_uniform_on_an_edge_belongs_to_the_next_token():
    """'cumulative mass exceeds u': strict."""
    probs = [0.25, 0.25, 0, 0.5]
    assert [draw_one(probs, u) for u in (0.0, 0.25 - 2**-54, 0.25, 0.5 - 2**-54, 0.5, LAST)] == [0, 0, 1, 1, 3, 3]


def test_mass_need_not_be_one():
    """A distribution scaled by a power of two is the same distribution; by 3 it is the same up to rounding."""
    probs = [0.125, 0.5, 0, 0.375]
    for u in (*EDGES, 0.124, 0.126, 0.62, 0.63):
        assert len({draw_one([scale * mass for mass in probs], u) for scale in (1, 2, 0.25, 1024)}) == 1
        assert draw_one([3 * mass for mass in probs], u) == draw_one(probs, u)


def test_random_distributions_with_zeros_draw_only_what_is_possible():
    """2,000 distributions of 1 to 40 masses from 1e-300 to 1, most of them with zeros, each with the random numbers at the edges."""
    dice = random.Random(1)
    for _ in range(2000):
        size = dice.randrange(1, 41)
        probs = [10 ** -dice.choice((0, 1, 8, 17, 300)) * dice.random() if dice.random() < 0.5 else 0.0 for _ in range(size)]
        probs[dice.randrange(size)] = dice.random() + 1e-9
        rows = torch.tensor([probs] * (len(EDGES) + 1), dtype=torch.float64)
        for token in draw_tokens(rows, torch.tensor([*EDGES, dice.random()], dtype=torch.float64)).tolist():
            assert probs[token] > 0


def test_draws_equal_the_definition_on_fractions_where_sums_are_exact():
    """Dyadic masses: float64 sums them exactly, so every random number, edges included, must give the very same token."""
    dice = random.Random(2)
    for _ in range(300):
        size = dice.randrange(1, 12)
        probs = [dice.randrange(0, 5) / 64 for _ in range(size)]
        probs[dice.randrange(size)] += 1 / 64
        total = sum(probs)
        randomness = [*EDGES, dice.randrange(64) / 64, *(sum(probs[:i]) / total for i in range(size)), dice.random()]
        randomness = [u for u in randomness if u < 1 and Fraction(u) * Fraction(total) == Fraction(u * total)]
        got = draw_tokens(
            torch.tensor([probs] * len(randomness), dtype=torch.float64), torch.tensor(randomness, dtype=torch.float64)
        ).tolist()
        assert got == [draw_on_fractions(probs, u) for u in randomness]


def test_draws_equal_the_definition_away_from_edges():
    """Any masses: the same token wherever the random number is further from each edge than sums can err (1e-12)."""
    dice = random.Random(3)
    for _ in range(300):
        probs = [dice.random() * dice.randrange(2) for _ in range(20)] + [1.0]
        u = dice.random()
        edges = [sum(probs[: i + 1]) / sum(probs) for i in range(len(probs))]
        if min(abs(u - edge) for edge in edges) > 1e-12:
            assert draw_one(probs, u) == draw_on_fractions(probs, u)


def test_a_batch_draws_each_row_as_if_by_itself():
    dice = torch.Generator().manual_seed(4)
    distributions = torch.rand(7, 5, 33, dtype=torch.float64, generator=dice)
    randomness = torch.rand(7, 5, dtype=torch.float64, generator=dice)
    together = draw_tokens(distributions, randomness)
    assert together.dtype == torch.int64 and together.shape == (7, 5)
    for row in range(7):
        for place in range(5):
            assert together[row, place] == draw_tokens(distributions[row, place], randomness[row, place])


def test_token_zero_is_a_token():
    """Row R29 (feifeibear/LLMSpeculativeSampling forbade id 0): half the mass gets half the random numbers."""
    randomness = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    drawn = draw_tokens(torch.tensor([0.5, 0.5], dtype=torch.float64).expand(1000, 2), randomness)
    assert int((drawn == 0).sum()) == 500


def test_no_warning_is_printed_for_strided_distributions():
    """A draft's distributions arrive as a slice of a larger tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distributions = torch.ones(4, 3, 6, dtype=torch.float64)[:, 0]
        assert draw_tokens(distributions, torch.zeros(4, dtype=torch.float64)).tolist() == [0, 0, 0, 0]
