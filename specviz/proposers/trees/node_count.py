"""How many nodes of a tree pay off, from a recorded cost curve: more nodes give more tokens per pass, but every pass costs more.

``python -m specviz record trees`` measures and stores the curve. Reading it needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from specviz.records import ASSETS, Record, Schema, read_file_or
from specviz.settings import NODES_MAX, Settings, check_number, check_whole

SCHEMA = Schema("trees", 2, "The curve of trees")
RECORDED = ASSETS / "traces" / "trees.json"


@dataclass(frozen=True, slots=True)
class NodeCountPoint:
    """A tree with a budget of nodes: tokens per target pass, and the speed-up over target-only sampling from the costs."""

    nodes: int
    tokens_per_pass: float
    speed: float

    def __post_init__(self) -> None:
        check_whole("nodes", self.nodes, 1, NODES_MAX)
        for name in ("tokens_per_pass", "speed"):
            check_number(name, getattr(self, name), 0.0, 1e3, "a number above 0", above=True)


@dataclass(frozen=True, slots=True)
class NodeCountCurve(Record):
    """Points by proposer and temperature ("tree 0"), by ascending number of nodes; pair, machine and date of the measurement."""

    schema = SCHEMA

    points: Mapping[str, tuple[NodeCountPoint, ...]]
    pair: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def find_best(self, proposer: str, temperature: float) -> NodeCountPoint | None:
        """The fastest point; above temperature 0, where siblings are drawn, that of temperature 1. None if none was measured."""
        return max(self.list_points(proposer, temperature), key=lambda point: point.speed, default=None)

    def list_points(self, proposer: str, temperature: float) -> tuple[NodeCountPoint, ...]:
        """The points that ``best`` chooses from."""
        return self.points.get(format_curve_key(proposer, float(temperature > 0.0)), ())


def format_curve_key(proposer: str, temperature: float) -> str:
    """Key of ``NodeCountCurve.points``."""
    return f"{proposer} {temperature:g}"


@lru_cache(maxsize=1)
def load_recorded_curve() -> NodeCountCurve | None:
    """The curve shipped with the project; None if the file is missing or damaged."""
    return read_file_or(RECORDED, NodeCountCurve.from_json, None)


def is_sized_by_curve(proposer: str) -> bool:
    """Whether the recorded curve decides how many nodes this proposer drafts where neither a shape nor a number is given."""
    return (known := load_recorded_curve()) is not None and any(key.rpartition(" ")[0] == proposer for key in known.points)


def choose_node_count(settings: Settings) -> Settings:
    """The settings, with the fastest number of nodes if they name a tree but neither its shape nor its number of nodes."""
    if settings.tree or settings.tree_budget is not None:
        return settings
    best = known.find_best(settings.proposer, settings.temperature) if (known := load_recorded_curve()) else None
    return settings if best is None else replace(settings, tree_budget=best.nodes)
