"""Interim tests of accumulating samples: when they are tested, in which cells, and at which level.

Everything is fixed before sampling. There are five tests, at 100, 1,000, 10,000, 100,000 and a million samples. Each has its own level,
and its own cells, twice as many as the one before. Samples between two tests are shown but not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specviz.decoding.samples import Coverage
from specviz.evidence.partition import NextTokens, Partition, build_partition
from specviz.evidence.tests import MARGIN, TestPlan, TestReport, run_joint_tests
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings
from specviz.statistics.power import find_detectable_tv
from specviz.statistics.sequential import InterimSchedule

SCHEDULE = InterimSchedule(first=100, looks=5, tests=2, factor=10)  # two tests at each look: chi-square and G
CELLS = 8  # at the first look


def make_plan(look: int, length: int) -> TestPlan:
    """A look as a plan. The distance that it must detect is the one that its cells can detect at its level."""
    n, level, cells = SCHEDULE.n(look), SCHEDULE.level(look), CELLS << look
    return TestPlan(n, length, min(1.0, find_detectable_tv(cells - 1, n, level) / MARGIN), level * SCHEDULE.tests, level, cells)


def make_partition(
    target: LanguageModel,
    prompt: Sequence[int],
    look: int,
    length: int,
    eos_token_ids: frozenset[int],
    next_tokens: NextTokens | None = None,
) -> Partition:
    """The cells of a look, made from the target's exact distribution and the number of samples. known: as in build_partition."""
    made = make_plan(look, length)
    return build_partition(target, prompt, length, made.cells, 5.0 / made.n, eos_token_ids, next_tokens)


@dataclass(frozen=True, slots=True)
class SequentialCells:
    """Cells that are fixed before the first sample. shown: of a picture; tests: of each interim test, in their order."""

    shown: Partition
    tests: tuple[Partition, ...]

    def to_record(self) -> dict[str, Any]:
        return {"shown": self.shown.to_record(), "looks": [one.to_record() for one in self.tests]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SequentialCells:
        return cls(Partition.from_record(record["shown"]), tuple(map(Partition.from_record, record["looks"])))

    def without_impossible(self) -> SequentialCells:
        """The picture without cells that the target never writes."""
        return replace(self, shown=self.shown.without_impossible())


def make_cells(
    pair: LoadedPair, settings: Settings, cells: int, min_mass: float, on_progress: ProgressCallback = ignore_progress
) -> SequentialCells:
    """At most ``cells`` cells of mass ``least`` or more, for a picture, and the cells of every interim test."""
    target, prompt, stops = pair.open(settings)[0], pair.encode(settings.prompt), pair.eos_token_ids
    known: NextTokens = {}
    shown = build_partition(target, prompt, settings.max_new_tokens, cells, min_mass, stops, known)
    tests = []
    for look in range(SCHEDULE.looks):
        on_progress((1 + look) / (1 + SCHEDULE.looks))
        tests.append(make_partition(target, prompt, look, settings.max_new_tokens, stops, known))
    return SequentialCells(shown, tuple(tests))


def run_interim_test(
    look: int,
    cells: Partition,
    counts: np.ndarray,
    mode: str,
    coverage: Coverage | None = None,
    is_control: bool = False,
) -> TestReport:
    """The result of an interim test of ``counts``, (C,): exactly the test's number of samples. The rest is as in TestReport."""
    plan = make_plan(look, cells.length)
    assert counts.sum() == plan.n
    tests = run_joint_tests(plan, cells, counts)
    plan = replace(plan, tv=max(plan.tv, tests[0].detectable_tv or 1.0))  # what these cells detect is what is asked of them
    return TestReport(mode, plan, tests, cells, counts, coverage, is_control)


def tabulate_plan() -> list[dict[str, float]]:
    """The plan as a table: samples, level of each test, cells, and the distance that is detected with power 0.99."""
    plans = [make_plan(look, 1) for look in range(SCHEDULE.looks)]
    return [{"n": one.n, "level": one.level, "cells": one.cells, "sees": one.tv} for one in plans]
