"""A passage written both ways, the target alone and with draft tokens: who gave each token, and when. Plain records; passage_run.py fills them.

Each way is a trace with a clock of its own beside it, which counts only the seconds that this way was worked on. Clocks are
measurements: equality leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specviz.measure.divergence import Read
from specviz.measure.estimate import Estimate
from specviz.records import Schema, build, digits, plain
from specviz.settings import Settings
from specviz.trace import Round, Trace

SCHEMA = Schema("passage", 2, "The passage")
ALONE, SPECULATIVE = LANES = ("target", "speculative")
ACCEPTED, REPLACED, BONUS, WRITTEN = ORIGINS = ("accepted", "residual", "bonus", "target")
DISTRIBUTIONS = {  # under which a passage is recorded
    "temperature 1": {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None},
    "temperature 0": {"temperature": 0.0, "top_k": None, "top_p": None, "min_p": None},
}
LENGTHS = (64, 128, 192)  # tokens that the page offers


def origins(round_: Round) -> tuple[tuple[int, str], ...]:
    """(token, origin) of what a round committed: accepted draft tokens, then what the target drew.

    A round that nobody drafted in has nothing but the target's own token; what it draws after a whole block is a bonus.
    """
    accepted = tuple((round_.proposals[node].token, ACCEPTED) for node in round_.accepted_path)
    if round_.ending.token is None:
        return accepted
    drawn = REPLACED if round_.ending.kind == "residual" else BONUS if round_.proposals else WRITTEN
    return (*accepted, (round_.ending.token, drawn))


@dataclass(frozen=True, slots=True)
class Event:
    """A round of one of LANES has ended, ``at`` seconds of that lane's own work after its start."""

    lane: str
    round: Round
    at: float


@dataclass(frozen=True, slots=True)
class Token:
    """One written token. origin: one of ORIGINS; round: from 0; at: seconds on its lane's clock, when its round had ended."""

    token: int
    origin: str
    round: int
    at: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One way of writing.

    clock  seconds of its own work at the end of each round, in the run that is shown; rates  tokens per second, by run

    Raises ValueError for a clock that runs back or has not one time for each round.
    """

    trace: Trace
    clock: tuple[float, ...] = field(compare=False, metadata=digits(6))
    rates: tuple[float, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        times = (0.0, *self.clock)
        if len(self.clock) != len(self.trace.rounds) or any(b < a for a, b in zip(times, self.clock, strict=False)):
            raise ValueError("a clock needs one time for each round, none before the last")

    @property
    def rate(self) -> Estimate:
        """Tokens per second over all runs, of which there is one at least."""
        return Estimate.of_runs(self.rates, "tokens/s")

    @property
    def tokens(self) -> tuple[Token, ...]:
        rows = zip(self.trace.rounds, self.clock, strict=True)
        return tuple(Token(token, origin, n, at) for n, (round_, at) in enumerate(rows) for token, origin in origins(round_))

    @property
    def counts(self) -> dict[str, int]:
        """Tokens by origin, those that occur."""
        found = [one.origin for one in self.tokens]
        return {origin: found.count(origin) for origin in ORIGINS if origin in found}

    @property
    def seconds(self) -> float:
        return self.clock[-1] if self.clock else 0.0


@dataclass(frozen=True, slots=True)
class Passage:
    """A text written both ways under the same settings.

    read     the target's own text, read by both models; None while it is being written
    warm     seconds of the warm-up before the first run, which nothing else counts
    survey   other texts of the target, read by both models under the same settings; empty for a visitor's own passage
    machine, models, date  what it was measured on, and when
    """

    settings: Settings
    target: Lane
    speculative: Lane
    read: Read | None = None
    warm: float = field(default=0.0, compare=False, metadata=digits(4))
    survey: tuple[Read, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict, compare=False)
    models: Mapping[str, Any] = field(default_factory=dict, compare=False)
    date: str = field(default="", compare=False)

    @property
    def runs(self) -> int:
        return len(self.speculative.rates)

    @property
    def factors(self) -> tuple[float, ...]:
        """Tokens per second, speculative over alone, run by run."""
        return tuple(fast / slow for fast, slow in zip(self.speculative.rates, self.target.rates, strict=True))

    @property
    def gain(self) -> Estimate | None:
        """The factor over all runs; None before any has ended."""
        return Estimate.of_runs(self.factors, "times") if self.runs else None

    @property
    def middle(self) -> int | None:
        """The run whose factor is the median (of two, the lower); None before any has ended."""
        order = sorted(range(self.runs), key=lambda run: (self.factors[run], run))
        return order[(self.runs - 1) // 2] if order else None

    @property
    def same_text(self) -> bool:
        return self.target.trace.output_ids == self.speculative.trace.output_ids


def to_json(passages: Mapping[str, Passage]) -> str:
    """Passages by the name of what they were drawn under."""
    return SCHEMA.text({"passages": plain(passages)})


def from_json(text: str) -> dict[str, Passage]:
    """Back from to_json. Raises TraceError for anything that holds no passages."""
    return SCHEMA.read(text, lambda record: build(dict[str, dict[str, Passage]], record)["passages"])
