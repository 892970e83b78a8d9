"""How a decoder is sampled and tested: all of it is fixed before the first sample.

A plan tests its samples once, or at several looks while they accumulate. A look has the cells of a single test of its number of
samples, and a part of the false-alarm rate as its own (statistics/sequential.py), so that all looks together keep that rate. Looks test
the counts in the cells; a single test also scores every sample along its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specviz.evidence.sampling.effort import SamplingEffort
from specviz.evidence.testing.hypothesis_tests import TestPlan
from specviz.evidence.testing.partition import NextTokens, Partition, build_partition
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings
from specviz.statistics.sequential import InterimSchedule

SCHEDULE = InterimSchedule(first=100, looks=5, tests=2, factor=10)  # two tests at each look: chi-square and G
LEAST_SAMPLES = 2_000  # from the engine, by default
EXTENSION = 2.0


@dataclass(frozen=True, slots=True)
class SamplingPlan(SamplingEffort):
    """How a decoder is sampled and tested."""

    reference: int | None = None  # target-only samples for the test that needs no distribution; None: as usual; 0: no such test
    looks: InterimSchedule | None = None  # when accumulating samples are tested; None: once, when all are drawn
    least: int = LEAST_SAMPLES  # samples from the engine for which EXTENSION times the planned seconds may be taken
    tested_tokens: int | None = None  # as in ``decoding.sampler.Shard``

    def count_fitting(self, seconds_per_sample: float) -> int:
        """How many samples from the engine fit into the planned seconds, or into EXTENSION times as many, but then at most ``least``."""
        usual = int(self.seconds / seconds_per_sample)
        return max(usual, min(self.least, int(EXTENSION * self.seconds / seconds_per_sample)))

    def plan_single_test(self, n: int, length: int) -> TestPlan:
        """The plan for testing ``n`` samples once; ``min_tv`` is replaced by what they detect, where that is more than the plan's."""
        return TestPlan.for_samples(n, length, self.min_tv)

    def plan_look(self, look: int, length: int) -> TestPlan:
        """The plan of a look: the cells of a single test of its samples, at the look's part of the false-alarm rate."""
        assert self.looks is not None
        plan = self.plan_single_test(self.looks.count_samples(look), length)
        return plan.with_alpha(self.looks.compute_alpha_at(look), self.looks.tests)

    def plan_certificate(self, look: int, length: int) -> TestPlan:
        """The plan for the samples of a look with all tests of a single one, at the look's part of the false-alarm rate."""
        assert self.looks is not None
        return self.plan_single_test(self.looks.count_samples(look), length).with_alpha(self.looks.compute_alpha_at(look))

    def tabulate_looks(self, length: int = 1) -> list[dict[str, float]]:
        """The looks as a table: samples, level of each test, cells, and the distance that is detected with power 0.99."""
        assert self.looks is not None
        plans = [self.plan_look(look, length) for look in range(self.looks.looks)]
        return [{"n": one.n, "level": one.level, "cells": one.max_cells, "sees": one.tv} for one in plans]


SINGLE = SamplingPlan()
INTERIM = SamplingPlan(
    "shared-distributions", SCHEDULE.count_samples(SCHEDULE.looks - 1), looks=SCHEDULE
)  # of the pages and of classes


@dataclass(frozen=True, slots=True)
class SequentialCells:
    """Cells that are fixed before the first sample. shown: of a picture; tests: of each look, in their order."""

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
    pair: LoadedPair,
    settings: Settings,
    cells: int,
    min_mass: float,
    on_progress: ProgressCallback = ignore_progress,
    plan: SamplingPlan = INTERIM,
    prompt: Sequence[int] | None = None,
) -> SequentialCells:
    """At most ``cells`` cells of mass ``min_mass`` or more, for a picture, and the cells of every look.

    ``prompt``: token ids; None: those of the settings' prompt.
    """
    target, stops, length = pair.open(settings)[0], pair.eos_token_ids, settings.max_new_tokens
    prompt = pair.encode(settings.prompt) if prompt is None else prompt
    next_tokens: NextTokens = {}
    shown = build_partition(target, prompt, length, cells, min_mass, stops, next_tokens)
    tests: list[Partition] = []
    looks = plan.looks.looks if plan.looks else 0
    for look in range(looks):
        on_progress((1 + look) / (1 + looks))
        test = plan.plan_look(look, length)
        tests.append(build_partition(target, prompt, length, test.max_cells, test.min_mass, stops, next_tokens))
    return SequentialCells(shown, tuple(tests))
