"""Drafting methods side by side: proposers and rules on one prompt. ``specviz.speed.methods`` measures them.

All methods are measured under the same settings by one interleaved clock. A method that does not apply there has a reason instead of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import SettingsError
from specviz.proposers.trees.node_count import choose_node_count, is_sized_by_curve
from specviz.records import Schema, build, load_toml, to_json_value
from specviz.settings import Settings
from specviz.speed.estimate import Estimate
from specviz.trace import Trace

SCHEMA = Schema("methods", 2, "The record of drafting methods")
DISTRIBUTIONS: dict[str, dict[str, Any]] = {  # the distributions that the page offers
    "0": {"temperature": 0.0, "top_p": None},
    "1": {"temperature": 1.0, "top_p": None},
    "top-p .9": {"temperature": 1.0, "top_p": 0.9},
}


@dataclass(frozen=True, slots=True)
class DraftingMethod:
    """A proposer and a rule. settings: what it changes; description: how it drafts, in a sentence."""

    key: str
    name: str
    settings: Mapping[str, Any]
    description: str

    def build_settings(self, base: Settings) -> Settings:
        """Its settings; a tree without a shape gets the number of nodes that is fastest."""
        return choose_node_count(replace(base, **self.settings))

    @property
    def size_from_curve(self) -> bool:
        """Whether its number of nodes is the fastest one of the recorded curve."""
        return is_sized_by_curve(self.settings["proposer"]) and "tree" not in self.settings


DRAFTING_METHODS = {key: DraftingMethod(key, **row) for key, row in load_toml("texts/compared_methods").items()}


def explain_blank(method: DraftingMethod, settings: Settings) -> str:
    """Why a method is left out under these settings; empty if it is not."""
    if settings.temperature == 0.0 and method.key == "tree":
        return "At temperature 0 nothing is drawn: this is the tree of the most likely tokens."
    if settings.temperature == 0.0 and method.key.startswith("several"):
        return "At temperature 0 both drafts would write the same chain."
    return ""


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Samples of the first token that a method writes, beside the target's exact distribution.

    Attributes:
        labels: (C,) tokens as the hex of their bytes, most likely first; all others together at the end, as "".
        probs: (C,) their exact probabilities.
        counts: (C,) samples.
        low, high: (C,) shares that sampling noise leaves all bars within, 99 of 100 times.
        tv: Between samples and distribution on these cells.
        upper: What sampling noise leaves it below, 99 of 100 times.
        entropy: Of the target's distribution, nats.
        written: (C,) exact, what a lossy rule writes instead.
        written_tv: Total variation from the target's, over the whole vocabulary.
        edge: What a token's p must exceed under typical acceptance.
    """

    labels: tuple[str, ...]
    probs: tuple[float, ...]
    counts: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int
    tv: float
    upper: float
    entropy: float
    written: tuple[float, ...] | None = None
    written_tv: float | None = None
    edge: float | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(count / self.n for count in self.counts)


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What one method did. A row without numbers has a reason instead.

    Attributes:
        exact: Whether the rule keeps the target's distribution.
        tokens: Written in so many passes of the target, over all measured runs.
        nodes: Draft tokens per pass, mean.
        checked, accepted: Draft tokens checked and accepted, by depth from 0.
        trace: Its last round with a rejection, else its last, among those that had all their draft tokens; with the
            distributions.
    """

    key: str
    rule: str
    exact: bool
    reason: str = ""
    tokens: int = 0
    passes: int = 0
    nodes: float = 0.0
    checked: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    ms: Estimate | None = None
    first: FirstToken | None = None
    trace: Trace | None = None

    def __post_init__(self) -> None:
        if self.key not in DRAFTING_METHODS:
            raise ValueError(f"there is no row {self.key!r}")

    @property
    def entry(self) -> DraftingMethod:
        return DRAFTING_METHODS[self.key]

    @property
    def per_pass(self) -> float | None:
        return self.tokens / self.passes if self.passes else None

    @property
    def shares(self) -> tuple[float, ...]:
        """Acceptance rate of the draft tokens that were checked at each depth."""
        return tuple(
            accepted / checked if checked else 0.0 for accepted, checked in zip(self.accepted, self.checked, strict=True)
        )

    @property
    def coincides(self) -> bool:
        """Whether a lossy rule writes the target's distribution under these settings."""
        return not self.exact and self.first is not None and self.first.written_tv is not None and self.first.written_tv < 1e-9


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """All rows. runs: how often each was timed; machine, models, date: what it was measured on, and when."""

    settings: Settings
    rows: tuple[MethodRow, ...]
    runs: int
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def row(self, key: str) -> MethodRow | None:
        return next((row for row in self.rows if row.key == key), None)


def dump_comparisons(comparisons: Mapping[str, MethodComparison]) -> str:
    """One comparison for each of DISTRIBUTIONS."""
    return SCHEMA.text({"comparisons": to_json_value(comparisons)})


def load_comparisons(text: str) -> dict[str, MethodComparison]:
    """Read the JSON of a record. Raises TraceError for anything else."""
    return SCHEMA.read(text, lambda record: build(dict[str, dict[str, MethodComparison]], record)["comparisons"])


def choose_distribution(base: Settings, choice: str) -> Settings:
    """Settings under one of DISTRIBUTIONS. Raises SettingsError for another."""
    if choice not in DISTRIBUTIONS:
        raise SettingsError("choice", choice[:60], f"one of {', '.join(DISTRIBUTIONS)}")
    return base.without_cuts(uniforms={}, **DISTRIBUTIONS[choice])
