"""Two decoders side by side: how far their samples are from the exact distribution, and what each accepts. Plain records, Plotly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import log10, sqrt
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specviz.figures import cell_shares
from specviz.figures.cell_shares import CLEAR, CellShares
from specviz.figures.sampling_results import SamplingResult
from specviz.figures.theme import BAND, GRAY, GRID, INK, LEGEND, MEANINGS

if TYPE_CHECKING:
    from specviz.evidence.tally import Tally

Texts = Sequence[Sequence[int]]

RULES = ("right rule", "wrong rule")
POINTS = (*(step * 10**power for power in range(1, 6) for step in (1, 2, 5)), 1_000_000)  # samples at which the curve has one
TEXTS, LONG = 24, 16  # longer texts whose draft tokens are counted, and their tokens
SHOWN = 3  # of them on the page
FLOOR = 1e-4  # distances below are drawn here: the axis is logarithmic and 0 has no place on it
SIGMAS = 3.0  # standard errors that two shares must lie apart to be called different


@dataclass(frozen=True, slots=True)
class Curve:
    """Distance between counts and exact distribution on one set of cells, after growing numbers of samples.

    names     of the two decoders; wrong  which of them is drawn as the wrong one, None where that is not to be seen
    n         samples; tv  of each decoder, (K, 2); mean, upper  what sampling noise leaves: its mean, and at most 99 times in 100
    rejected  whether the test at each n rejected the wrong decoder, None where none is planned; empty where that is not to be seen
    """

    names: tuple[str, str]
    wrong: int | None
    n: tuple[int, ...] = ()
    tv: tuple[tuple[float, float], ...] = ()
    mean: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    rejected: tuple[bool | None, ...] = ()

    def and_after(self, tally: Tally) -> Curve:
        """With one more point: the samples counted so far."""
        from specviz.statistics.total_variation import total_variation, tv_null_band  # scipy, which a record does without

        probs = tally.cells.masses / tally.cells.masses.sum()
        band, (left, right) = tv_null_band(probs, tally.n), (float(total_variation(counts, probs)) for counts in tally.counts)
        return replace(
            self,
            n=(*self.n, tally.n),
            tv=(*self.tv, (left, right)),
            mean=(*self.mean, band.mean),
            upper=(*self.upper, band.upper),
        )

    @property
    def caught(self) -> int | None:
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
        end = f" Detected at {self.caught:,} samples." if self.caught else ""
        return f"After {self.n[-1]:,} samples: {said[0]}; {said[1]}.{end}"

    @property
    def table(self) -> list[dict[str, object]]:
        rows = []
        for place, (n, tv, mean, upper) in enumerate(zip(self.n, self.tv, self.mean, self.upper, strict=True)):
            row = {"samples": f"{n:,}"} | {name: round(value, 5) for name, value in zip(self.names, tv, strict=True)}
            row |= {"sampling noise, mean": round(mean, 5), "sampling noise, 99%": round(upper, 5)}
            if self.rejected:
                row["check"] = {None: "", False: "not rejected", True: "rejected"}[self.rejected[place]]
            rows.append(row)
        return rows


def style(wrong: int | None, arm: int, kind: str) -> dict[str, Any]:
    """Line, sign and bar of a decoder: the right one filled in the target's blue, the wrong one dashed and an outline in the color of the text.

    Neither is colored or hatched as rejected draft tokens are.
    """
    if wrong is None:
        color, second = GRAY[kind], arm == 1
    else:
        second = arm == wrong
        color = INK[kind] if second else getattr(MEANINGS["target"], kind)
    dash, symbol = (
        (("solid", "circle"), ("dash", "x"))[second] if wrong is not None else (("solid", "circle"), ("dot", "square-open"))[arm]
    )
    return {"color": color, "dash": dash, "symbol": symbol, "fill": CLEAR if second else color}


def curve(one: Curve, kind: str = "light") -> go.Figure:
    """Both distances over the number of samples, the band of sampling noise, and the test that detected the wrong one."""
    figure = go.Figure()
    figure.add_scatter(x=one.n, y=[max(FLOOR, value) for value in one.upper], mode="lines", line={"width": 0}, fill="tozeroy",
                       fillcolor=BAND, name="sampling noise, 99%", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=one.n, y=[max(FLOOR, value) for value in one.upper], mode="lines", line={"width": 1, "color": GRAY[kind]},
                       showlegend=False, name="sampling noise, its edge", hoverinfo="skip")  # fmt: skip
    for arm, name in enumerate(one.names):
        drawn = style(one.wrong, arm, kind)
        values = [value[arm] for value in one.tv]
        figure.add_scatter(
            x=one.n, y=[max(FLOOR, value) for value in values], customdata=values, name=name, mode="lines+markers",
            line={"color": drawn["color"], "dash": drawn["dash"], "width": 2.5},
            marker={"symbol": drawn["symbol"], "size": 8, "color": drawn["color"]},
            hovertemplate=f"{name}: TV %{{customdata:.4f}} after %{{x:,}} samples<extra></extra>",
        )  # fmt: skip
    if one.caught:
        late = one.caught >= 1000  # the words go to the left of the line
        figure.add_vline(x=one.caught, line={"width": 1.5, "dash": "dot", "color": INK[kind]})
        figure.add_annotation(x=log10(one.caught), y=1.0, yref="paper", text=f"✕ detected at {one.caught:,}", showarrow=False,
                              xanchor="right" if late else "left", yanchor="top", xshift=-6 if late else 6, yshift=-16,
                              font={"size": 13, "color": GRAY[kind]})  # under the line at 1  # fmt: skip
    if not one.n:
        figure.add_annotation(
            x=2.0, y=0.5, yref="paper", text="no samples yet", showarrow=False, font={"size": 13, "color": GRAY[kind]}
        )
    end = max(3.0, log10(max(one.n, default=1000)))
    low = min([0.03, *(value for row in one.tv for value in row if value > FLOOR)])
    figure.update_xaxes(type="log", range=[0.95, end + 0.08], title="samples of each decoder, logarithmic", gridcolor=GRID,
                        dtick=1, tickformat=",~s", fixedrange=True, zeroline=False)  # fmt: skip
    figure.update_yaxes(type="log", range=[log10(max(FLOOR, 0.7 * low)), 0.08], title="share on the wrong texts (TV)", gridcolor=GRID, dtick=1,
                        fixedrange=True, zeroline=False)  # fmt: skip
    figure.update_layout(
        height=320, margin={"l": 8, "r": 12, "t": 30, "b": 46}, dragmode=False, hoverlabel={"align": "left"},
        legend=LEGEND,
    )  # fmt: skip
    return figure


@dataclass(frozen=True, slots=True)
class Speed:
    """What a decoder accepted over some texts. checked, accepted: draft tokens; tokens: written in these target passes."""

    name: str
    texts: int
    checked: int
    accepted: int
    tokens: int
    passes: int

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


def first_differences(decode: Callable[[Sequence[int]], str], left: Texts, right: Texts) -> tuple[TextPair, ...]:
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
    """What was found so far; both decoders are tested.

    pairs     longer texts from the same random numbers, the first that differ; alike  of how many texts how many were the same
    speeds    what both accept; toy  the mistake's enumerated distance on its own small tables
    same      samples in which both wrote the same tokens
    """

    pairs: tuple[TextPair, ...] = ()
    alike: tuple[int, int] = (0, 0)
    speeds: tuple[Speed, Speed] | None = None
    toy: float = 0.0
    curve: Curve | None = None
    same: int = 0

    def picture(self, wrong: int | None) -> Curve | None:
        """The curve. wrong: which decoder makes the mistake; None where that is not to be seen, or where neither does."""
        if self.curve is None or wrong is None:
            return self.curve
        rejected = {pair[wrong].n: pair[wrong].verdict == "rejected" for pair in self.looks}
        return replace(self.curve, wrong=wrong, rejected=tuple(map(rejected.get, self.curve.n)))


def raised(right: Speed, wrong: Speed) -> int:
    """1 where the wrong one accepts clearly more of its draft tokens, -1 clearly fewer, 0 where the noise is too large to say."""
    if not (right.checked and wrong.checked):
        return 0
    middle = (right.accepted + wrong.accepted) / (right.checked + wrong.checked)
    error = sqrt(max(1e-12, middle * (1.0 - middle) * (1.0 / right.checked + 1.0 / wrong.checked)))
    apart = (wrong.acceptance_rate - right.acceptance_rate) / error
    return int(apart > SIGMAS) - int(apart < -SIGMAS)


def speeds(pair: tuple[Speed, Speed], wrong: int | None, kind: str = "light") -> go.Figure:
    """Two small panels: the acceptance rate, and tokens per target pass."""
    figure = make_subplots(rows=1, cols=2, subplot_titles=("acceptance rate", "tokens per pass"), horizontal_spacing=0.16)
    for column, (value, form) in enumerate(
        ((lambda one: one.acceptance_rate, ".1%"), (lambda one: one.per_pass, ".2f")), start=1
    ):
        values = [value(one) for one in pair]
        styles = [style(wrong, arm, kind) for arm in (0, 1)]
        figure.add_bar(
            x=[one.name for one in pair], y=values, text=[f"{one:{form}}" for one in values], textposition="outside",
            cliponaxis=False, width=0.55, textfont={"color": GRAY[kind]}, row=1, col=column, hoverinfo="skip",
            marker={"color": [one["fill"] for one in styles], "line": {"color": [one["color"] for one in styles], "width": 2}},
        )  # fmt: skip
        figure.update_yaxes(range=[0, 1.18 * max(values, default=1.0) or 1.0], tickformat=".0%" if column == 1 else None, row=1,
                            col=column)  # fmt: skip
    figure.update_yaxes(gridcolor=GRID, fixedrange=True, zeroline=False, nticks=5)
    figure.update_xaxes(fixedrange=True, showgrid=False)
    figure.update_annotations(font={"size": 13, "color": GRAY[kind]})
    figure.update_layout(height=340, margin={"l": 8, "r": 8, "t": 40, "b": 30}, showlegend=False, dragmode=False)
    return figure


def wrong_cells(one: CellShares, kind: str = "light") -> go.Figure:
    """Samples of the wrong decoder beside the exact distribution: outlines, as everywhere on the page."""
    return cell_shares.cell_bars(one, cell_shares.rows_end(one), kind, hollow=True)
