"""Drafting methods side by side: proposers and rules on one prompt. ``specviz.speed.benchmarks.drafting_methods`` measures them.

All methods are measured under the same settings by one interleaved clock. A method that does not apply there has a reason instead of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from specviz.errors import SettingsError
from specviz.proposers.trees.node_count import choose_node_count, is_sized_by_curve
from specviz.records import Schema, build, build_fields, load_toml, to_json_value
from specviz.settings import Settings
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.cost_model import CostModel, DraftCosts
from specviz.speed.records.estimate import Estimate
from specviz.trace import Trace

SCHEMA = Schema("methods", 2, "The record of drafting methods")
DISTRIBUTIONS: dict[str, dict[str, Any]] = {  # the distributions that the page offers
    "0": {"temperature": 0.0, "top_p": None},
    "1": {"temperature": 1.0, "top_p": None},
    "top-p .9": {"temperature": 1.0, "top_p": 0.9},
}
DRAFTING = ("steps", "heads", "passes", "copies")  # see assets/texts/compared_methods.toml


@dataclass(frozen=True, slots=True)
class DraftingMethod:
    """A proposer and a rule.

    Attributes:
        settings: What it changes.
        description: How it drafts, in a sentence.
        drafting: What its drafting costs on another machine, one of DRAFTING; empty: not known.
        window: Tokens that a pass reads besides, for each level of the draft tokens.
        branches: Whether a round may have several draft tokens for one place; a computed speed is then an upper bound.
    """

    key: str
    name: str
    settings: Mapping[str, Any]
    description: str
    drafting: str = ""
    window: int = 0
    branches: bool = False

    def __post_init__(self) -> None:
        if self.drafting not in ("", *DRAFTING):
            raise ValueError(f"drafting of {self.key} is one of {', '.join(DRAFTING)}, got {self.drafting!r}")

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
        trace: The round that shows most among those that had all their draft tokens, with the distributions.
        speed: Times the speed of the row "target", taken run by run; None where one of them is not timed, and for computed times.
        timing: Milliseconds of a round by its parts, mean: draft, target, rule and rest; empty where a round has no parts.
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
    speed: Estimate | None = None
    timing: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.key not in DRAFTING_METHODS:
            raise ValueError(f"there is no row {self.key!r}")

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MethodRow:
        """Records of earlier versions lack ``speed`` and ``timing``."""
        return build_fields(cls, {"speed": None, "timing": {}} | record)

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
    """All rows. runs: how often each was timed; machine, models, date: what it was measured on, and when.

    baseline: What the times of the row "target" are of; None: of this project's target-only loop, the fastest one measured.
    prompts: Of the timed texts, one after the other in each run; empty: the prompt of the settings.
    """

    settings: Settings
    rows: tuple[MethodRow, ...]
    runs: int
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    baseline: Baseline | None = None
    prompts: tuple[str, ...] = ()

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MethodComparison:
        """Records of earlier versions lack ``baseline``: they were timed where the loop is the fastest; and ``prompts``: they had one."""
        return build_fields(cls, {"baseline": None, "prompts": []} | record)

    def find_row(self, key: str) -> MethodRow | None:
        return next((row for row in self.rows if row.key == key), None)

    def with_cost_model(self, model: CostModel) -> ComputedComparison:
        """The same counts with the costs of a machine: times are computed from both, for methods whose drafting has a known cost."""
        draft = model.find_draft(self.models.get("draft", {}).get("layers"))
        rows = tuple(replace(row, ms=_compute_ms(row, model, draft), speed=None) for row in self.rows)
        kept = {part.name: getattr(self, part.name) for part in fields(MethodComparison) if part.name not in ("rows", "baseline")}
        return ComputedComparison(**kept, rows=rows, cost_model=model)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedComparison(MethodComparison):
    """A comparison whose times are computed from the costs of another machine; those from a cost model have no interval."""

    cost_model: CostModel


def _compute_ms(row: MethodRow, model: CostModel, draft: DraftCosts) -> Estimate | None:
    """Milliseconds of a token by the mean round of a row: drafting, a pass over its draft tokens, and the rest of a chain's round.

    Draft tokens of a chain are drafted one by one, those of a tree level by level. The time by which drawing and checking
    a tree takes longer than a chain is not counted.
    """
    entry, nodes = row.entry, _count_draft_tokens(row)
    levels = min(float(len(row.checked)), nodes)
    if row.per_pass is None or not entry.drafting:
        return None
    if row.key == "target":
        ms = model.target_only
    else:
        steps = {"steps": levels, "heads": 1.0, "passes": levels, "copies": 0.0}[entry.drafting]
        costs = {"copies": model.find_draft(0), "passes": DraftCosts(model.layers, model.compute_pass(1), draft.rest)}
        tokens = nodes + entry.window * len(row.checked)
        ms = model.compute_round(tokens, steps, costs.get(entry.drafting, draft)) / row.per_pass
    return Estimate(ms, ms, ms, row.passes, "ms/token")


def _count_draft_tokens(row: MethodRow) -> float:
    """Draft tokens of a round: of a chain with a fixed number those of the round that was kept, which had all of them; else the mean.

    The last rounds of a text have fewer. *How fast?* counts them as whole rounds too, so both pages compute one speed.
    """
    has_fixed_number = not row.entry.branches and row.entry.drafting != "copies"
    return float(len(row.trace.rounds[-1].proposals)) if has_fixed_number and row.trace is not None else row.nodes


def dump_comparisons(comparisons: Mapping[str, MethodComparison]) -> str:
    """One comparison for each of DISTRIBUTIONS."""
    return SCHEMA.format_record({"comparisons": to_json_value(comparisons)})


def load_comparisons(text: str) -> dict[str, MethodComparison]:
    """Read the JSON of a record. Raises TraceError for anything else."""
    return SCHEMA.read(text, lambda record: build(dict[str, dict[str, MethodComparison]], record)["comparisons"])


def choose_distribution(base: Settings, choice: str) -> Settings:
    """Settings under one of DISTRIBUTIONS. Raises SettingsError for another."""
    if choice not in DISTRIBUTIONS:
        raise SettingsError("choice", choice[:60], f"one of {', '.join(DISTRIBUTIONS)}")
    return base.without_cuts(uniforms={}, **DISTRIBUTIONS[choice])
