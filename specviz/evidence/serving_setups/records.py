"""Records of serving setups: distance of each from the float32 weights, what draft tokens change, and near ties. No torch.

Exactness is relative to the target as it is served, with its quantization, number type and logits processors. ``comparison`` measures
these records. A greedy text follows the largest logit, and rounding moves logits by little: two ways to serve one target write the same
greedy text until the two largest logits are closer than that, a near tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from specviz.records import Record, Schema, load_toml, record_key
from specviz.settings import Settings
from specviz.speed.records.estimate import Estimate, explain_spread

MARGIN_DIGITS = 6  # that a record keeps of a margin


@dataclass(frozen=True, slots=True)
class GreedyComparison:
    """Two ways to write a greedy text; the first is the reference. draft_tokens: whether the second has a draft."""

    key: str
    name: str
    first: str
    second: str
    draft_tokens: bool = False


_TABLES = load_toml("texts/setups")
COMPARISONS = {key: GreedyComparison(key, **table) for key, table in _TABLES["comparisons"].items()}


@dataclass(frozen=True, slots=True)
class GreedyText:
    """One greedy text: its tokens, and the difference of the two largest logits before each, at least 0."""

    tokens: tuple[int, ...]
    margins: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.margins) or min(self.margins, default=0.0) < 0.0:
            raise ValueError("a greedy text has one margin, 0 or more, for each of its tokens")


def find_first_difference(text: GreedyText, other_text: GreedyText) -> int | None:
    """The first place with different tokens, from 0; None if there is none."""
    pairs = enumerate(zip(text.tokens, other_text.tokens, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


@dataclass(frozen=True, slots=True)
class GreedyPair:
    """One prompt in one comparison. begins: the end of the prompt; pieces: id -> bytes as hex, of every token that it mentions."""

    begins: tuple[int, ...]
    first: GreedyText
    second: GreedyText
    pieces: Mapping[int, str]

    @property
    def place(self) -> int | None:
        return find_first_difference(self.first, self.second)

    @property
    def is_loop(self) -> bool:
        """Whether the first text ends in a loop: one piece of it three times or more, over a quarter of the text."""
        tokens = self.first.tokens
        enough = max(6, len(tokens) // 4)
        return any(
            tokens[-size * count :] == tokens[-size:] * count
            for size in range(1, len(tokens) // 3 + 1)
            if (count := max(3, -(-enough // size))) * size <= len(tokens)
        )

    @property
    def difference(self) -> GreedyDifference | None:
        """Where the texts first differ."""
        return None if self.place is None else GreedyDifference(self, self.place)

    @property
    def shared(self) -> int:
        """Tokens that both have in common from the beginning."""
        return len(self.first.tokens) if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class GreedyDifference:
    """The first place, from 0, at which two greedy texts have different tokens."""

    pair: GreedyPair
    place: int

    @property
    def margins(self) -> tuple[float, float]:
        """Margins of both texts there."""
        return self.pair.first.margins[self.place], self.pair.second.margins[self.place]

    @property
    def tokens(self) -> tuple[int, int]:
        """The two tokens."""
        return self.pair.first.tokens[self.place], self.pair.second.tokens[self.place]


@dataclass(frozen=True, slots=True)
class NearTies:
    """Every prompt in every comparison that could run, by the key of the comparison. Raises ValueError for other keys."""

    comparisons: Mapping[str, tuple[GreedyPair, ...]]

    def summarize(self, key: str) -> NearTieSummary | None:
        return NearTieSummary(key, self.comparisons[key]) if self.comparisons.get(key) else None

    def __post_init__(self) -> None:
        if unknown := set(self.comparisons) - set(COMPARISONS):
            raise ValueError(f"the near-tie record has the arms {sorted(unknown)}, known are {', '.join(COMPARISONS)}")


@dataclass(frozen=True, slots=True)
class NearTieSummary:
    """What one comparison shows over its prompts. Margins are those of the first text."""

    key: str
    pairings: tuple[GreedyPair, ...]

    @property
    def differences(self) -> tuple[GreedyDifference, ...]:
        return tuple(one for pair in self.pairings if (one := pair.difference) is not None)

    @property
    def margins_before_difference(self) -> tuple[float, ...]:
        """Margins up to where the texts differ, these places included."""
        return tuple(margin for one in self.pairings for margin in one.first.margins[: one.shared + (one.place is not None)])

    @property
    def median_margin(self) -> float:
        """Median of all margins."""
        return median(self.margins_before_difference)

    @property
    def median_margin_at_difference(self) -> float | None:
        """Median margin where the texts first differ."""
        return median(one.margins[0] for one in self.differences) if self.differences else None

    @property
    def largest_margin_at_difference(self) -> float | None:
        """The largest margin where texts first differ."""
        return max((one.margins[0] for one in self.differences), default=None)


SCHEMA = Schema("setups", 2, "The record of setups")
EXACT, ROUNDING, LOSSY = "exact", "exact up to rounding", "lossy"
REFERENCE = "fp32"
TOLERANCE = 5e-6  # total variation that float32 rounding explains


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to serve a target."""

    key: str
    name: str
    # EXACT: draft tokens keep its distribution; ROUNDING: up to the rounding of passes over several tokens; LOSSY: they do not
    kind: str
    sentence: str  # what it does, in a few words
    description: str  # what it is, and why draft tokens change nothing or something
    reference_key: str  # the setup whose distribution it means to keep, which differs from its own key for a mistake
    seen_in: str = ""  # a sentence: where a mistake is found


SETUPS = {key: Setup(key, **{"reference_key": key} | table) for key, table in _TABLES["setups"].items()}


@dataclass(frozen=True, slots=True)
class SetupCheck:
    """Total variation between the distribution with draft tokens and the same setup's own, one token per pass."""

    mean: float  # mean, worst: over the places where no cut is near a tie
    worst: float
    prefixes: int  # distinct prefixes
    near_ties: int  # places left out


@dataclass(frozen=True, slots=True)
class SetupRow:
    """What one setup did. A row that cannot be served here has a reason instead of numbers."""

    key: str
    reason: str = ""
    # mean TV of its own distribution from the reference's over all prefixes; interval by resampling texts
    distance: Estimate | None = field(default=None, metadata=record_key("apart"))
    # probability that the unchanged draft's first draft token is accepted, beta = sum of min(p, q), mean over the same prefixes
    overlap: Estimate | None = None
    own: SetupCheck | None = None  # what draft tokens change
    tokens: int = 0  # written in so many passes
    passes: int = 0
    checked: int = 0  # checked, accepted: draft tokens checked and accepted
    accepted: int = 0
    speed_without_draft: Estimate | None = field(
        default=None, metadata=record_key("alone")
    )  # speed over the reference target alone, run by run
    speed_with_draft: Estimate | None = field(default=None, metadata=record_key("drafted"))  # the same with draft tokens
    # milliseconds per token, medians: alone (None for a mistake, which equals ``of`` there), and with draft tokens
    ms: tuple[float | None, float] | None = None

    def __post_init__(self) -> None:
        if self.key not in SETUPS:
            raise ValueError(f"there is no row {self.key!r}")

    @property
    def entry(self) -> Setup:
        return SETUPS[self.key]

    @property
    def verdict(self) -> str:
        """The kind of the setup as measured: an EXACT setup beyond the rounding of float32, as some families in int8 are, is exact up to rounding."""
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
class SetupComparison(Record):
    """All setups in one run, and the near ties of greedy texts after the same prompts."""

    schema, indent = SCHEMA, None
    settings: Settings
    rows: tuple[SetupRow, ...]
    near_ties: NearTies
    text: str  # name of what the texts were cut from
    texts: int  # how many
    opening: int  # opening, length: tokens before and after each place
    length: int
    runs: int  # how often each row was timed
    spread: float  # middle half of the reference's own runs, as a share of their median
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def find_row(self, key: str) -> SetupRow | None:
        return next((row for row in self.rows if row.key == key), None)

    @property
    def is_steady(self) -> bool:
        """Whether the runs of the reference lie close enough together for a verdict on speed."""
        return not self.noise_note

    @property
    def noise_note(self) -> str:
        """Why there is no verdict on speed, as a sentence; empty if there is one."""
        return explain_spread(self.spread, "the reference’s own runs")
