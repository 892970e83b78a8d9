"""Drafting methods in words and pictures: their table, how exactness was shown, and two distributions of a first token. Plain records, Plotly."""

from __future__ import annotations

import plotly.graph_objects as go

from specviz.figures.common.charts import frame, hatched
from specviz.figures.common.labels import REST, label, safe, short
from specviz.figures.common.narration import number
from specviz.figures.common.theme import BAND, GRAY, MEANINGS, PERCENT
from specviz.measure.estimate import interval_of
from specviz.measure.methods import FirstToken, MethodComparison, MethodRow
from specviz.proposers.trees.node_count import Paying
from specviz.settings import Settings

COLUMNS = ("method", "tokens per pass", "ms per token", "verdict", "accepted, by position", "draft tokens per pass",
           "how that is known")  # fmt: skip


def verdict(row: MethodRow) -> str:
    """exact or lossy; a dash for a combination that makes no sense."""
    if row.reason:
        return "–"
    return "exact" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def sign(row: MethodRow) -> str:
    """Of the verdict, as in the matrix."""
    return "–" if row.reason else "✓" if row.exact else "=" if row.coincides else "✗"


def marked(row: MethodRow) -> str:
    """The row's name after the sign of its verdict: on a phone only the column of names stays in sight."""
    return f"{sign(row)} {row.entry.name}"


def evidence(row: MethodRow) -> str:
    """How the verdict was shown, with the numbers of this prompt, once it was sampled; for a blank row, why it is blank."""
    if row.reason:
        return row.reason
    first = row.first
    if first is None:
        return "enumerated" if row.exact else ""
    if certain(first) and first.tv == 0.0:
        sampled = f"sampled: all {first.n:,} equal"
    else:
        sampled = f"sampled: TV {number(first.tv, 3)} (noise up to {number(first.upper, 3)})"
    if row.exact:
        return f"enumerated; {sampled}"
    return f"computed: TV {number(first.written_tv)}; {sampled}"


def certain(first: FirstToken) -> bool:
    """Whether the target is certain of one token, so that nothing is random."""
    return first.upper == 0.0


def table(one: MethodComparison) -> list[dict[str, object]]:
    """A line for each row, in the order of the methods; its columns are COLUMNS."""
    rows = []
    for row in one.rows:
        verdict_ = "–" if row.reason else f"{sign(row)} {verdict(row)}"
        rows.append((row.entry.name, row.per_pass, row.ms and row.ms.value, verdict_, list(row.shares),
                     row.nodes if row.passes else None, evidence(row)))  # fmt: skip
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def details(one: MethodComparison) -> list[dict[str, object]]:
    """What stands behind the table: the rule, every count, the interval of the times."""
    rows = []
    for row in one.rows:
        spread = f"{row.ms.low:.1f} to {row.ms.high:.1f}" if row.ms else ""
        counts = ", ".join(f"{accepted} of {checked}" for accepted, checked in zip(row.accepted, row.checked, strict=True))
        rows.append({"method": row.entry.name, "rule": row.rule, "tokens": row.tokens or None, "passes": row.passes or None,
                     "accepted of checked, by position": counts, f"ms per token, {interval_of(one.runs)}": spread})  # fmt: skip
    return rows


def conclusion(one: MethodComparison) -> str:
    """What the table shows, in two sentences."""
    exact = [row for row in one.rows if row.exact and row.per_pass is not None and row.key != "target"]
    lossy = [row for row in one.rows if not row.exact and row.first is not None]
    if not exact:
        running = any(not row.reason for row in one.rows)
        return (
            "Tokens per target pass are counted in the timed runs." if running and not one.runs else "No method could run here."
        )
    best, worst = max(exact, key=lambda row: row.per_pass), min(exact, key=lambda row: row.per_pass)
    said = (
        f"Every exact method follows the target’s distribution. Tokens per target pass range from {worst.per_pass:.2f} ({worst.entry.name}) "
        f"to {best.per_pass:.2f} ({best.entry.name})."
    )
    for row in lossy:
        said += (
            f" {row.entry.name} writes the target’s text here." if row.coincides
            else f" {row.entry.name} follows another distribution: TV {number(row.first.written_tv)} at the first token."
        )  # fmt: skip
    return said


def paying(one: MethodComparison) -> str:
    """Which exact methods were faster than target-only sampling in these runs, which slower, and which neither by their intervals.

    Empty for a single run, which has no interval.
    """
    alone = one.row("target")
    if alone is None or alone.ms is None or one.runs < 2:
        return ""
    timed = [row for row in one.rows if row.exact and row.ms is not None and row.key != "target"]
    faster = [row for row in timed if row.ms.high < alone.ms.low]
    slower = [row for row in timed if row.ms.low > alone.ms.high]
    parts = {
        f"Faster than target-only sampling in these {one.runs} runs": faster,
        "Slower, so it does not pay here": slower,
        "Not told apart from it": [row for row in timed if row not in (*faster, *slower)],
    }
    return " ".join(f"{said}: {', '.join(row.entry.name for row in rows)}." for said, rows in parts.items() if rows)


def positions(one: MethodComparison) -> str:
    """What the shares by position mean, which differs between rules."""
    said = "Accepted, by position: a draft token is checked only if those before it were accepted; the share is of these checks."
    if any(row.entry.settings.get("rule") == "block" and row.checked for row in one.rows):
        said += " Block verification checks all draft tokens of a round together; there the share is of rounds that accepted at least so many."
    return said


def sized(row: MethodRow, paying: Paying | None) -> str:
    """Where a tree's number of nodes comes from; empty for a row that no curve was asked about."""
    if not row.entry.size_from_curve or row.trace is None or paying is None:
        return ""
    settings = Settings.from_record(row.trace.settings)
    best = paying.best(settings.proposer, settings.temperature)
    if best is None or best.nodes != settings.nodes:
        return ""
    tried = paying.of(settings.proposer, settings.temperature)
    return (
        f"At most {best.nodes} nodes, the fastest of {', '.join(str(point.nodes) for point in tried)} as measured on {paying.date} "
        f"({paying.machine.get('processor', 'one machine')}): {best.speed:.2f} times the speed of target-only sampling. {tried[-1].nodes} nodes "
        f"give {tried[-1].tokens_per_pass:.2f} tokens per target pass instead of {best.tokens_per_pass:.2f}, but run at {tried[-1].speed:.2f} times."
    )  # fmt: skip


def name_of(first: FirstToken, cell: int) -> str:
    """A cell's token with its spaces shown."""
    raw = first.labels[cell]
    return label((0,), True, {0: raw}) if raw else REST


def cells(first: FirstToken) -> list[dict[str, object]]:
    """Every cell as a row of a table."""
    rows = []
    for cell, probs in enumerate(first.probs):
        row = {"first token": name_of(first, cell), "target's distribution": round(probs, 5), "samples": first.counts[cell],
               "share": round(first.shares[cell], 5), "sampling noise, 99%": f"{first.low[cell]:.4f} to {first.high[cell]:.4f}"}  # fmt: skip
        rows.append(row if first.written is None else row | {"what it writes": round(first.written[cell], 5)})
    return rows


def same_distribution_conclusion(first: FirstToken) -> str:
    """What the samples with adversarial draft tokens show, as the figure's text."""
    if certain(first) and first.tv == 0.0:
        return f"All {first.n:,} first tokens written with adversarial draft tokens are the one that the target is certain of."
    if first.tv <= first.upper:
        return (
            f"{first.n:,} first tokens written with adversarial draft tokens have TV {number(first.tv, 3)} from the target's exact distribution, "
            f"within sampling noise (up to {number(first.upper, 3)}): the draft costs speed, not exactness."
        )
    return (
        f"{first.n:,} first tokens written with adversarial draft tokens have TV {number(first.tv, 3)} from the target's exact distribution. "
        f"Sampling noise stays below {number(first.upper, 3)} 99 times in 100."
    )


def same_distribution(first: FirstToken, kind: str = "light") -> go.Figure:
    """Samples as bars, the exact distribution as marks, and the band of sampling noise. All other tokens stand in the table."""
    places = _heaviest(first)
    figure = go.Figure()
    wide = [first.high[cell] - first.low[cell] for cell in places]
    rows = _rows(places)
    figure.add_bar(x=wide, base=[first.low[cell] for cell in places], y=rows, orientation="h", width=0.86, marker={"color": BAND},
                   name="sampling noise, 99%", hoverinfo="skip")  # fmt: skip
    figure.add_bar(x=[first.shares[cell] for cell in places], y=rows, orientation="h", width=0.44, marker={"color": GRAY[kind]},
                   name=f"{first.n:,} samples", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=[first.probs[cell] for cell in places], y=rows, mode="markers", name="target’s exact distribution", hoverinfo="skip",
                       marker=_mark(kind))  # fmt: skip
    return _laid_out(figure, first, places, "share of all first tokens")


def shortcut_conclusion(first: FirstToken) -> str:
    """What typical acceptance does to the distribution, as its figure's text."""
    if first.written_tv < 1e-9:
        return "Typical acceptance follows the target's distribution here: one token is certain."
    lost = sum(1 for cell in _heaviest(first) if first.probs[cell] > 0.0 and first.written[cell] == 0.0)
    shown = len(_heaviest(first))
    return (
        f"Typical acceptance accepts a draft token whose p is above {number(first.edge, 3)} (entropy {first.entropy:.1f} nats); otherwise it "
        f"writes the likeliest token. TV {number(first.written_tv)} from the target's distribution. "
        + (f"{lost} of the {shown} likeliest tokens are never written." if lost else "It writes these tokens with the draft's probabilities instead of the target's.")
    )  # fmt: skip


def shortcut(first: FirstToken, kind: str = "light") -> go.Figure:
    """What the shortcut writes as hatched bars, the target's distribution as marks, and the entropy threshold as a line over p."""
    places = _heaviest(first)
    figure = go.Figure()
    figure.add_bar(x=[first.written[cell] for cell in places], y=_rows(places), orientation="h", width=0.5, marker=hatched(kind),
                   name="what it writes", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=[first.probs[cell] for cell in places], y=_rows(places), mode="markers", name="target’s exact distribution",
                       hoverinfo="skip", marker=_mark(kind))  # fmt: skip
    figure.add_vline(x=first.edge, line={"width": 1.5, "dash": "dot", "color": GRAY[kind]})
    figure.add_annotation(x=first.edge, y=len(places) - 0.1, xanchor="left", xshift=5, showarrow=False, font={"size": 12, "color": GRAY[kind]},
                          text=f"accepted above {number(first.edge, 3)}")  # fmt: skip
    return _laid_out(figure, first, places, "probability of the first token")


def _heaviest(first: FirstToken) -> list[int]:
    """Cells of single tokens, the likeliest first."""
    return [cell for cell, raw in enumerate(first.labels) if raw]


def _rows(places: list[int]) -> list[int]:
    return list(range(len(places)))[::-1]


def _mark(kind: str) -> dict[str, object]:
    blue = getattr(MEANINGS["target"], kind)
    return {"symbol": "line-ns-open", "size": 15, "line": {"width": 3, "color": blue}, "color": blue}


def _laid_out(figure: go.Figure, first: FirstToken, places: list[int], title: str) -> go.Figure:
    most = max(x for row in (first.probs, first.shares, first.written or ()) for x in row[: len(places)])
    rows = max(4, len(places))
    frame(figure, 129 + 21 * rows, title, barmode="overlay")
    ticks = [safe(short(name_of(first, cell))) for cell in places]
    figure.update_yaxes(tickvals=_rows(places), ticktext=ticks, range=[-0.6, rows + 0.5], showgrid=False, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_xaxes(range=[0, min(1.05, 1.12 * most)], tickformat=PERCENT, nticks=6, tickfont={"size": 12})
    return figure
