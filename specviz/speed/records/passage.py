"""A text written twice, by target-only sampling and speculatively: the origin and time of each token. ``specviz.speed.benchmarks.passage`` measures it.

Each lane is a trace with a clock that counts only the seconds of that lane's own work. Equality ignores clocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specviz.records import Schema, build, build_fields, declare_decimal_places, load_toml, to_json_fields, to_json_value
from specviz.settings import CUT_FIELDS, Settings
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.divergence_profile import ScoredText
from specviz.speed.records.estimate import Estimate
from specviz.trace import Round, Trace

SCHEMA = Schema("passage", 2, "The passage")
TARGET_ONLY, SPECULATIVE = LANES = ("target", "speculative")
ACCEPTED, REPLACED, BONUS, WRITTEN = ORIGINS = ("accepted", "residual", "bonus", "target")
DISTRIBUTIONS: dict[str, dict[str, Any]] = {  # under which a passage is recorded
    "temperature 0.8": {"temperature": 0.8, **dict.fromkeys(CUT_FIELDS)},
    "temperature 0": {"temperature": 0.0, **dict.fromkeys(CUT_FIELDS)},
}
UNFIT_WORDS = frozenset(load_toml("texts/unfit_words")["words"])  # in none of the recorded texts
LENGTHS = (64, 128, 192)  # tokens that the page offers


def find_unfit_words(text: str) -> list[str]:
    """Words of a text that a recorded one must not have, in order."""
    return [word for word in re.findall("[a-z]+", text.lower()) if word in UNFIT_WORDS]


def label_origins(round_: Round) -> tuple[tuple[int, str], ...]:
    """(token, origin) of each token that a round committed: accepted draft tokens, then what the target drew.

    Without draft tokens the target's own token is no bonus: it is ``WRITTEN``.
    """
    accepted = tuple((round_.proposals[node].token, ACCEPTED) for node in round_.accepted_path)
    if round_.ending.token is None:
        return accepted
    drawn = REPLACED if round_.ending.kind == "residual" else BONUS if round_.proposals else WRITTEN
    return (*accepted, (round_.ending.token, drawn))


@dataclass(frozen=True, slots=True)
class TimedRound:
    """A round of one of LANES, and the seconds of that lane's own work up to its end."""

    lane: str
    round: Round
    at: float


@dataclass(frozen=True, slots=True)
class RoundTime:
    """Seconds of a round, or of several: drafting, the target pass, and all else of the way's own work, such as the rule."""

    draft: float
    target: float
    other: float

    @property
    def whole(self) -> float:
        return self.draft + self.target + self.other


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """One written token. origin: one of ORIGINS; round: from 0; at: seconds on its lane's clock, when its round had ended."""

    token: int
    origin: str
    round: int
    at: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One way of writing.

    Attributes:
        clock: Seconds of its own work at the end of each round, in the run that is shown.
        rates: Tokens per second, by run.

    Raises ValueError for a clock that runs backwards or does not have one time for each round.
    """

    trace: Trace
    clock: tuple[float, ...] = field(compare=False, metadata=declare_decimal_places(6))
    rates: tuple[float, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        times = (0.0, *self.clock)
        if len(self.clock) != len(self.trace.rounds) or any(b < a for a, b in zip(times, self.clock, strict=False)):
            raise ValueError("a clock needs one time for each round, none before the last")

    @property
    def rate(self) -> Estimate:
        """Tokens per second over all runs, at least one."""
        return Estimate.from_runs(self.rates, "tokens/s")

    @property
    def tokens(self) -> tuple[WrittenToken, ...]:
        rows = zip(self.trace.rounds, self.clock, strict=True)
        return tuple(
            WrittenToken(token, origin, n, at) for n, (round_, at) in enumerate(rows) for token, origin in label_origins(round_)
        )

    @property
    def counts(self) -> dict[str, int]:
        """Number of tokens by origin, without those that do not occur."""
        found = [one.origin for one in self.tokens]
        return {origin: found.count(origin) for origin in ORIGINS if origin in found}

    @property
    def seconds(self) -> float:
        return self.clock[-1] if self.clock else 0.0

    @property
    def times(self) -> tuple[RoundTime, ...]:
        """The parts of each round's seconds on the clock; the first one's have opening the models and reading the prompt among them.

        Empty where a round has no parts: in older records, and where the host cannot time what a device does.
        """
        found, before = [], 0.0
        for round_, at in zip(self.trace.rounds, self.clock, strict=True):
            if not {"draft", "target"} <= round_.timing.keys():
                return ()
            draft = round_.timing["draft"] if round_.proposals else 0.0
            target = round_.timing["target"]
            found.append(RoundTime(draft, target, max(0.0, at - before - draft - target)))
            before = at
        return tuple(found)

    @property
    def per_round(self) -> float:
        """Seconds of a round, on average; at least one has ended."""
        return self.seconds / len(self.clock)

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per target pass: each round has one. At least one has ended."""
        return len(self.trace.output_ids) / len(self.clock)

    @property
    def speed(self) -> float:
        """Tokens per second on the clock, in the run that is shown."""
        return self.tokens_per_pass / self.per_round


@dataclass(frozen=True, slots=True)
class Passage:
    """A text written both ways under the same settings.

    Attributes:
        read: The target's own text, scored by both models; None while it is being written.
        warm: Seconds of the warm-up before the first run, which is counted nowhere else.
        survey: Other texts of the target, scored by both models under the same settings; empty for a visitor's own passage.
        machine, models, date: What it was measured on, and when.
        baseline: What the times of ``target`` are of; None: of this project's target-only loop, the fastest one measured.
    """

    settings: Settings
    target: Lane
    speculative: Lane
    read: ScoredText | None = None
    warm: float = field(default=0.0, compare=False, metadata=declare_decimal_places(4))
    survey: tuple[ScoredText, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict, compare=False)
    models: Mapping[str, Any] = field(default_factory=dict, compare=False)
    date: str = field(default="", compare=False)
    baseline: Baseline | None = field(default=None, compare=False)

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, without a baseline where there is none."""
        record = to_json_fields(self)
        if self.baseline is None:
            del record["baseline"]
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Passage:
        """Back from ``to_record``."""
        return build_fields(cls, {"baseline": None} | record)

    @property
    def runs(self) -> int:
        return len(self.speculative.rates)

    @property
    def factors(self) -> tuple[float, ...]:
        """Tokens per second, speculative over alone, run by run."""
        return tuple(fast / slow for fast, slow in zip(self.speculative.rates, self.target.rates, strict=True))

    @property
    def gain(self) -> Estimate | None:
        """The factor over all runs; None before a run has ended."""
        return Estimate.from_runs(self.factors, "times") if self.runs else None

    @property
    def middle(self) -> int | None:
        """The run whose factor is the median (of two, the lower); None before a run has ended."""
        order = sorted(range(self.runs), key=lambda run: (self.factors[run], run))
        return order[(self.runs - 1) // 2] if order else None

    @property
    def same_text(self) -> bool:
        return self.target.trace.output_ids == self.speculative.trace.output_ids


def dump_passages(passages: Mapping[str, Passage]) -> str:
    """Passages by the name of the distribution that they were sampled from."""
    return SCHEMA.format_record({"passages": to_json_value(passages)})


def load_passages(text: str) -> dict[str, Passage]:
    """Read the JSON of a record. Raises TraceError for anything else."""
    return SCHEMA.read(text, lambda record: build(dict[str, dict[str, Passage]], record)["passages"])
