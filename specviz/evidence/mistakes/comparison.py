"""Two decoders side by side: how far their samples are from the exact distribution, and what each accepts. Plain records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING

from specviz.evidence.testing.results import CellShares, FillStep, SamplingResult, list_filling
from specviz.trace import Round

if TYPE_CHECKING:
    import numpy as np

Texts = Sequence[Sequence[int]]

RULES = ("right rule", "wrong rule")
POINTS = (*(step * 10**power for power in range(1, 6) for step in (1, 2, 5)), 1_000_000)  # samples at which the curve has one
TEXTS, LONG = 24, 16  # longer texts whose draft tokens are counted, and their tokens
SHOWN = 3  # of them on the page
SIGMAS = 3.0  # standard errors that two shares must lie apart to be called different


@dataclass(frozen=True, slots=True)
class DistanceCurve:
    """Distance between counts and exact distribution on one set of cells, after growing numbers of samples."""

    names: tuple[str, str]  # of the two decoders
    wrong: int | None  # which of them is drawn as the wrong one, None where that is not to be seen
    n: tuple[int, ...] = ()  # samples
    tv: tuple[tuple[float, float], ...] = ()  # of each decoder, (K, 2)
    mean: tuple[float, ...] = ()  # mean, upper: what sampling noise leaves: its mean, and at most 99 times in 100
    upper: tuple[float, ...] = ()
    # whether the test at each n rejected the wrong decoder, None where none is planned; empty where that is not to be seen
    rejected: tuple[bool | None, ...] = ()

    def with_point(self, n: int, masses: np.ndarray, counts: Sequence[np.ndarray]) -> DistanceCurve:
        """With one more point: n samples of each decoder so far. masses: (C,) of the cells; counts: (C,) of each decoder."""
        from specviz.statistics.total_variation import (  # scipy, which a record does without
            compute_null_band,
            compute_total_variation,
        )

        probs = masses / masses.sum()
        band, (left, right) = compute_null_band(probs, n), (float(compute_total_variation(one, probs)) for one in counts)
        return replace(
            self,
            n=(*self.n, n),
            tv=(*self.tv, (left, right)),
            mean=(*self.mean, band.mean),
            upper=(*self.upper, band.upper),
        )

    @property
    def samples_at_detection(self) -> int | None:
        """Samples at the first test that rejected the wrong decoder."""
        return next((n for n, rejected in zip(self.n, self.rejected, strict=False) if rejected), None)

    @property
    def conclusion(self) -> str:
        """What the picture shows, in a sentence."""
        if not self.n:
            return "No samples yet."
        said = []
        for arm, name in enumerate(self.names):
            where = "above" if self.tv[-1][arm] > self.upper[-1] else "within"
            said.append(f"{name} has TV {self.tv[-1][arm]:.3f}, {where} sampling noise (up to {self.upper[-1]:.3f})")
        end = f" Detected at {self.samples_at_detection:,} samples." if self.samples_at_detection else ""
        return f"After {self.n[-1]:,} samples: {said[0]}; {said[1]}.{end}"

    @property
    def table(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for place, (n, tv, mean, upper) in enumerate(zip(self.n, self.tv, self.mean, self.upper, strict=True)):
            row: dict[str, object] = {"samples": f"{n:,}"} | {
                name: round(value, 5) for name, value in zip(self.names, tv, strict=True)
            }
            row |= {"sampling noise, mean": round(mean, 5), "sampling noise, 99%": round(upper, 5)}
            if self.rejected:
                row["check"] = {None: "", False: "not rejected", True: "rejected"}[self.rejected[place]]
            rows.append(row)
        return rows


@dataclass(frozen=True, slots=True)
class DraftingCounts:
    """What a decoder accepted over some texts. checked, accepted: draft tokens; tokens: written in these target passes."""

    name: str
    texts: int
    checked: int
    accepted: int
    tokens: int
    passes: int

    @classmethod
    def from_rounds(cls, name: str, texts: Sequence[Sequence[Round]]) -> DraftingCounts:
        rounds = [round_ for text in texts for round_ in text]
        verdicts = [one.accepted for round_ in rounds for one in round_.proposals if one.accepted is not None]
        tokens = sum(len(round_.committed) for round_ in rounds)
        return cls(name, len(texts), len(verdicts), sum(verdicts), tokens, len(rounds))

    @property
    def acceptance_rate(self) -> float:
        return self.accepted / self.checked if self.checked else 0.0

    @property
    def per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts from the same random numbers. same: what both begin with; then each one's first token of its own, and its rest."""

    number: int
    same: str
    first: tuple[str, str]
    rest: tuple[str, str]


def find_first_differences(decode: Callable[[Sequence[int]], str], left: Texts, right: Texts) -> tuple[TextPair, ...]:
    """The first texts that differ, SHOWN at most; the first of all where none does. decode: token ids -> text."""
    numbered = list(enumerate(zip(left, right, strict=True), start=1))
    chosen = list(islice((one for one in numbered if one[1][0] != one[1][1]), SHOWN)) or numbered[:1]
    found = []
    for number, (one, other) in chosen:
        apart = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        first, rest = ((decode(one[part]), decode(other[part])) for part in (slice(apart, apart + 1), slice(apart + 1, None)))
        found.append(TextPair(number, decode(one[:apart]), first, rest))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MistakeResult(SamplingResult):
    """The results so far; both decoders are tested."""

    pairs: tuple[TextPair, ...] = ()  # longer texts from the same random numbers, the first that differ
    alike: tuple[int, int] = (0, 0)  # of how many texts how many were the same
    speeds: tuple[DraftingCounts, DraftingCounts] | None = None  # what both accept
    toy: float = 0.0  # the mistake's enumerated distance on its own small tables
    curve: DistanceCurve | None = None
    same: int = 0  # samples in which both wrote the same tokens
    steps: tuple[FillStep, ...] = ()  # counts of the second decoder on the way

    @property
    def filling(self) -> tuple[CellShares, ...]:
        """The second decoder's histogram on the way, and last as it is now."""
        return list_filling(self.arms[1], self.steps) if self.arms else ()

    def mark_curve(self, wrong: int | None) -> DistanceCurve | None:
        """The curve. wrong: which decoder makes the mistake; None where that is not to be seen, or where neither does."""
        if self.curve is None or wrong is None:
            return self.curve
        rejected = {pair[wrong].n: pair[wrong].verdict == "rejected" for pair in self.looks}
        return replace(self.curve, wrong=wrong, rejected=tuple(map(rejected.get, self.curve.n)))


def compare_acceptance_rates(right: DraftingCounts, wrong: DraftingCounts) -> int:
    """1 where the wrong one accepts clearly more of its draft tokens, -1 clearly fewer, 0 where the noise is too large to say."""
    if not (right.checked and wrong.checked):
        return 0
    middle = (right.accepted + wrong.accepted) / (right.checked + wrong.checked)
    error = sqrt(max(1e-12, middle * (1.0 - middle) * (1.0 / right.checked + 1.0 / wrong.checked)))
    apart = (wrong.acceptance_rate - right.acceptance_rate) / error
    return int(apart > SIGMAS) - int(apart < -SIGMAS)
