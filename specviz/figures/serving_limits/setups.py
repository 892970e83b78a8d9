"""Serving limits in words and pictures: the setups as a table, and two distances for each. Plain records, Plotly."""

from __future__ import annotations

import plotly.graph_objects as go

from specviz.figures.common.charts import frame
from specviz.figures.common.labels import safe, short
from specviz.figures.common.narration import number
from specviz.figures.common.theme import BAND, GRAY, MEANINGS
from specviz.measure.estimate import interval_of
from specviz.serving.setups import EXACT, LOSSY, ROUNDING, TOLERANCE, SetupComparison, SetupRow

COLUMNS = ("target served as", "TV by draft tokens", "verdict", "exact relative to", "TV to float32", "acceptance rate",
           "tokens per pass", "speed, no draft", "speed, drafted")  # fmt: skip
SIGNS = {EXACT: "✓", ROUNDING: "≈", LOSSY: "✗"}
LEAST = 1e-8  # distances below stand on this edge of the logarithmic axis


def table(one: SetupComparison) -> list[dict[str, object]]:
    """A line for each row; its columns are COLUMNS. Speeds that are too uncertain are left out; the details hold them with their spread."""
    rows = []
    for row in one.rows:
        own = "" if row.own is None else f"{number(row.own.mean)}, ≤ {number(row.own.worst)}"
        speeds = [speed and speed.value if one.steady else None for speed in (row.alone, row.drafted)]
        rows.append((row.entry.name, own, "–" if row.reason else row.verdict, row.reason or row.entry.exact_for,
                     row.apart and number(row.apart.value), row.overlap and row.overlap.value, row.per_pass, *speeds))  # fmt: skip
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def marked(row: SetupRow) -> str:
    """The row's name after the sign of its verdict: on a phone only the column of names stays in sight."""
    return f"{'–' if row.reason else SIGNS[row.verdict]} {row.entry.name}"


def entries(one: SetupComparison) -> list[tuple[str, str]]:
    """Name and sentence of each row."""
    return [(row.entry.name, row.reason or row.entry.description) for row in one.rows]


def details(one: SetupComparison) -> list[dict[str, object]]:
    """The counts, prefixes and times from which the table is made."""
    rows = []
    for row in one.rows:
        own, ms = row.own, row.ms
        alone, drafted = (f"{speed.low:.2f} to {speed.high:.2f}" if speed else "" for speed in (row.alone, row.drafted))
        apart = f"{number(row.apart.low)} to {number(row.apart.high)}" if row.apart else ""
        rows.append({COLUMNS[0]: row.entry.name, "prefixes checked": own and own.prefixes, "near ties left out": own and own.near_ties,
                     "TV to float32, 95% interval": apart, "accepted of checked": f"{row.accepted} of {row.checked}" if row.checked else "",
                     "tokens": row.tokens or None, "passes": row.passes or None, "ms per token, no draft": ms and ms[0],
                     "ms per token, drafted": ms and ms[1], f"speed, no draft, {interval_of(one.runs)}": alone, "speed, drafted": drafted})  # fmt: skip
    return rows


def conclusion(one: SetupComparison) -> str:
    """What the table shows: how far setups move the distribution, how little draft tokens add to that, and what mistakes do."""
    rows = [row for row in one.rows if row.own is not None]
    moved = [row for row in rows if row.apart is not None and row.verdict != LOSSY]
    exact = [row for row in rows if row.verdict == EXACT]
    if not moved or not exact:
        return "Nothing could be compared on this pair."
    near, far = min(moved, key=lambda row: row.apart.value), max(moved, key=lambda row: row.apart.value)
    said = (
        f"These setups move the target’s distribution by a mean TV of {number(near.apart.value)} ({near.entry.name}) to {number(far.apart.value)} "
        f"({far.entry.name}). In the exact rows draft tokens change the served distribution by TV "
        f"{number(max(row.own.worst for row in exact))} at most."
    )
    for verdict, sentence in (
        (ROUNDING, " Where passes over several tokens round differently, they change it by up to TV {}."),
        (LOSSY, " The mistakes change it by up to TV {}."),
    ):
        if worst := [f"{number(row.own.worst)} ({row.entry.name})" for row in rows if row.verdict == verdict]:
            said += sentence.format(", ".join(worst))
    return said


def distances(one: SetupComparison, kind: str = "light") -> go.Figure:
    """For each row the distance of its distribution from float32's, and what draft tokens change about it, on one logarithmic axis."""
    rows = [row for row in one.rows if row.own is not None]
    places = list(range(len(rows)))[::-1]
    blue, red = getattr(MEANINGS["target"], kind), getattr(MEANINGS["rejected"], kind)
    figure = go.Figure()
    figure.add_vrect(x0=LEAST, x1=TOLERANCE, fillcolor=BAND, line_width=0, layer="below")
    figure.add_annotation(x=-7.95, y=len(rows) - 0.4, xanchor="left", showarrow=False, text="rounding",
                          font={"size": 12, "color": GRAY[kind]})  # fmt: skip
    for row, place in zip(rows, places, strict=True):
        figure.add_scatter(x=[max(LEAST, row.own.mean), max(LEAST, row.own.worst)], y=[place, place], mode="lines",
                           line={"width": 2.4, "color": red}, showlegend=False, hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=[max(LEAST, row.own.worst) for row in rows], y=places, mode="markers", name="change by draft tokens, at most",
                       marker={"symbol": "diamond", "size": 10, "color": red}, customdata=[row.entry.name for row in rows],
                       hovertemplate="%{customdata}: at most %{x:.2g}<extra></extra>")  # fmt: skip
    moved = [(row, place) for row, place in zip(rows, places, strict=True) if row.apart is not None]
    figure.add_scatter(x=[max(LEAST, row.apart.value) for row, _ in moved], y=[place for _, place in moved], mode="markers",
                       name="distance to float32, mean", marker={"symbol": "circle", "size": 11, "color": blue},
                       customdata=[row.entry.name for row, _ in moved], hovertemplate="%{customdata}: mean %{x:.2g}<extra></extra>")  # fmt: skip
    frame(figure, 110 + 31 * len(rows), "total variation")
    figure.update_yaxes(tickvals=places, ticktext=[safe(short(row.entry.name, 30)) for row in rows], range=[-0.6, len(rows) - 0.1],
                        showgrid=False, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_xaxes(type="log", range=[-8, 0.12], dtick=2, exponentformat="power")
    return figure
