"""Samples beside the exact distribution, and p-values that should be uniform: records of plain numbers, and their Plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specviz.figures.labels import REST, label, safe, short
from specviz.figures.theme import BAND, GRAY, GRID, INK, LEGEND, MEANINGS, PERCENT
from specviz.statistics.chernoff import frequency_range

LEVEL = 0.99  # of a band: sampling noise leaves all bars of a picture within their bands 99 times in 100
CELLS, LEAST = 18, 0.002  # most cells that are counted for a picture, and the smallest probability of one
ROWS = 8  # most of them with a bar of their own; all others share one
BINS = 10
SEEDS, SEED_SAMPLES = 200, 300  # runs of the p-value histogram, and samples of each
FEW = 5  # with fewer cells every one gets its bar
DWARF = 2.5  # a pooled bar longer than this many times the next one is left to the table
BEYOND = "beyond sampling noise"
PITCH = 26  # of rows, in pixels: a mark of the exact distribution ends before the next one begins
CLEAR = "rgba(0, 0, 0, 0)"  # of bars that are outlines
COLUMNS = ("labels", "whole", "probs", "counts", "low", "high")  # of CellShares, an entry for each cell


@dataclass(frozen=True, slots=True)
class CellShares:
    """Samples of one decoder in cells that were chosen before any sample was drawn.

    labels     (C,) a beginning each; whole  (C,) whether the cell is one single continuation
    probs      (C,) exact probability; counts  (C,) samples
    low, high  (C,) the band of each share
    n          samples so far, 0 before the first
    """

    name: str
    labels: tuple[str, ...]
    whole: tuple[bool, ...]
    probs: tuple[float, ...]
    counts: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int

    @classmethod
    def of(
        cls, name: str, labels: Sequence[str], whole: Sequence[bool], masses: np.ndarray, counts: Sequence[int], n: int
    ) -> CellShares:
        """Counts beside the masses of their cells, (C,) float64, rescaled to sum to 1."""
        probs = masses / masses.sum()
        low, high = _band(probs, n)
        return cls(name, tuple(labels), tuple(whole), tuple(probs.tolist()), tuple(counts), tuple(low), tuple(high), n)

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> CellShares:
        """The cells of a report on samples."""
        one, pieces = report["answers"][0], {int(token): raw for token, raw in report["pieces"].items()}
        cells = sorted(one["cells"], key=lambda cell: -cell["mass"])
        labels, whole = [label(cell["begins"], cell["whole"], pieces) for cell in cells], [cell["whole"] for cell in cells]
        masses, counts = np.array([cell["mass"] for cell in cells]), [cell["count"] for cell in cells]
        return cls.of(report["decoder"], labels, whole, masses, counts, one["n"])

    def _only(self, places: Sequence[int]) -> CellShares:
        return replace(self, **{name: tuple(getattr(self, name)[place] for place in places) for name in COLUMNS})

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(count / self.n if self.n else 0.0 for count in self.counts)

    @property
    def outside(self) -> tuple[str, ...]:
        """Labels of bars outside their band."""
        rows = zip(self.labels, self.shares, self.low, self.high, strict=True)
        return tuple(label for label, share, low, high in rows if self.n and not low - 1e-12 <= share <= high + 1e-12)

    @property
    def conclusion(self) -> str:
        """What the picture shows, in a sentence: its text for readers who cannot see it."""
        if not self.n:
            return f"{self.name}: no samples yet. The marks show the target's exact distribution over {len(self.labels)} cells."
        samples, shown = f"{self.n:,} sample" + ("" if self.n == 1 else "s"), self.rows
        if not shown.outside:
            bars = f"All {len(shown.labels)} bars lie" if len(shown.labels) > 1 else "The one bar lies"
            return f"{self.name}: {samples}. {bars} within sampling noise of the exact distribution."
        many = len(shown.outside)
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
        while len(order) >= FEW and not self.whole[order[0]] and self.probs[order[0]] > DWARF * self.probs[order[1]]:
            del order[0]
        return tuple(order)

    @property
    def rows(self) -> CellShares:
        """What a picture draws, from the top: the ROWS heaviest cells with a name, then all others in one bar.

        All others get no bar where it would dwarf the rest; ``left_out`` then says what they hold.
        """
        named, others = self._split()
        if not others or self.left_out:
            return self._only(named)
        if len(others) == 1:
            low, high = self.low[others[0]], self.high[others[0]]
        else:  # the bands of all bars together keep their level
            low, high = frequency_range(self._mass(others), self.n, (1.0 - LEVEL) * len(others) / len(self.probs))
        shown, count = self._only(named), sum(self.counts[place] for place in others)
        last = REST, False, self._mass(others), count, low, high
        return replace(shown, **{name: (*getattr(shown, name), one) for name, one in zip(COLUMNS, last, strict=True)})

    @property
    def left_out(self) -> float:
        """Probability of all cells without a bar in the picture."""
        named, others = self._split()
        mass = self._mass(others)
        return mass if len(named) >= FEW - 1 and mass > DWARF * self.probs[named[0]] else 0.0

    def _split(self) -> tuple[list[int], list[int]]:
        """Cells that get bars of their own, heaviest first, and all others."""
        named = [place for place in self.order if self.labels[place] != REST][:ROWS] or self.order
        return named, sorted(set(range(len(self.probs))) - set(named))

    def _mass(self, places: Sequence[int]) -> float:
        return sum(self.probs[place] for place in places)

    @property
    def table(self) -> list[dict[str, object]]:
        """Every cell as a row."""
        return [
            {"begins with": self.labels[place], "holds": "one text" if self.whole[place] else "pooled",
             "exact distribution": round(self.probs[place], 5), "samples": self.counts[place], "share": round(self.shares[place], 5),
             "sampling noise, 99%": f"{self.low[place]:.4f} to {self.high[place]:.4f}" if self.n else ""}
            for place in self.order
        ]  # fmt: skip


def axis_end(*arms: CellShares) -> float:
    """Right end of the axis that several histograms share: wide enough for the distribution, its marks and every bar."""
    values = [max(1.35 * one.probs[place], 1.05 * one.shares[place]) for one in arms for place in one.bars]
    return min(1.05, max(values, default=1.0))


def rows_end(*arms: CellShares) -> float:
    """The same for the rows of pictures."""
    bars = [bar for one in (arm.rows for arm in arms) for bar in zip(one.probs, one.shares, one.high, strict=True)]
    return min(1.05, max((max(1.08 * p, 1.05 * share, min(1.3 * p, 1.02 * high)) for p, share, high in bars), default=1.0))


def cell_bars(one: CellShares, end: float, kind: str = "light", hollow: bool = False) -> go.Figure:
    """Bars of the samples, over them the band of sampling noise and the marks of the exact distribution. ``kind``: light or dark page.

    hollow  bars are drawn as outlines: those of a wrong decoder
    """
    shown, blue, gray, ink = one.rows, getattr(MEANINGS["target"], kind), GRAY[kind], INK[kind]
    places = list(range(len(shown.probs)))[::-1]  # on the axis: the first row is at the top
    hover = [_hover(shown, row) for row in range(len(shown.probs))]
    figure = go.Figure()
    named = 0.7 * bool(one.n)  # rows, for the names of the two columns of numbers
    if one.n:
        bar = {"color": CLEAR, "line": {"color": ink, "width": 2}} if hollow else {"color": gray}
        figure.add_bar(x=list(shown.shares), y=places, orientation="h", width=0.44, marker=bar, name="share of the samples",
                       hovertext=hover, hoverinfo="text")  # fmt: skip
        wide = [max(0.0, min(end, high) - low) for low, high in zip(shown.low, shown.high, strict=True)]
        figure.add_bar(x=wide, base=list(shown.low), y=places, orientation="h", width=0.8, name="sampling noise, 99%",
                       marker={"color": BAND, "line": {"color": gray, "width": 1}}, hoverinfo="skip")  # fmt: skip
    marker = {"symbol": "line-ns-open", "size": 14, "line": {"width": 3, "color": blue}, "color": blue}
    figure.add_scatter(x=list(shown.probs), y=places, mode="markers", marker=marker, name="exact distribution",
                       hovertext=hover, hoverinfo="text")  # fmt: skip
    beyond = [row for row, label in enumerate(shown.labels) if label in shown.outside]
    if beyond:
        figure.add_scatter(x=[shown.shares[row] for row in beyond], y=[places[row] for row in beyond], mode="markers", name=BEYOND,
                           marker={"symbol": "diamond", "size": 10, "color": ink}, hoverinfo="skip")  # fmt: skip
    figure.update_layout(
        barmode="overlay", height=92 + PITCH * (max(4, len(places)) + named), margin={"l": 8, "r": 12, "t": 26, "b": 46}, dragmode=False,
        legend=LEGEND, showlegend=True, hoverlabel={"align": "left"},
    )  # fmt: skip
    if one.n:
        _numbers(figure, one, places, kind)
    ticks = [safe(short(label)) for label in shown.labels]
    figure.update_yaxes(tickvals=places, ticktext=ticks, range=[-0.6, max(4, len(places)) - 0.4 + named], showgrid=False, zeroline=False,
                        automargin=True, fixedrange=True, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_xaxes(range=[0, end], tickformat=PERCENT, gridcolor=GRID, zeroline=False, fixedrange=True,
                        title="share of all samples", nticks=6, tickfont={"size": 12})  # fmt: skip
    return figure


def _numbers(figure: go.Figure, one: CellShares, places: list[int], kind: str) -> None:
    """At the right the share of the samples and the exact probability of each row: a difference that is too small for the bars is seen in them."""
    for name, values, shift, color in (("samples", one.rows.shares, 50, INK[kind]), ("exact", one.rows.probs, 98, GRAY[kind])):
        style = {
            "x": 1.0,
            "xref": "paper",
            "xanchor": "right",
            "xshift": shift,
            "showarrow": False,
            "font": {"size": 11, "color": color},
        }
        figure.add_annotation(text=name, y=max(4, len(places)) - 0.1, yanchor="middle", **style)
        for value, place in zip(values, places, strict=True):
            figure.add_annotation(text=percent(value), y=place, yanchor="middle", **style)
    figure.update_layout(margin_r=104)


def percent(share: float) -> str:
    """A share with three digits at most: 34.2%, 0.52%."""
    return f"{100.0 * share:.1f}%" if share >= 0.01 else f"{100.0 * share:.2f}%"


@dataclass(frozen=True, slots=True)
class SeedPValues:
    """P-values of many runs, each with its own seed and its own samples. low, high: the band of the number in each tenth."""

    values: tuple[float, ...]
    samples: int
    low: int
    high: int

    @classmethod
    def of(cls, values: Sequence[float], samples: int) -> SeedPValues:
        low, high = _band(np.full(BINS, 1.0 / BINS), len(values))
        return cls(tuple(values), samples, round(low[0] * len(values)), round(high[0] * len(values)))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many fall into each tenth."""
        return tuple(np.histogram(self.values, np.arange(BINS + 1) / BINS)[0].tolist())

    @property
    def uniform(self) -> bool:
        return all(self.low <= count <= self.high for count in self.counts)

    @property
    def conclusion(self) -> str:
        runs = f"{len(self.values)} runs of {self.samples:,} samples, each with its own seed"
        if self.uniform:
            return f"{runs}: no bar leaves its gray box, so the bars are as level as those of an exact decoder."
        return f"{runs}: the p-values are not spread evenly: some bars lie outside sampling noise."

    @property
    def table(self) -> list[dict[str, object]]:
        return [
            {"p-value": f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}", "runs": count, "expected": len(self.values) / BINS,
             "sampling noise, 99%": f"{self.low} to {self.high}"}
            for k, count in enumerate(self.counts)
        ]  # fmt: skip


def p_value_bars(one: SeedPValues, kind: str = "light") -> go.Figure:
    """Ten bars, the height that each should have, and behind each the band of sampling noise."""
    middle, blue, gray = [(k + 0.5) / BINS for k in range(BINS)], getattr(MEANINGS["target"], kind), GRAY[kind]
    figure = go.Figure()
    figure.add_bar(x=middle, y=[one.high - one.low] * BINS, base=[one.low] * BINS, width=0.085, name="sampling noise, 99%",
                   marker={"color": BAND, "line": {"color": gray, "width": 1}}, hoverinfo="skip")  # fmt: skip
    figure.add_bar(x=middle, y=list(one.counts), width=0.045, marker={"color": gray}, name="runs",
                   hovertemplate="%{y} runs<extra></extra>")  # fmt: skip
    figure.add_scatter(x=[0, 1], y=[len(one.values) / BINS] * 2, mode="lines", line={"color": blue, "width": 3}, name="expected",
                       hoverinfo="skip")  # fmt: skip
    figure.update_layout(barmode="overlay", height=250, margin={"l": 8, "r": 12, "t": 30, "b": 40}, legend=LEGEND, dragmode=False)
    figure.update_xaxes(
        range=[0, 1], title="p-value", tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1], zeroline=False, fixedrange=True, showgrid=False
    )
    figure.update_yaxes(title="runs", rangemode="tozero", gridcolor=GRID, fixedrange=True, zeroline=False)
    return figure


def _band(probs: np.ndarray, n: int) -> list[list[float]]:
    """Low and high of the share of ``n`` samples in each cell; from 0 to 1 before the first."""
    from specviz.statistics.total_variation import cell_band  # scipy, which a page has no use for before there are samples

    return cell_band(probs, n, 1.0 - (1.0 - LEVEL) / len(probs)).tolist() if n else [[0.0] * len(probs), [1.0] * len(probs)]


def _hover(one: CellShares, place: int) -> str:
    said = f"{safe(one.labels[place])}<br>exact distribution {one.probs[place]:.3%}"
    return said + (f"<br>{one.counts[place]:,} of {one.n:,} samples, {one.shares[place]:.3%}" if one.n else "")
