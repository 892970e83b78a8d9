"""Serving limits in words and pictures: the setups as a table, and two distances for each. Plain records, Plotly."""

from __future__ import annotations

from html import escape

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
LEAST = 1e-8  # distances below stand on this edge of the logarithmic axis of the exported picture
AXIS_ENDS = (-8.0, 0.25)  # powers of ten
TICKS = {-8: "10⁻⁸", -6: "10⁻⁶", -4: "10⁻⁴", -2: "10⁻²", 0: "1"}
ADDED = "share of probability that drafting moves, at most"
PLOTTED_SETTING, PLOTTED_ADDED = (
    "what the setting changes, mean",
    "what draft tokens add, mean to largest",
)  # in the exported picture
BAND_NAME, AXIS = "float32 rounding", "change (TV), logarithmic"
NOISY = "too noisy to say"


def build_setup_table(comparison: SetupComparison) -> list[tuple[tuple[str, ...], str]]:
    """For each setup its cells, which are COLUMNS, and what it means, or why it has no numbers."""
    rows: list[tuple[tuple[str, ...], str]] = []
    for row in comparison.rows:
        apart = format_change(row.distance.value) if row.distance else "reference" if row.key == REFERENCE else ""
        own = (format_change(row.own.mean), format_change(row.own.worst)) if row.own else ("", "")
        cells = (apart, *own, f"{get_sign(row)} {WORDS[row.verdict]}")
        rows.append(((row.entry.name, *(("–",) * 4 if row.reason else cells)), row.reason or row.entry.description))
    return rows


def build_setup_list(comparison: SetupComparison) -> str:
    """Build the setups as HTML: each right setup with the mistake that breaks it below it, the largest change first, then those that no mistake breaks."""
    signs = "".join(f"<span class='{_get_kind(key)}'><i>{SIGNS[key]}</i> {words}</span>" for key, words in WORDS.items())
    pairs = [pair for pair in _pair_with_mistakes(comparison) if len(pair) > 1]
    alone = [row for pair in _pair_with_mistakes(comparison) if len(pair) == 1 for row in pair]
    pairs.sort(key=lambda pair: max(map(_get_largest_change, pair)), reverse=True)
    sections = "".join(f"<section>{''.join(map(_build_row, rows))}</section>" for rows in (*pairs, alone) if rows)
    head = f"<p class='setup-row setup-head'><span class='signs'>{signs}</span><span>{ADDED}</span></p>"
    return f"<div class='setup-list'>{head}{sections}</div>"


def _pair_with_mistakes(comparison: SetupComparison) -> list[list[SetupRow]]:
    """Each setup that means to keep its own distribution, with the mistakes that mean to keep the same."""
    kept = {row.key: [row] for row in comparison.rows if row.entry.reference_key == row.key}
    for row in comparison.rows:
        if row.key not in kept:
            kept.setdefault(row.entry.reference_key, []).append(row)
    return list(kept.values())


def _get_largest_change(row: SetupRow) -> float:
    return row.own.worst if row.own else 0.0


def _get_kind(verdict: str) -> str:
    return verdict.split()[-1]


def _build_row(row: SetupRow) -> str:
    """A row of the list: verdict, name, and what drafting changes as a bar from 0 to 100% with its number. It opens its details."""
    sign = f"<i>{get_sign(row)}</i>"
    name = (
        f"<span class='name'>{sign}<b>{escape(row.entry.name)}</b> <span>{escape(row.reason or row.entry.sentence)}</span></span>"
    )
    if row.own is None:
        return f"<div class='setup-row'>{name}</div>"
    bar = f"<em class='added' style='width:{100.0 * row.own.worst:.2f}%'></em>" if row.own.worst > TOLERANCE else ""
    measured = f"<span class='track{'' if bar else ' none'}'>{bar}<span class='number'>{format_change(row.own.worst, 'up to ')}</span></span>"
    kind = _get_kind(row.verdict)
    return f"<details class='{kind}'><summary class='setup-row'>{name}{measured}</summary><p>{escape(describe_row(row))}</p></details>"


def describe_row(row: SetupRow) -> str:
    """Say what a setup is, what draft tokens change, mean and largest, what the setting changes, and where its mistake is found."""
    assert row.own is not None
    changed = f"{format_change(row.own.mean)} of the probability on average and {format_change(row.own.worst, 'at most ')}"
    changed = changed if row.own.worst > TOLERANCE else "nothing"
    found = f"Drafting changes {changed}, over {row.own.prefixes} beginnings of texts."
    alone = (
        f"The setting itself moves {format_change(row.distance.value)} on average, with or without a draft."
        if row.distance
        else ""
    )
    return " ".join(part for part in (row.entry.description, found, alone, row.entry.seen_in) if part)


def format_change(value: float, before: str = "") -> str:
    """Write a total variation distance in percent; what float32 rounds away is no change."""
    if value <= TOLERANCE:
        return "nothing"
    percent = 100.0 * value
    return f"{before}{percent:.0f}%" if percent >= 10.0 else f"{before}{percent:.2g}%" if percent >= 0.01 else "less than 0.01%"


def get_sign(row: SetupRow) -> str:
    """The sign of a row's verdict."""
    return "–" if row.reason else SIGNS[row.verdict]


def build_speed_rows(comparison: SetupComparison) -> list[dict[str, object]]:
    """How often draft tokens are accepted in each setup, and its speed-ups over the reference without a draft."""

    def format_speed_up(speed_up: Estimate | None) -> str:
        return "" if speed_up is None else speed_up.format() if comparison.is_steady else NOISY

    return [
        {COLUMNS[0]: row.entry.name, "acceptance rate": row.overlap and round(row.overlap.value, 2),
         "tokens per target pass": row.per_pass and round(row.per_pass, 2), "speed-up without a draft": format_speed_up(row.speed_without_draft),
         "speed-up with draft tokens": format_speed_up(row.speed_with_draft)}
        for row in comparison.rows
    ]  # fmt: skip


def describe_timing(comparison: SetupComparison) -> str:
    """What the speed-ups are relative to, and under which settings they were measured."""
    slow = "" if comparison.is_steady else f" No speeds are given: {comparison.noise_note}"
    return (
        f"Speed-ups over float32 without a draft, the median of each setup with the {describe_interval(comparison.runs)}: gamma {comparison.settings.gamma}, temperature "
        f"{comparison.settings.temperature:g}, the {comparison.settings.rule} rule, one text at a time. A mistake has the same speed without a draft as the setup that "
        f"it breaks.{slow}"
    )


def build_detail_rows(comparison: SetupComparison) -> list[dict[str, object]]:
    """The counts, prefixes and times from which the tables are made."""
    rows: list[dict[str, object]] = []
    for row in comparison.rows:
        own, ms = row.own, row.ms
        apart = f"{format_probability(row.distance.low)} to {format_probability(row.distance.high)}" if row.distance else ""
        rows.append({COLUMNS[0]: row.entry.name, "prefixes checked": own and own.prefixes, "near ties left out": own and own.near_ties,
                     "TV to float32, 95% interval": apart, "TV by draft tokens, mean": format_probability(own.mean) if own else "",
                     "accepted of checked": f"{row.accepted} of {row.checked}" if row.checked else "",
                     "tokens": row.tokens or None, "passes": row.passes or None, "ms per token, no draft": ms and ms[0],
                     "ms per token, draft tokens": ms and ms[1]})  # fmt: skip
    return rows


def describe_setups(comparison: SetupComparison) -> str:
    """Say in how many setups draft tokens change nothing, and how much they change the others."""
    worst = [(row.own.worst, row) for row in comparison.rows if row.own is not None]
    same = sum(row.verdict == EXACT for _, row in worst)
    if not any(row.distance for _, row in worst) or not same:
        return "Nothing could be compared on this pair."
    sentence = f"{same} of {len(worst)} setups: drafting changes nothing."
    for verdict, words in ((LOSSY, "it changes the text"), (ROUNDING, "it rounds differently")):
        if found := [value for value, row in worst if row.verdict == verdict]:
            sentence += f" In {len(found)} {words}, by up to {format_change(max(found))}."
    return sentence


def plot_distances(comparison: SetupComparison, kind: str = "light") -> go.Figure:
    """For each row the distance of its distribution from float32's, and what draft tokens change about it, on one logarithmic axis."""
    rows = [(row, row.own) for row in comparison.rows if row.own is not None]
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
                       name=PLOTTED_SETTING, marker={"symbol": "circle", "size": 11, "color": blue},
                       customdata=[name for _, name, _ in moved], hovertemplate="%{customdata}: mean %{x:.2g}<extra></extra>")  # fmt: skip
    figure.add_scatter(x=[max(LEAST, own.worst) for _, own in rows], y=places, mode="lines+markers", name=PLOTTED_ADDED,
                       line={"width": 0, "color": orange}, marker={"symbol": "diamond", "size": 11, "color": orange}, customdata=[row.entry.name for row, _ in rows],
                       hovertemplate="%{customdata}: at most %{x:.2g}<extra></extra>")  # fmt: skip
    frame_chart(figure, 100 + 31 * len(rows), AXIS)
    figure.update_yaxes(tickvals=places, ticktext=[escape_label(f"{get_sign(row)} {shorten_label(row.entry.name, 30)}{', the reference' * (row.key == REFERENCE)}") for row, _ in rows],
                        range=[-0.6, len(rows) - 0.1], showgrid=False, ticks="", tickfont={"size": 12.5})  # fmt: skip
    figure.update_xaxes(type="log", range=AXIS_ENDS, tickvals=[10.0**power for power in TICKS],
                        ticktext=[*TICKS.values()])  # fmt: skip
    return figure
