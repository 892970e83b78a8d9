"""A first look at a pair as a record, and how long it may take. ``specviz.speed.prediction.assessment`` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specviz.proposers.registry import PROPOSERS
from specviz.records import to_json_value
from specviz.settings import Settings, check_declared, declare_count
from specviz.speed.records.estimate import MIN_RUNS, Estimate
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.speed.records.plan import PlanRow, SpeedPlan
from specviz.speed.records.server_commands import ServerCommand, build_server_commands

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import Preflight

SCHEMA = "specviz-assessment-1"


@dataclass(frozen=True, slots=True)
class AssessmentEffort:
    """How long an assessment takes, about; loading the models comes before it."""

    seconds: int = declare_count(85, 20, 3600, "seconds that it may take after the models are loaded, about")

    def __post_init__(self) -> None:
        check_declared(self)


DEFAULT_ASSESSMENT = AssessmentEffort()


@dataclass(frozen=True, slots=True)
class MethodSpeed:
    """A drafting method beside the target alone.

    Attributes:
        key: Of DRAFTING_METHODS.
        gamma: Draft tokens of a round.
        tokens_per_pass: Mean over the timed texts.
        speedup: Times as fast as the fastest target-only loop; None with a ``reason``.
        reason: Why it did not run.
    """

    key: str
    gamma: int
    tokens_per_pass: float = 0.0
    speedup: Estimate | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return DRAFTING_METHODS[self.key].name

    @property
    def proposer(self) -> str:
        """What ``--proposer`` calls it."""
        return str(DRAFTING_METHODS[self.key].settings["proposer"])

    @property
    def runs_model(self) -> bool:
        """Whether drafting runs a model, as its proposer declares."""
        return PROPOSERS.read_argument(self.proposer, "runs_model", True)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The answers about a pair. None, or empty: not reached.

    Attributes:
        settings: Pair, drafting method and distribution.
        preflight: Whether it fits this machine.
        report: Of samples of the engine: a certificate as ``verify`` writes it.
        plan: Tokens per target pass and speed by draft length.
        methods: Measured side by side: the pair's draft at the best draft length, and methods without a draft.
    """

    settings: Settings
    preflight: Preflight | None = None
    report: Mapping[str, Any] | None = None
    plan: SpeedPlan | None = None
    methods: tuple[MethodSpeed, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    @property
    def best_row(self) -> PlanRow | None:
        """The row of the plan with the largest predicted speed-up, whether it pays or not."""
        rows = [row for row in self.plan.rows if row.factor is not None] if self.plan else []
        return max(rows, key=lambda row: row.speedup.value, default=None)

    @property
    def fastest(self) -> MethodSpeed | None:
        """The method with the largest measured speed-up; None where none has one."""
        timed = [one for one in self.methods if one.speedup is not None]
        return max(timed, key=lambda one: one.speedup.value if one.speedup else 0.0, default=None)

    @property
    def advice(self) -> str:
        """Which method to take, as a sentence that says how sure it is; '' where none was timed."""
        best = self.fastest
        if best is None or best.speedup is None:
            return ""
        if best.speedup.n < MIN_RUNS:
            return f"In {best.speedup.n} runs, too few for an interval, {best.name} was the fastest: {best.speedup.format()} times the target alone."
        if best.speedup.low <= 1.0:
            return f"No method is clearly faster than the target alone here; the first is {best.name}, {best.speedup.format()} times as fast."
        close = [one.name for one in self.methods if one is not best and one.speedup and one.speedup.high >= best.speedup.low]
        said = f"{best.name} is the fastest here, {best.speedup.format()} times the target alone"
        return f"{said}; {' and '.join(close)} cannot be told apart from it." if close else f"{said}."

    @property
    def served(self) -> tuple[Settings, int] | None:
        """Drafting method and draft length to start a server with: one without a model where it alone is faster here, else what was planned."""
        best, row = self.fastest, self.best_row
        is_planned = self.plan is not None and self.plan.verdict == "speculate"
        if best is not None and not best.runs_model and best.speedup is not None and best.speedup.low > 1.0 and not is_planned:
            return replace(self.settings, proposer=best.proposer), best.gamma
        return None if row is None else (self.settings, row.gamma)

    @property
    def doubt(self) -> str:
        """Why ``served`` may not pay, as part of a sentence; '' where it pays here."""
        if self.served is None or self.served[0].proposer != self.settings.proposer:
            return ""
        verdict = self.plan.verdict if self.plan is not None else "no verdict"
        if verdict != "no verdict":
            return "it does not pay on this machine" if verdict == "do not speculate" else ""
        slower = [
            one.speedup for one in self.methods if one.key == self.settings.proposer and one.speedup and one.speedup.high < 1.0
        ]
        return f"slower than the target alone here: {slower[0].format()} times" if slower else "whether it pays is not known"

    @property
    def server_commands(self) -> tuple[ServerCommand, ...]:
        """How servers are started with ``served``; empty where they lack the method or nothing was planned."""
        if self.plan is None or self.served is None:
            return ()
        return build_server_commands(*self.served, self.plan.models.get("draft", {}))

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""
        found = {
            "settings": self.settings.to_record(),
            "preflight": self.preflight and self.preflight.to_record(),
            "report": self.report and dict(self.report),
            "plan": self.plan and self.plan.to_record(),
            "methods": to_json_value(self.methods),
            "advice": self.advice,
            "server_commands": to_json_value(self.server_commands),
            "machine": dict(self.machine),
            "date": self.date,
        }
        return {"schema": SCHEMA} | found
