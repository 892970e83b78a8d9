"""A plan: what speculation would bring on a text, predicted before it is run, and how far a measurement was off. No torch; plan_run.py
fills it.

Intervals of predictions are the middle 95% over resamples of the texts (bootstrap), and of speeds over resampled turns of the cost
probes as well. Those of measured speeds are the least and the most of the turns,
each of which has texts of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import geometric_mean, median
from typing import Any

from specviz.records import from_record
from specviz.settings import Settings
from specviz.theory import best_gamma

SCHEMA = "specviz-plan-2"
APART = 0.4  # share of a measured factor that its turns may span, for the measurement to be believed
UNSTEADY = 0.25  # widest middle half of the probes, as a share of their median, under which a speed is judged


@dataclass(frozen=True, slots=True)
class Interval:
    """A number, and what it lies between."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of the probes, turn by turn, in one process.

    alone   one token of the target alone, a whole round of the loop
    rounds  per turn a whole round with 0, 1, .. G draft tokens, whatever becomes of them
    first   per turn what the first round of a text takes, which opens the models and reads the prompt: the target alone, then with
            0, 1, .. G draft tokens
    parts   of a round with so many draft tokens, medians: drafting, the target's pass, the rule; ``rest`` is what is left of the round
    """

    alone: tuple[float, ...]
    rounds: tuple[tuple[float, ...], ...]
    first: tuple[tuple[float, ...], ...]
    parts: Mapping[str, tuple[float, ...]]

    @property
    def c(self) -> float:
        """A draft step over a pass of the target: the median round's drafting at the most draft tokens, for each of them, over one token alone."""
        return self.parts["draft"][-1] / (len(self.rounds[0]) - 1) / median(self.alone)

    @property
    def spread(self) -> float:
        """The widest middle half of any probe beside the others of its turn, as a share of its median.

        Speed-ups are ratios: a machine that is slower for a whole turn takes nothing from them.
        """
        turns = [(alone, *rounds) for alone, rounds in zip(self.alone, self.rounds, strict=True)]
        beside = [[seconds / geometric_mean(turn) for seconds in turn] for turn in turns]
        columns = [sorted(column) for column in zip(*beside, strict=True)]
        return max((c[(3 * len(c)) // 4] - c[len(c) // 4]) / c[len(c) // 2] for c in columns)


@dataclass(frozen=True, slots=True)
class Row:
    """One gamma: tokens per target pass, and the factor over the target alone, None where no costs were measured.

    tokens     by accepted draft tokens; hazards, independent  by the plainer formulas with what accepted draft tokens say of hazards and alpha
    own_text   from the user's text read on, no text of the target's
    leviathan  factor of the independent formula at c, a block costing one pass; linear  of the hazards at a cost with a fixed part
    operations  arithmetic for a token over that of the target alone; None where draft tokens are no model's
    gain       tokens per pass above those of the token rule on the same texts; None under that rule itself
    """

    gamma: int
    tokens: Interval
    hazards: float
    independent: float
    own_text: float
    alpha: float
    factor: Interval | None = None
    leviathan: float | None = None
    linear: float | None = None
    operations: float | None = None
    gain: Interval | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """One gamma, measured. gaps: formula -> predicted tokens per pass over measured ones minus 1, with its interval.

    rate  tokens per second by turn; None where no speed was measured
    gain  measured tokens per pass above those of the token rule after the same openings; None under that rule itself
    luck  rounds that the timed texts took over predicted ones minus 1: what the clock's own draws add to the gap of the speed
    """

    gamma: int
    tokens: Interval
    gaps: Mapping[str, Interval]
    factor: Interval | None = None
    rate: tuple[float, ...] | None = None
    gain: Interval | None = None
    luck: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything of one plan.

    text      its name, its tokens, and the SHA-256 of its bytes
    openings  how many continuations; opening, length  tokens of each before and after its place
    best      gamma of the largest predicted factor, 0 for the target alone, with the middle 95% over resamples; None without costs
    checked   measured rows, none where nothing was checked; alone  tokens per second of the target alone there, by turn
    """

    settings: Settings
    text: Mapping[str, Any]
    openings: int
    opening: int
    length: int
    rows: tuple[Row, ...]
    costs: Curve | None = None
    best: Interval | None = None
    checked: tuple[Checked, ...] = ()
    alone: tuple[float, ...] | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def row(self, gamma: int) -> Row | None:
        return next((row for row in self.rows if row.gamma == gamma), None)

    @property
    def chosen_by(self) -> dict[str, int]:
        """The gamma that each way of predicting would choose, 0 for the target alone; empty without costs."""
        if self.best is None:
            return {}
        plainer = {name: best_gamma({row.gamma: getattr(row, name) for row in self.rows}) for name in ("linear", "leviathan")}
        return {"accepted draft tokens": int(self.best.value), "hazards": plainer["linear"], "Leviathan": plainer["leviathan"]}

    @property
    def steady(self) -> bool:
        """Whether the probes lie close enough together for a verdict."""
        return self.costs is not None and self.costs.spread <= UNSTEADY

    @property
    def believed(self) -> bool:
        """Whether the turns of the measured speeds lie close enough together; true where none were measured."""
        spans = [(row.factor.high - row.factor.low) / row.factor.value for row in self.checked if row.factor is not None]
        return max(spans, default=0.0) <= APART

    @property
    def verdict(self) -> str:
        """``speculate``, ``do not speculate``, or ``no verdict``: no costs, or a machine too busy to measure them."""
        if self.best is None or not self.steady:
            return "no verdict"
        row = self.row(int(self.best.value))
        return "speculate" if row is not None and row.factor.low > 1.0 else "do not speculate"

    @property
    def in_words(self) -> str:
        """The verdict as a sentence."""
        if self.costs is None:
            return "No verdict on speed: no costs were measured."
        if not self.steady:
            return (
                "No verdict: beside the other probes of its turn one took so different times that their middle half spans "
                f"{self.costs.spread:.0%} of their median; at most {UNSTEADY:.0%} is allowed. Another program may keep this machine busy: run it again alone."
            )
        row = self.row(int(self.best.value))
        if row is None:
            top = max(self.rows, key=lambda one: one.factor.value)
            return f"Do not speculate: the best length, {top.gamma}, would give {_span(top.factor)} times the target's speed."
        if row.factor.low <= 1.0:
            return f"Do not speculate: {_span(row.factor)} times the target's speed is no gain that can be told from chance."
        span = "" if self.best.low == self.best.high else f" ({self.best.low:g} to {self.best.high:g})"
        return f"Speculate with gamma {row.gamma}{span}: {_span(row.factor)} times the target's speed."

    @property
    def lost(self) -> float | None:
        """How much slower the chosen gamma was measured than the best one, as a share; None where no speed was measured.

        In each turn the chosen one is held against the gamma that was fastest in all other turns: the fastest of several noisy
        measurements looks better than it is. The median over turns; below 0 the chosen one was faster.
        """
        if self.best is None or self.alone is None or len(self.alone) < 2:
            return None
        rates = {0: self.alone} | {row.gamma: row.rate for row in self.checked}
        if (chosen := int(self.best.value)) not in rates:
            return None
        ratios = []
        for turn in range(len(self.alone)):
            others = {gamma: median(rate[:turn] + rate[turn + 1 :]) for gamma, rate in rates.items()}
            fastest = max(others, key=lambda gamma: others[gamma])
            ratios.append(rates[chosen][turn] / rates[fastest][turn])
        return 1.0 - median(ratios)

    def to_json(self) -> str:
        record = asdict(self) | {"settings": self.settings.to_record(), "schema": SCHEMA, "verdict": self.verdict}
        return json.dumps(record | {"in_words": self.in_words, "lost": self.lost}, ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Back from to_json. Raises TraceError for anything that is no plan."""
        return from_record(text, SCHEMA, "The plan", cls._made)

    @classmethod
    def _made(cls, record: dict[str, Any]) -> Plan:
        for derived in ("verdict", "in_words", "lost"):
            del record[derived]
        made = {
            "settings": Settings.from_record(record["settings"]),
            "rows": tuple(_row(Row, row) for row in record["rows"]),
            "checked": tuple(_row(Checked, row) for row in record["checked"]),
            "costs": _curve(record["costs"]),
            "best": _interval(record["best"]),
            "alone": _tuple(record["alone"]),
        }
        return cls(**record | made)


def _span(found: Interval) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _interval(record: Mapping[str, float] | None) -> Interval | None:
    return None if record is None else Interval(**record)


def _tuple(values: list[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def _curve(record: Mapping[str, Any] | None) -> Curve | None:
    if record is None:
        return None
    parts = {name: tuple(values) for name, values in record["parts"].items()}
    return Curve(tuple(record["alone"]), *(tuple(map(tuple, record[name])) for name in ("rounds", "first")), parts)


def _row(kind: type, record: Mapping[str, Any]) -> Any:
    made = {"tokens": _interval(record["tokens"]), "factor": _interval(record["factor"]), "gain": _interval(record.get("gain"))}
    if kind is Checked:
        made |= {"gaps": {name: _interval(gap) for name, gap in record["gaps"].items()}, "rate": _tuple(record["rate"])}
    return kind(**record | made)
