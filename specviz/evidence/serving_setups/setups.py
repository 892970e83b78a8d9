"""Serving setups: which distribution each has, how far it lies from the float32 weights', and whether draft tokens keep it.

Exactness is relative to the target as it is served, with its quantization, number type and logits processors; the rule knows nothing of
them. No torch; setups_run.py fills these records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specviz.evidence.serving_setups.near_ties import NearTies
from specviz.records import Schema, build, plain
from specviz.settings import Settings
from specviz.speed.clock import explain_spread
from specviz.speed.estimate import Estimate

SCHEMA = Schema("setups", 2, "The record of setups")
TOP_K, PENALTY, WORD = 20, 1.3, "the"
EXACT, ROUNDING, LOSSY = "exact", "exact up to rounding", "lossy"
REFERENCE = "fp32"
TOLERANCE = 5e-6  # as in evidence/analytic/along_text.py, which says why; a test compares them


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to serve a target.

    kind         EXACT: draft tokens keep its distribution; ROUNDING: up to the rounding of passes over several tokens; LOSSY: they do not
    description  what it is, and why draft tokens change nothing or something
    of           the setup whose distribution it means to keep, which differs from its own key for a mistake
    """

    key: str
    name: str
    kind: str
    description: str
    of: str


_SETUP_ROWS: tuple[tuple[str, ...], ...] = (
    (REFERENCE, "float32", EXACT, "The published weights: the reference here."),
    ("bf16", "bfloat16", ROUNDING, "A pass over several tokens rounds a little differently from a pass over one."),
    ("int8", "int8, a scale for each token", EXACT, "The quantized target is another model. Draft tokens keep that model’s distribution."),
    ("int8-pass", "int8, one scale for a pass", LOSSY, "Activations, which go from layer to layer, are divided by a scale and rounded. Mistake: a whole pass shares one scale, so draft tokens change how the others are rounded.", "int8"),
    ("top-k", f"top-k {TOP_K}", EXACT, f"Only the {TOP_K} most likely tokens may be drawn. The draft does not need the same cut."),
    ("ban", f"“{WORD}” banned", EXACT, "The word has probability 0 in verification and in every draw."),
    ("ban-draws", f"“{WORD}” banned in draws only", LOSSY, "Mistake: only replacements and bonus tokens leave the word out. A draft token may still be it, and be accepted.", "ban"),
    ("penalty", f"repetition penalty {PENALTY:g}", EXACT, "Every token of the prefix is penalized, draft tokens before it included."),
    ("penalty-once", "penalty set once a round", LOSSY, "Mistake: repetitions among the draft tokens of a round are not penalized.", "penalty"),
)  # fmt: skip
SETUPS = {row[0]: Setup(*row) if len(row) == 5 else Setup(*row, row[0]) for row in _SETUP_ROWS}


@dataclass(frozen=True, slots=True)
class SetupCheck:
    """Total variation between the distribution with draft tokens and the same setup's own, one token per pass.

    mean, worst  over the places where no cut is near a tie; prefixes  distinct prefixes; near_ties  places left out
    """

    mean: float
    worst: float
    prefixes: int
    near_ties: int


@dataclass(frozen=True, slots=True)
class SetupRow:
    """What one setup did. A row that cannot be served here has a reason instead of numbers.

    apart    mean TV of its own distribution from the reference's over all prefixes; interval by resampling texts
    overlap  probability that the unchanged draft's first draft token is accepted, beta = sum of min(p, q), mean over the same prefixes
    own      what draft tokens change
    tokens   written in so many passes; checked, accepted  draft tokens checked and accepted
    alone    speed over the reference target alone, run by run; drafted  the same with draft tokens
    ms       milliseconds per token, medians: alone (None for a mistake, which equals ``of`` there), and with draft tokens
    """

    key: str
    reason: str = ""
    apart: Estimate | None = None
    overlap: Estimate | None = None
    own: SetupCheck | None = None
    tokens: int = 0
    passes: int = 0
    checked: int = 0
    accepted: int = 0
    alone: Estimate | None = None
    drafted: Estimate | None = None
    ms: tuple[float | None, float] | None = None

    def __post_init__(self) -> None:
        if self.key not in SETUPS:
            raise ValueError(f"there is no row {self.key!r}")

    @property
    def entry(self) -> Setup:
        return SETUPS[self.key]

    @property
    def verdict(self) -> str:
        """What was found: an EXACT setup beyond the rounding of float32, as some families in int8 are, is exact up to rounding."""
        beyond = self.entry.kind == EXACT and self.own is not None and self.own.worst > TOLERANCE
        return ROUNDING if beyond else self.entry.kind

    @property
    def per_pass(self) -> float | None:
        return self.tokens / self.passes if self.passes else None

    @property
    def share(self) -> float | None:
        """Acceptance rate of the draft tokens that were checked."""
        return self.accepted / self.checked if self.checked else None


@dataclass(frozen=True, slots=True)
class SetupComparison:
    """All setups in one run, and the near ties of greedy texts after the same prompts.

    text       name of what the texts were cut from; texts  how many; opening, length  tokens before and after each place
    near_ties near ties, under the name that records have for them
    runs       how often each row was timed; spread  middle half of the reference's own runs, as a share of their median
    """

    settings: Settings
    rows: tuple[SetupRow, ...]
    near_ties: NearTies
    text: str
    texts: int
    opening: int
    length: int
    runs: int
    spread: float
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def row(self, key: str) -> SetupRow | None:
        return next((row for row in self.rows if row.key == key), None)

    @property
    def steady(self) -> bool:
        """Whether the runs of the reference lie close enough together for a verdict on speed."""
        return not self.unsteady

    @property
    def unsteady(self) -> str:
        """Why there is no verdict on speed, as a sentence; empty if there is one."""
        return explain_spread(self.spread, "the reference’s own runs")


def dump_setups(one: SetupComparison) -> str:
    return SCHEMA.text(plain(one))


def load_setups(text: str) -> SetupComparison:
    """Back from to_json. Raises TraceError for anything else."""
    return SCHEMA.read(text, lambda record: build(SetupComparison, record))
