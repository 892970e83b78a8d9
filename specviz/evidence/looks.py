"""The page's live counter: when it looks at accumulating draws, in which cells, at which level, all fixed before any draw.

Five looks, at 100, 1,000, 10,000, 100,000 and a million draws, because those are the sizes that a visitor asks for. Each has
its own level and its own cells, twice as many as the look before; draws between two looks are shown, but not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specviz.evidence.experiment import MARGIN, Answer, Plan
from specviz.evidence.partition import Partition, exact_partition
from specviz.models.base import LanguageModel
from specviz.statistics.goodness import chi_square, g_test
from specviz.statistics.power import detectable_tv, holm
from specviz.statistics.sequential import Looks
from specviz.statistics.variation import total_variation, tv_null_band

LOOKS = Looks(first=100, looks=5, tests=2, factor=10)  # two tests of the joint distribution at each look: chi-square and G
CELLS = 8  # of the first look


def plan(look: int, length: int) -> Plan:
    """A look as a plan: the distance that it must see is the one that its cells can see at its level."""
    n, level, cells = LOOKS.n(look), LOOKS.level(look), CELLS << look
    return Plan(n, length, min(1.0, detectable_tv(cells - 1, n, level) / MARGIN), level * LOOKS.tests, level, cells)


def partition(target: LanguageModel, prompt: Sequence[int], look: int, length: int, eos_token_ids: frozenset[int]) -> Partition:
    """The cells of a look: from the target's exact distribution and the number of draws to come."""
    made = plan(look, length)
    return exact_partition(target, prompt, length, made.cells, 5.0 / made.n, eos_token_ids)


def judge(look: int, cells: Partition, counts: np.ndarray, mode: str) -> Answer:
    """What the draws of a look say. counts (C,) over exactly its number of draws."""
    made = plan(look, cells.length)
    assert counts.sum() == made.n
    probs = cells.masses / cells.masses.sum()
    tests = tuple(test(counts, probs, alpha=made.level) for test in (chi_square, g_test))
    seen = tests[0].detectable_tv or 1.0
    if not cells.tells:
        verdict, seen = "too few draws", 1.0
    else:
        verdict = "rejected" if min(test.p_value for test in tests) <= made.level else "consistent"
    made = replace(made, tv=max(made.tv, seen))
    adjusted = holm([test.p_value for test in tests])
    band = tv_null_band(probs, made.n)
    return Answer(verdict, mode, made, tests, adjusted, total_variation(counts, probs), band, seen, cells.pooled, cells, counts)


def rule() -> list[dict[str, float]]:
    """The plan as a table: draws, level of each test, cells, and the distance that is seen with power .99."""
    plans = [plan(look, 1) for look in range(LOOKS.looks)]
    return [{"n": one.n, "level": one.level, "cells": one.cells, "sees": one.tv} for one in plans]
