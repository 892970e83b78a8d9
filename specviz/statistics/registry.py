"""Tests of a sample by name: counts per cell against the cells' exact masses. A new one is one file with ``@register_statistic``.

``chi-square`` and ``G`` are in every report, and sequential testing and certificates rely on them. Every other registered test is
run beside them, and the level of all tests is lowered for it (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from specviz.registry import Registry
from specviz.statistics.finding import Finding

JOINT = ("chi-square", "G")
Test = TypeVar("Test", bound="CountTest")


class CountTest(Protocol):
    """A test of counts. Arguments and result as ``goodness.compute_chi_square``; ``Finding.name`` is the registered name."""

    def __call__(self, counts: np.ndarray, probs: np.ndarray, *, alpha: float) -> Finding: ...


@dataclass(frozen=True, slots=True)
class StatisticEntry:
    """A registered test. title: what it is sensitive to, for a person."""

    name: str
    title: str
    test: CountTest


STATISTICS: Registry[StatisticEntry] = Registry(
    "statistic", "specviz.statistics", "register_statistic", "specviz.statistics", default=JOINT[0]
)


def register_statistic(name: str, *, title: str) -> Callable[[Test], Test]:
    """Register a test of counts."""
    return STATISTICS.register(name, lambda test: StatisticEntry(name, title, test))


def load_extra_statistics() -> tuple[StatisticEntry, ...]:
    """The tests beside ``JOINT``. One that cannot be loaded is left out, and the log says why."""
    return tuple(entry for name, entry in STATISTICS.load_all().items() if name not in JOINT)
