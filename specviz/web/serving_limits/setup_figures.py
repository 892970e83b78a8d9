"""Serving limits in words and pictures: the setups as a table, and two distances for each. Plain records, Plotly."""

from __future__ import annotations

from html import escape
from math import log10

from specviz.evidence.serving_setups.records import EXACT, LOSSY, REFERENCE, ROUNDING, TOLERANCE, SetupComparison, SetupRow
from specviz.figures.charts import escape_label, frame_chart, shorten_label
from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import format_probability
from specviz.figures.theme import BAND, GRAY, MEANINGS
from specviz.speed.records.estimate import Estimate, describe_interval

COLUMNS = (
    "target served as",
    "the setup changes the target: mean",
    "draft tokens change it: mean",
    "draft tokens change it: largest",
    "verdict",
)
SIGNS = {EXACT: "✓", ROUNDING: "≈", LOSSY: "✕"}
WORDS = {EXACT: "exact", ROUNDING: "exact up to rounding", LOSSY: "not exact"}
LEAST = 1e-8  # distances below stand on this edge of the logarithmic axis
AXIS_ENDS = (-8.0, 0.25)  # powers of ten
TICKS = {-8: "10⁻⁸", -6: "10⁻⁶", -4: "10⁻⁴", -2: "10⁻²", 0: "1"}
SETTING, ADDED = "what the setting changes, mean", "what draft tokens add, mean to largest"
BAND_NAME, AXIS = "float32 rounding", "change (TV), logarithmic; left is better"
NOISY = "too noisy to say"


def build_setup_table(one: SetupComparison) -> list[tuple[tuple[str, ...], str]]:
    """For each setup its cells, which are COLUMNS, and what it means, or why it has no numbers."""
    rows: list[tuple[tuple[str, ...], str]] = []
    for row in one.rows:
        apart = format_probability(row.distance.value) if row.distance else "reference" if row.key == REFERENCE else ""
        own = (format_probability(row.own.mean), format_probability(row.own.worst)) if row.own else ("", "")
        cells = (apart, *own, f"{get_sign(row)} {WORDS[row.verdict]}")
        rows.append(((row.entry.name, *(("–",) * 4 if row.reason else cells)), row.reason or row.entry.description))
    return rows


def build_dotted_list(one: SetupComparison) -> str:
    """The setups as HTML: sign, name and sentence of each beside its two distances on one logarithmic axis."""
    rows = "".join(_build_dotted_row(row) for row in one.rows)
    ticks = "".join(f"<em style='left:{_locate(10.0**power):.2f}%'>{TICKS[power]}</em>" for power in TICKS)
    key = "".join(f"<span><em class='{name}'></em>{words}</span>" for name, words in (("setting", SETTING), ("added", ADDED)))
    key += f"<span><em class='band'></em>{BAND_NAME}</span>"
    axis = f"<li class='axis' aria-hidden='true'><span class='track'>{ticks}</span><span>{AXIS}</span></li>"
    return f"<p class='dotted-key' aria-hidden='true'>{key}</p><ul class='signed-list dotted'>{rows}{axis}</ul>"


def _build_dotted_row(row: SetupRow) -> str:
    said, marks = "", ""
    if row.own is not None:
        mean, worst = _locate(row.own.mean), _locate(row.own.worst)
        said = f"Draft tokens add {format_probability(row.own.mean)} on average, at most {format_probability(row.own.worst)}."
        marks = f"<em class='line' style='left:{mean:.2f}%;width:{worst - mean:.2f}%'></em><em class='added' style='left:{worst:.2f}%'></em>"
    if row.own is not None and row.distance:
        said = f"The setting changes {format_probability(row.distance.value)}. {said}"
        marks += f"<em class='setting' style='left:{_locate(row.distance.value):.2f}%'></em>"
    band = f"<em class='band' style='width:{_locate(TOLERANCE):.2f}%'></em>"
    return (
        f"<li><i>{get_sign(row)}</i><span><b>{escape(row.entry.name)}</b> {escape(row.reason or row.entry.sentence)}"
        f"<small class='unseen'> {escape(said)}</small></span><span class='track' aria-hidden='true'>{band}{marks}</span></li>"
    )


def _locate(distance: float) -> float:
    """Where a distance is on the axis, percent."""
    low, high = AXIS_ENDS
    return 100.0 * (log10(max(LEAST, distance)) - low) / (high - low)


def get_sign(row: SetupRow) -> str:
    """The sign of a row's verdict."""
    return "–" if row.reason else SIGNS[row.verdict]


def build_speed_rows(one: SetupComparison) -> list[dict[str, object]]:
    """How often draft tokens are accepted in each setup, and its speed-ups over the reference without a draft."""

    def format_speed_up(found: Estimate | None) -> str:
        return "" if found is None else found.format() if one.is_steady else NOISY

    return [
        {COLUMNS[0]: row.entry.name, "acceptance rate": row.overlap and round(row.overlap.value, 2),
         "tokens per target pass": row.per_pass and round(row.per_pass, 2), "speed-up without a draft": format_speed_up(row.speed_without_draft),
         "speed-up with draft tokens": format_speed_up(row.speed_with_draft)}
        for row in one.rows
    ]  # fmt: skip


def describe_timing(one: SetupComparison) -> str:
    """What the speed-ups are relative to, and under which settings they were measured."""
    slow = "" if one.is_steady else f" No speeds are given: {one.noise_note}"
    return (
        f"Speed-ups over float32 without a draft, the median of each setup with the {describe_interval(one.runs)}: gamma {one.settings.gamma}, temperature "
        f"{one.settings.temperature:g}, the {one.settings.rule} rule, one text at a time. A mistake has the same speed without a draft as the setup that "
        f"it breaks.{slow}"
    )


def build_detail_rows(one: SetupComparison) -> list[dict[str, object]]:
    """The counts, prefixes and times from which the tables are made."""
    rows: list[dict[str, object]] = []
    for row in one.rows:
        own, ms = row.own, row.ms
        apart = f"{format_probability(row.distance.low)} to {format_probability(row.distance.high)}" if row.distance else ""
        rows.append({COLUMNS[0]: row.entry.name, "prefixes checked": own and own.prefixes, "near ties left out": own and own.near_ties,
                     "TV to float32, 95% interval": apart, "TV by draft tokens, mean": format_probability(own.mean) if own else "",
                     "accepted of checked": f"{row.accepted} of {row.checked}" if row.checked else "",
                     "tokens": row.tokens or None, "passes": row.passes or None, "ms per token, no draft": ms and ms[0],
                     "ms per token, draft tokens": ms and ms[1]})  # fmt: skip
    return rows


def describe_setups(one: SetupComparison) -> str:
    """What the table shows: how far setups move the distribution, how little draft tokens add to that, and what mistakes do."""
    worst = [(row.own.worst, row) for row in one.rows if row.own is not None]
    moved = [(row.distance.value, row.entry.name) for row in one.rows if row.own and row.distance and row.verdict != LOSSY]
    exact = [value for value, row in worst if row.verdict == EXACT]
    if not moved or not exact:
        return "Nothing could be compared on this pair."
    (near, near_name), (far, far_name) = min(moved, key=_get_value), max(moved, key=_get_value)
    sentence = (
        f"Serving choices change the target, from a little ({near_name}, {format_probability(near)}) to a lot ({far_name}, "
        f"{format_probability(far)}). Draft tokens add nothing to that in the exact rows (at most {format_probability(max(exact))})"
    )
    if rounded := [(value, row) for value, row in worst if row.verdict == ROUNDING]:
        largest, names = max(value for value, _ in rounded), ", ".join(row.entry.name for _, row in rounded)
        sentence += f", at most {format_probability(largest)} where passes round differently ({names})"
    if wrong := [(value, row.entry.name) for value, row in worst if row.verdict == LOSSY]:
        value, name = max(wrong, key=_get_value)
        sentence += f", and up to {format_probability(value)} after a mistake ({name})"
    return f"{sentence}."


def _get_value(named: tuple[float, str]) -> float:
    return named[0]


def plot_distances(one: SetupComparison, kind: str = "light") -> go.Figure:
    """For each row the distance of its distribution from float32's, and what draft tokens change about it, on one logarithmic axis."""
    rows = [(row, row.own) for row in one.rows if row.own is not None]
    places = list(range(len(rows)))[::-1]
    blue, orange = (getattr(MEANINGS[name], kind) for name in ("target", "draft"))
    figure = go.Figure()
    figure.add_vrect(x0=LEAST, x1=TOLERANCE, fillcolor=BAND, line_width=0, layer="below")
    figure.add_annotation(x=-7.95, y=len(rows) - 0.4, xanchor="left", showarrow=False, text=BAND_NAME,
                          font={"size": 12, "color": GRAY[kind]})  # fmt: skip
    for (_, own), place in zip(rows, places, strict=True):
        figure.add_scatter(x=[max(LEAST, own.mean), max(LEAST, own.worst)], y=[place, place], mode="lines",
                           line={"width": 2.4, "color": orange}, showlegend=False, hoverinfo="skip")  # fmt: skip
    moved = [(row.distance.value, row.entry.name, place) for (row, _), place in zip(rows, places, strict=True) if row.distance]
    figure.add_scatter(x=[max(LEAST, value) for value, _, _ in moved], y=[place for _, _, place in moved], mode="markers",
                       name=SETTING, marker={"symbol": "circle", "size": 11, "color": blue},
                       customdata=[name for _, name, _ in moved], hovertemplate="%{customdata}: mean %{x:.2g}<extra></extra>")  # fmt: skip
    figure.add_scatter(x=[max(LEAST, own.worst) for _, own in rows], y=places, mode="lines+markers", name=ADDED,
                       line={"width": 0, "color": orange}, marker={"symbol": "diamond", "size": 11, "color": orange}, customdata=[row.entry.name for row, _ in rows],
                       hovertemplate="%{customdata}: at most %{x:.2g}<extra></extra>")  # fmt: skip
    frame_chart(figure, 100 + 31 * len(rows), AXIS)
    figure.update_yaxes(tickvals=places, ticktext=[escape_label(f"{get_sign(row)} {shorten_label(row.entry.name, 30)}{', the reference' * (row.key == REFERENCE)}") for row, _ in rows],
                        range=[-0.6, len(rows) - 0.1], showgrid=False, ticks="", tickfont={"size": 12.5})  # fmt: skip
    figure.update_xaxes(type="log", range=AXIS_ENDS, tickvals=[10.0**power for power in TICKS],
                        ticktext=[*TICKS.values()])  # fmt: skip
    return figure
