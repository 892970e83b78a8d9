"""How fast? in words and pictures: tokens and speed-up over gamma by every formula and as measured, acceptance over temperature."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import plotly.graph_objects as go

from specviz.figures.evidence import DRAWS, GRID
from specviz.figures.theme import LEGEND, MEANINGS
from specviz.planning.plan import Interval, Plan
from specviz.planning.reported import ROWS
from specviz.planning.study import DRAFTS, KINDS, STATISTICS, Study

PLAIN = "#8a94a0"  # formulas that are simpler than what happens
WASH = {"light": "rgba(0, 114, 178, .16)", "dark": "rgba(63, 160, 219, .22)"}


def tokens(plan: Plan, kind: str = "light") -> go.Figure:
    """Tokens per pass over gamma: kept guesses with their band, two plainer formulas, what was measured."""
    gammas, figure = [row.gamma for row in plan.rows], go.Figure()
    _banded(figure, gammas, [row.tokens for row in plan.rows], "kept guesses", kind)
    _line(figure, gammas, [row.hazards for row in plan.rows], "by depth", "dash", kind)
    _line(figure, gammas, [row.independent for row in plan.rows], "one alpha", "dot", kind)
    _measured(figure, [row.gamma for row in plan.checked], [row.tokens for row in plan.checked], kind)
    return _laid_out(figure, gammas, "tokens per pass of the target")


def factors(plan: Plan, kind: str = "light") -> go.Figure:
    """Speed-up over the target alone, over gamma: by kept guesses and measured rounds, by plainer theory, as measured."""
    gammas, figure = [row.gamma for row in plan.rows], go.Figure()
    _banded(figure, gammas, [row.factor for row in plan.rows], "kept guesses", kind)
    _line(figure, gammas, [row.linear for row in plan.rows], "by depth", "dash", kind)
    _line(figure, gammas, [row.leviathan for row in plan.rows], "Leviathan", "dot", kind)
    measured = [row for row in plan.checked if row.factor is not None]
    _measured(figure, [row.gamma for row in measured], [row.factor for row in measured], kind)
    figure.add_hline(y=1.0, line={"width": 1.2, "color": DRAWS[kind]})
    figure.add_annotation(x=0.0, xref="paper", y=1.0, xanchor="left", xshift=3, yshift=-9, showarrow=False, font={"size": 12},
                          text="the target alone")  # fmt: skip
    return _laid_out(figure, gammas, "times as fast as the target alone")


def temperatures(study: Study, draft: str, kind: str = "light") -> go.Figure:
    """Share of tested guesses that were kept, over temperature: a thin line for each kind of text, a thick one for their mean."""
    figure, by = go.Figure(), by_kind(study, draft)
    heats = sorted({cell.temperature for cell in study.measured((draft,))})
    for name, shares in by.items():
        figure.add_scatter(x=heats, y=[shares.get(t) for t in heats], mode="lines", line={"width": 1.2, "color": DRAWS[kind]}, opacity=0.55,
                           name=KINDS[name], showlegend=False, hovertemplate=f"{KINDS[name]}: %{{y:.2f}}<extra></extra>")  # fmt: skip
    over = [mean([shares[t] for shares in by.values() if t in shares]) for t in heats]
    figure.add_scatter(x=heats, y=over, mode="lines+markers", name="mean of the kinds", hovertemplate="mean: %{y:.2f}<extra></extra>",
                       line={"width": 3, "color": getattr(MEANINGS["target"], kind)})  # fmt: skip
    for name in _ends(by, heats):
        figure.add_annotation(
            x=heats[-1], y=by[name][heats[-1]], xanchor="left", xshift=4, showarrow=False, text=KINDS[name], font={"size": 11}
        )
    _laid_out(figure, heats, "share of tested guesses kept")
    figure.update_yaxes(range=[0, 1])
    figure.update_xaxes(title="temperature", range=[-0.03, heats[-1] * 1.16])
    return figure


def by_kind(study: Study, draft: str) -> dict[str, dict[float, float]]:
    """Kind of text -> temperature -> share kept, of one draft."""
    found: dict[str, dict[float, float]] = {}
    for cell in study.measured((draft,)):
        found.setdefault(cell.kind, {})[cell.temperature] = cell.share
    return found


def _ends(by: dict[str, dict[float, float]], heats: Sequence[float]) -> list[str]:
    """The kinds with the largest and the least share at the last temperature: only these are named beside their lines."""
    there = [name for name, shares in by.items() if heats[-1] in shares]
    return sorted({min(there, key=lambda name: by[name][heats[-1]]), max(there, key=lambda name: by[name][heats[-1]])})


def tokens_conclusion(plan: Plan) -> str:
    """What the first picture shows."""
    if not plan.checked:
        last = plan.rows[-1]
        return f"From {plan.rows[0].tokens.value:.2f} tokens per pass at gamma {plan.rows[0].gamma} to {last.tokens.value:.2f} at gamma {last.gamma}."
    worst = max(plan.checked, key=lambda row: abs(row.gaps["kept guesses"].value))
    plain = max(plan.checked, key=lambda row: abs(row.gaps["independent"].value))
    off = abs(worst.gaps["kept guesses"].value)
    near = f"and at most {off:.1%} off what was measured" if off >= 0.0005 else "and just what was measured"
    return (
        f"Counted without any speculation, {near}; one alpha for all "
        f"guesses is up to {abs(plain.gaps['independent'].value):.1%} off."
    )


def temperatures_conclusion(study: Study, draft: str) -> str:
    """What the third picture shows: both ends of the mean, and how far the kinds lie apart."""
    by, cells = by_kind(study, draft), study.measured((draft,))
    heats = sorted({cell.temperature for cell in cells})
    ends = [mean([shares[t] for shares in by.values() if t in shares]) for t in (heats[0], heats[-1])]
    low, high = min(cells, key=lambda cell: cell.share), max(cells, key=lambda cell: cell.share)
    return (
        f"In the mean {ends[0]:.2f} of the tested guesses are kept at temperature {heats[0]:g} and {ends[1]:.2f} at {heats[-1]:g}; single kinds "
        f"go from {low.share:.2f} ({KINDS[low.kind]}, {low.temperature:g}) to {high.share:.2f} ({KINDS[high.kind]}, {high.temperature:g})."
    )


def rows(plan: Plan) -> list[dict[str, object]]:
    """Every gamma as a row of a table."""
    found = []
    for row in plan.rows:
        line: dict[str, object] = {"gamma": row.gamma, "kept guesses": _said(row.tokens), "by depth": round(row.hazards, 3),
                                   "one alpha": round(row.independent, 3), "text read on": round(row.own_text, 3), "alpha": round(row.alpha, 3)}  # fmt: skip
        measured = next((one for one in plan.checked if one.gamma == row.gamma), None)
        line["measured"] = None if measured is None else _said(measured.tokens)
        line["times the target"] = None if row.factor is None else _said(row.factor)
        line["measured times"] = None if measured is None or measured.factor is None else _said(measured.factor)
        found.append(line)
    return found


def scores(study: Study) -> list[dict[str, object]]:
    """Every predictor as a row: its error on kinds of text that its fit had not seen."""
    return [
        {"predictor": STATISTICS.get(one.name, one.name), "mean error": round(one.error, 3),
         "middle 95% over kinds": f"{one.low:.3f} to {one.high:.3f}", "explained": round(one.explained, 2)}
        for one in study.scores(tuple(DRAFTS))
    ]  # fmt: skip


def published() -> list[dict[str, object]]:
    """The paper's own table, as reported, beside its formula."""
    return [
        {"task": row.task, "temperature": row.temperature, "draft": row.draft, "gamma": row.gamma, "alpha": row.alpha,
         "reported": row.factor, "formula": round(row.formula, 2), "error": f"{row.error:+.0%}"}
        for row in ROWS
    ]  # fmt: skip


def _said(one: Interval) -> str:
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def _banded(figure: go.Figure, x: list[int], found: Sequence[Interval], name: str, kind: str) -> None:
    colour = getattr(MEANINGS["target"], kind)
    figure.add_scatter(x=[*x, *x[::-1]], y=[*(one.high for one in found), *(one.low for one in found[::-1])], mode="lines", fill="toself",
                       fillcolor=WASH[kind], line={"width": 0}, hoverinfo="skip", showlegend=False, name="middle 95%")  # fmt: skip
    figure.add_scatter(x=x, y=[one.value for one in found], mode="lines", name=name, line={"width": 2.6, "color": colour},
                       hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>")  # fmt: skip


def _line(figure: go.Figure, x: list[int], y: Sequence[float | None], name: str, dash: str, kind: str) -> None:
    figure.add_scatter(x=x, y=list(y), mode="lines", name=name, line={"width": 1.8, "dash": dash, "color": PLAIN},
                       hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>")  # fmt: skip


def _measured(figure: go.Figure, x: list[int], found: Sequence[Interval], kind: str) -> None:
    if not found:
        return
    spread = {"type": "data", "symmetric": False, "array": [one.high - one.value for one in found],
              "arrayminus": [one.value - one.low for one in found], "thickness": 1.4, "width": 4}  # fmt: skip
    colour = DRAWS[kind]
    figure.add_scatter(x=x, y=[one.value for one in found], mode="markers", name="measured", error_y=spread,
                       marker={"size": 8, "symbol": "diamond", "color": colour}, hovertemplate="measured: %{y:.3f}<extra></extra>")  # fmt: skip


def _laid_out(figure: go.Figure, x: Sequence[float], title: str) -> go.Figure:
    figure.update_layout(
        height=340, margin={"l": 8, "r": 12, "t": 46, "b": 46}, dragmode=False, hovermode="closest",
        legend=LEGEND,
    )  # fmt: skip
    figure.update_xaxes(title="gamma: guesses of a round", tickvals=list(x), gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(title=title, gridcolor=GRID, zeroline=False, fixedrange=True, automargin=True)
    return figure
