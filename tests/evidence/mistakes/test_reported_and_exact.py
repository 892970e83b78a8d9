"""Two ways to verify that are reported as mistakes keep the target's distribution: enumerated on tables, to rounding."""

from __future__ import annotations

import pytest

from specviz.evidence.mistakes.published import REPORTED_EXACT
from specviz.evidence.mistakes.registry import VARIANTS, Build, enumerate_tv, open_tables, with_rule
from specviz.evidence.mistakes.rules import OneHotResidualRule
from specviz.settings import Settings
from tests.helpers import toy_tables

SETTINGS = Settings(gamma=2, max_new_tokens=3)


def compute_tv(build: Build, seed: int) -> float:
    return enumerate_tv(build, open_tables(*toy_tables.pair("random", seed, 3, 12)), SETTINGS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REPORTED_EXACT)
def test_what_is_reported_as_a_mistake_and_declared_exact_is_exact(name, seed):
    """A draft token that must equal the target's own draw; a drawn token that is tested as if q were 1."""
    assert compute_tv(VARIANTS[name].build, seed) < 1e-12


def test_its_residual_beside_the_acceptance_of_a_drawn_token_is_not():
    assert max(compute_tv(with_rule(OneHotResidualRule()), seed) for seed in range(3)) > 1e-3
