"""Interim looks of the page's live test: when accumulating samples are tested, in which cells, and at which level.

Everything is fixed before sampling. There are five looks, at 100, 1,000, 10,000, 100,000 and a million samples, the numbers that a
visitor can ask for. Each look has its own level, and its own cells, twice as many as the look before. Samples between two looks are
shown but not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specviz.evidence.partition import Known, Partition, exact_partition
from specviz.evidence.tests import MARGIN, Answer, Plan
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.statistics.goodness import chi_square, g_test
from specviz.statistics.power import detectable_tv, holm
from specviz.statistics.sequential import Looks
from specviz.statistics.total_variation import total_variation, tv_null_band

LOOKS = Looks(first=100, looks=5, tests=2, factor=10)  # two tests at each look: chi-square and G
CELLS = 8  # at the first look


def plan(look: int, length: int) -> Plan:
    """A look as a plan. The distance that it must detect is the one that its cells can detect at its level."""
    n, level, cells = LOOKS.n(look), LOOKS.level(look), CELLS << look
    return Plan(n, length, min(1.0, detectable_tv(cells - 1, n, level) / MARGIN), level * LOOKS.tests, level, cells)


def partition(
    target: LanguageModel,
    prompt: Sequence[int],
    look: int,
    length: int,
    eos_token_ids: frozenset[int],
    known: Known | None = None,
) -> Partition:
    """The cells of a look, made from the target's exact distribution and the number of samples. known: as in exact_partition."""
    made = plan(look, length)
    return exact_partition(target, prompt, length, made.cells, 5.0 / made.n, eos_token_ids, known)


def partitions(pair: LoadedPair, settings: Settings, cells: int, least: float, on_progress: ProgressCallback) -> list[Partition]:
    """At most ``cells`` cells of mass ``least`` or more, for a picture, and then the cells of every look."""
    target, prompt, stops = pair.open(settings)[0], pair.encode(settings.prompt), pair.eos_token_ids
    known: Known = {}
    made = [exact_partition(target, prompt, settings.max_new_tokens, cells, least, stops, known)]
    for look in range(LOOKS.looks):
        on_progress((1 + look) / (1 + LOOKS.looks))
        made.append(partition(target, prompt, look, settings.max_new_tokens, stops, known))
    return made


def judge(look: int, cells: Partition, counts: np.ndarray, mode: str) -> Answer:
    """The answer at a look. counts: (C,), over exactly the look's number of samples."""
    made = plan(look, cells.length)
    assert counts.sum() == made.n
    probs = cells.masses / cells.masses.sum()
    tests = tuple(test(counts, probs, alpha=made.level) for test in (chi_square, g_test))
    seen = tests[0].detectable_tv or 1.0
    if not cells.tells:
        verdict, seen = "too few samples", 1.0
    else:
        verdict = "rejected" if min(test.p_value for test in tests) <= made.level else "consistent"
    made = replace(made, tv=max(made.tv, seen))
    adjusted = holm([test.p_value for test in tests])
    band = tv_null_band(probs, made.n)
    return Answer(verdict, mode, made, tests, adjusted, total_variation(counts, probs), band, seen, cells.pooled, cells, counts)


def rule() -> list[dict[str, float]]:
    """The plan as a table: samples, level of each test, cells, and the distance that is detected with power 0.99."""
    plans = [plan(look, 1) for look in range(LOOKS.looks)]
    return [{"n": one.n, "level": one.level, "cells": one.cells, "sees": one.tv} for one in plans]
