"""Samples of decoders and the results of their tests, as plain records: cells beside the exact distribution, p-values, results. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.decoding.samples import Coverage
from specviz.glyphs import build_glyphs, read_piece
from specviz.records import build_fields, record_key
from specviz.statistics.chernoff import compute_frequency_range
from specviz.statistics.finding import Finding

if TYPE_CHECKING:
    from specviz.evidence.testing.partition import Partition

REST = "any other text"
POOLED = " …"  # at the end of the name of a cell that several texts share
VERDICTS = ("consistent", "rejected", "too few samples", "nothing tested")
NOTHING_TESTED = VERDICTS[3]
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)  # samples at each interim test, as in sequential.py; a test compares them
ANALYTIC_PREFIXES, ANALYTIC_PREFIXES_LARGE = 40, 12  # at which the decoder's own distribution is computed; at a large vocabulary
REFERENCE_SAMPLES = 4000  # target-only samples for the test that needs no distribution; it compares as many of the decoder's
NO_DRAFT = "no draft token was proposed, so no acceptance rule was exercised."
CONTROL = "This is the control: target-only sampling drafts nothing, so no acceptance rule was tested."


def label_cell(ids: Sequence[int], is_whole_text: bool, pieces: Mapping[int, str]) -> str:
    """A cell's name: its tokens with spaces and ‹bytes› shown, and … where several texts that begin like this share the cell."""
    if not ids:
        return "(nothing)" if is_whole_text else REST
    glyphs = (glyph for token in ids for glyph in build_glyphs(read_piece(pieces, token), token))
    shown = "".join(f"‹{one['t']}›" if one["k"] in ("byte", "sign") else one["t"] for one in glyphs)
    return shown if is_whole_text else f"{shown}{POOLED}"


LEVEL = 0.99  # of a band: sampling noise leaves all bars of a picture within their bands 99 times in 100
CELLS, LEAST = 18, 0.002  # most cells that are counted for a picture, and the smallest probability of one
ROWS = 8  # most of them with a bar of their own; all others share one
BINS = 10
SEEDS, SEED_SAMPLES = 200, 300  # runs of the p-value histogram, and samples of each
FEW = 5  # with fewer cells every one gets its bar
DWARF = 2.5  # a pooled bar longer than this many times the next one is left to the table
BEYOND = "beyond sampling noise"
CellRow = tuple[str, bool, float, int, float, float]  # of one cell: label, whole, prob, count, low, high


@dataclass(frozen=True, slots=True)
class CellShares:
    """Samples of one decoder in cells that were chosen before any sample was drawn."""

    name: str
    labels: tuple[str, ...]  # (C,) a beginning each
    is_whole_text: tuple[bool, ...] = field(metadata=record_key("whole"))  # (C,) whether the cell is one single continuation
    probs: tuple[float, ...]  # (C,) exact probability
    counts: tuple[int, ...]  # (C,) samples
    low: tuple[float, ...]  # low, high: (C,) the band of each share
    high: tuple[float, ...]
    n: int  # samples so far, 0 before the first

    @classmethod
    def from_counts(
        cls, name: str, labels: Sequence[str], is_whole_text: Sequence[bool], masses: np.ndarray, counts: Sequence[int], n: int
    ) -> CellShares:
        """Counts beside the masses of their cells, (C,) float64, rescaled to sum to 1."""
        probs = masses / masses.sum()
        low, high = _compute_bands(probs, n)
        return cls(name, tuple(labels), tuple(is_whole_text), tuple(probs.tolist()), tuple(counts), tuple(low), tuple(high), n)

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> CellShares:
        """The cells of a report on samples."""
        one, pieces = report["answers"][0], {int(token): raw for token, raw in report["pieces"].items()}
        cells = sorted(one["cells"], key=lambda cell: -cell["mass"])
        labels, whole = [label_cell(cell["begins"], cell["whole"], pieces) for cell in cells], [cell["whole"] for cell in cells]
        masses, counts = np.array([cell["mass"] for cell in cells]), [cell["count"] for cell in cells]
        return cls.from_counts(report["decoder"], labels, whole, masses, counts, one["n"])

    def _get_row(self, place: int) -> CellRow:
        return (
            self.labels[place], self.is_whole_text[place], self.probs[place], self.counts[place], self.low[place], self.high[place],
        )  # fmt: skip

    def _with_rows(self, rows: Sequence[CellRow]) -> CellShares:
        labels, whole, probs, counts, low, high = zip(*rows, strict=True)
        return CellShares(self.name, labels, whole, probs, counts, low, high, self.n)

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(count / self.n if self.n else 0.0 for count in self.counts)

    @property
    def outliers(self) -> tuple[str, ...]:
        """Labels of bars outside their band."""
        rows = zip(self.labels, self.shares, self.low, self.high, strict=True)
        return tuple(label for label, share, low, high in rows if self.n and not low - 1e-12 <= share <= high + 1e-12)

    @property
    def conclusion(self) -> str:
        """What the picture shows, in a sentence: its text for readers who cannot see it."""
        if not self.n:
            return f"{self.name}: no samples yet. The marks show the target's exact distribution over {len(self.labels)} cells."
        samples, shown = f"{self.n:,} sample" + ("" if self.n == 1 else "s"), self.rows
        if not shown.outliers:
            bars = f"All {len(shown.labels)} bars lie" if len(shown.labels) > 1 else "The one bar lies"
            return f"{self.name}: {samples}. {bars} within sampling noise of the exact distribution."
        many = len(shown.outliers)
        lie = "lies" if many == 1 else "lie"
        return f"{self.name}: {samples}. {many} of {len(shown.labels)} bars {lie} {BEYOND}."

    @property
    def order(self) -> list[int]:
        """The cells, heaviest first."""
        return sorted(range(len(self.probs)), key=lambda place: -self.probs[place])

    @property
    def bars(self) -> tuple[int, ...]:
        """Which cells get a bar, heaviest first: all but pooled ones that would dwarf the rest."""
        order = self.order
        if len(order) >= FEW:
            order = [place for place in order if self.labels[place] != REST]
        while len(order) >= FEW and not self.is_whole_text[order[0]] and self.probs[order[0]] > DWARF * self.probs[order[1]]:
            del order[0]
        return tuple(order)

    @property
    def rows(self) -> CellShares:
        """What a picture draws, as ``merge_rows`` returns it."""
        return self.merge_rows()

    def merge_rows(self, least: float = 0.0) -> CellShares:
        """From the top: the ROWS heaviest cells with a name, of probability ``least`` at least where there are such, then all others in one bar.

        A bar of all texts that begin alike also holds those cells with its beginning that have no bar of their own. All others get no bar where
        it would dwarf the rest; ``undrawn_mass`` then says what they hold.
        """
        named, others = self._split(least)
        joined = [(place, *(one for one in others if self._find_bar(one, named) == place)) for place in named]
        shown = sorted((self._pool(places, self.labels[places[0]]) for places in joined), key=lambda row: -row[2])
        others = [place for place in others if self._find_bar(place, named) is None]
        if not others or self.undrawn_mass:
            return self._with_rows(shown)
        return self._with_rows([*shown, self._pool(others, REST)])

    def _find_bar(self, place: int, named: Sequence[int]) -> int | None:
        """Of a cell without a bar of its own: the bar of all texts that begin like it, that with the longest beginning; None: there is none."""
        label = self.labels[place]
        fitting = [
            one for one in named if self.labels[one].endswith(POOLED) and label.startswith(self.labels[one].removesuffix(POOLED))
        ]
        return max(fitting, key=lambda one: len(self.labels[one]), default=None)

    def _pool(self, places: Sequence[int], label: str) -> CellRow:
        """Cells as one row; the bands of all bars together keep their level."""
        if len(places) == 1:
            return (label, *self._get_row(places[0])[1:])
        mass, count = self._sum_mass(places), sum(self.counts[place] for place in places)
        return label, False, mass, count, *compute_frequency_range(mass, self.n, (1.0 - LEVEL) * len(places) / len(self.probs))

    @property
    def undrawn_mass(self) -> float:
        """Probability of all cells without a bar in the picture."""
        named, others = self._split()
        mass = self._sum_mass([place for place in others if self._find_bar(place, named) is None])
        return mass if len(named) >= FEW - 1 and mass > DWARF * self.probs[named[0]] else 0.0

    def _split(self, least: float = 0.0) -> tuple[list[int], list[int]]:
        """Cells that get bars of their own, heaviest first, and all others."""
        named = [place for place in self.order if self.labels[place] != REST][:ROWS] or self.order
        named = [place for place in named if self.probs[place] >= least] or named
        return named, sorted(set(range(len(self.probs))) - set(named))

    def _sum_mass(self, places: Sequence[int]) -> float:
        return sum(self.probs[place] for place in places)

    @property
    def table(self) -> list[dict[str, object]]:
        """Every cell as a row."""
        return [
            {"begins with": self.labels[place], "holds": "one text" if self.is_whole_text[place] else "pooled",
             "exact distribution": round(self.probs[place], 5), "samples": self.counts[place], "share": round(self.shares[place], 5),
             "sampling noise, 99%": f"{self.low[place]:.4f} to {self.high[place]:.4f}" if self.n else ""}
            for place in self.order
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SeedPValues:
    """P-values of many runs, each with its own seed and its own samples. low, high: the band of the number in each tenth."""

    values: tuple[float, ...]
    samples: int
    low: int
    high: int

    @classmethod
    def from_values(cls, values: Sequence[float], samples: int) -> SeedPValues:
        low, high = _compute_bands(np.full(BINS, 1.0 / BINS), len(values))
        return cls(tuple(values), samples, round(low[0] * len(values)), round(high[0] * len(values)))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many fall into each tenth."""
        return tuple(np.histogram(self.values, np.arange(BINS + 1) / BINS)[0].tolist())

    @property
    def is_uniform(self) -> bool:
        return all(self.low <= count <= self.high for count in self.counts)

    @property
    def shares(self) -> CellShares:
        """The tenths as cells, so that they are drawn as samples are."""
        n = max(1, len(self.values))
        labels = tuple(f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}" for k in range(BINS))
        bands = (self.low / n,) * BINS, (self.high / n,) * BINS
        return CellShares("p-values", labels, (True,) * BINS, (1.0 / BINS,) * BINS, self.counts, *bands, len(self.values))

    @property
    def conclusion(self) -> str:
        runs = f"{len(self.values)} runs of {self.samples:,} samples, each with its own seed"
        if self.is_uniform:
            return f"{runs}: no bar leaves its box, so the bars are as level as those of an exact decoder."
        return f"{runs}: the p-values are not spread evenly: some bars lie outside sampling noise."

    @property
    def table(self) -> list[dict[str, object]]:
        return [
            {"p-value": f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}", "runs": count, "expected": len(self.values) / BINS,
             "sampling noise, 99%": f"{self.low} to {self.high}"}
            for k, count in enumerate(self.counts)
        ]  # fmt: skip


def _compute_bands(probs: np.ndarray, n: int) -> list[list[float]]:
    """Low and high of the share of ``n`` samples in each cell; from 0 to 1 before the first."""
    from specviz.statistics.total_variation import (
        compute_cell_bands,  # scipy, which a page has no use for before there are samples
    )

    return (
        compute_cell_bands(probs, n, 1.0 - (1.0 - LEVEL) / len(probs)).tolist() if n else [[0.0] * len(probs), [1.0] * len(probs)]
    )


DECODERS = {"speculative": "Speculative decoding", "target": "Target-only sampling"}


def describe_unreached(coverage: Coverage | None, is_control: bool = False) -> list[str]:
    """Sentences about the parts of a decoder that its samples never reached; none where it is not known what they reached."""
    if coverage is None:
        return []
    if is_control:
        return [CONTROL]
    if not coverage.proposed:
        return [f"{NO_DRAFT[0].upper()}{NO_DRAFT[1:]}"]
    sentences = []
    if not coverage.accepted:
        sentences.append("No draft token was accepted.")
    if not coverage.rejected:
        sentences.append("No draft token was rejected, so rejection and the residual distribution were not tested.")
    elif not coverage.residual:
        sentences.append("No token was drawn from the residual distribution.")
    if not coverage.bonus:
        sentences.append("No bonus token was drawn.")
    if coverage.rollbacks == 0:
        sentences.append("No cache was rolled back.")
    return sentences


def describe_coverage(coverage: Coverage) -> str:
    """The counts in words."""
    parts = [
        f"{coverage.proposed:,} draft tokens proposed",
        f"{coverage.accepted:,} accepted",
        f"{coverage.rejected:,} rejected",
        f"{coverage.not_checked:,} not checked",
        f"{coverage.residual:,} tokens from the residual",
        f"{coverage.bonus:,} bonus tokens",
        f"{coverage.target_only:,} target-only tokens",
    ]
    return ", ".join([*parts, *([] if coverage.rollbacks is None else [f"{coverage.rollbacks:,} cache rollbacks"])])


@dataclass(frozen=True, slots=True)
class InterimTest:
    """What one of several tests of accumulating samples found, in plain numbers."""

    n: int  # samples
    verdict: str  # one of VERDICTS
    tests: tuple[Finding, ...]  # its findings, chi-square first
    detectable_tv: float  # the total variation distance on the cells that it detects 99 times in 100, in (0, 1]
    pooled: float  # probability of the cells that hold several texts, in [0, 1]
    cells: int  # how many cells can occur
    can_show_difference: bool = field(metadata=record_key("tells"))  # whether they can show a difference
    counts: tuple[int, ...]  # samples in each cell, (C,)
    exercised: Coverage | None = None  # what the samples exercised; None: not counted, in an earlier record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> InterimTest:
        """Records of earlier versions lack ``exercised``."""
        return build_fields(cls, {"exercised": None} | record)


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """The results so far."""

    arms: tuple[CellShares, CellShares] | None = None  # the samples of both decoders; None until the exact distribution is known
    # what each test found, in the order of the plan: one entry for each decoder that is tested
    looks: tuple[tuple[InterimTest, ...], ...] = ()
    notes: tuple[str, ...] = ()  # sentences about what is unusual here

    @property
    def n(self) -> int:
        return self.arms[0].n if self.arms else 0


@dataclass(frozen=True, slots=True)
class FillStep:
    """Counts of one decoder on the way: how its histogram looked after n samples. counts, low, high: (C,), as in CellShares."""

    n: int
    counts: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def from_shares(cls, shares: CellShares) -> FillStep:
        """Bands are rounded: they are only drawn."""
        low, high = (tuple(round(edge, 5) for edge in edges) for edges in (shares.low, shares.high))
        return cls(shares.n, shares.counts, low, high)

    def apply(self, shares: CellShares) -> CellShares:
        """The histogram as it was."""
        return replace(shares, n=self.n, counts=self.counts, low=self.low, high=self.high)


def list_filling(shares: CellShares, steps: Sequence[FillStep]) -> tuple[CellShares, ...]:
    """A histogram on the way, and last as it is now."""
    return (*(step.apply(shares) for step in steps if step.n < shares.n), shares)


@dataclass(frozen=True, slots=True)
class ExactnessResult(SamplingResult):
    """The results so far; the second decoder is target-only sampling under another seed, which is not tested."""

    p_values: SeedPValues | None = None  # of many seeds, once they were asked for
    engine: int = 0  # samples that ran through the engine and its caches; the others were drawn on shared distributions
    steps: tuple[FillStep, ...] = ()  # the first decoder's counts on the way

    @property
    def filling(self) -> tuple[CellShares, ...]:
        """The first decoder's histogram on the way, and last as it is now."""
        return list_filling(self.arms[0], self.steps) if self.arms else ()


def label_cells(cells: Partition, pieces: Callable[[set[int]], Mapping[int, str]]) -> tuple[str, ...]:
    """The names of cells. pieces: token ids -> the text of each."""
    named = pieces({token for name in cells.names for token in name})
    return tuple(label_cell(*cell, named) for cell in zip(cells.names, cells.is_whole_text.tolist(), strict=True))
