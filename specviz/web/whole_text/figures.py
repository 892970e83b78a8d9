"""Where two models differ: rejection probability along a text, the Lorenz curve of the divergence, kinds of word. Records of plain numbers, Plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specviz.figures.charts import escape_label, shorten_label
from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import format_probability
from specviz.figures.theme import FADED, GRAY, GRID, LEGEND
from specviz.glyphs import build_glyphs, format_token, read_piece
from specviz.speed.records.divergence_profile import (
    TOP_SHARES,
    DivergenceProfile,
    ScoredText,
    WordKind,
    compute_divergence_profile,
)
from specviz.speed.records.estimate import CONFIDENCE, Estimate
from specviz.speed.records.word_kinds import DESCRIPTIONS

AROUND = 4  # tokens before one that its label shows
MARKED = 6  # places where the models differ most, in the text, the chart and the list
FEW = 10  # tokens of a kind; with fewer nothing is said of it


def list_divergences(scored_text: ScoredText) -> list[int]:
    """The places where the models differ most, the largest difference first."""
    return list(scored_text.divergence_places[:MARKED])


def plot_along_text(scored_text: ScoredText, kind: str = "light") -> go.Figure:
    """The rejection probability at each token as a bar, dark where the models differ most."""
    divergences, apart = set(list_divergences(scored_text)), scored_text.distances
    labels = [_label_position(scored_text, place) for place in range(len(scored_text.beta))]
    figure = go.Figure()
    for chosen, name, marker in (
        (False, "all tokens", {"color": FADED[kind]}),
        (True, f"the {len(divergences)} largest", {"color": _choose_ink(kind)}),
    ):
        places = [place for place in range(len(apart)) if (place in divergences) == chosen]
        figure.add_bar(x=[place + 1 for place in places], y=[float(apart[place]) for place in places], name=name, marker=marker,
                       customdata=[labels[place] for place in places], width=0.8,
                       hovertemplate="token %{x}: %{customdata}<br>rejection probability %{y:.0%}<extra></extra>")  # fmt: skip
    figure.update_layout(height=250, margin={"l": 8, "r": 12, "t": 32, "b": 46}, dragmode=False, barmode="overlay", bargap=0.1,
                         hoverlabel={"align": "left"}, legend=LEGEND)  # fmt: skip
    figure.update_xaxes(title="token of the target’s text", range=[0.3, len(apart) + 0.7], showgrid=False, fixedrange=True)
    figure.update_yaxes(
        title="rejection probability", range=[0, 1.02], gridcolor=GRID, zeroline=False, fixedrange=True, tickformat=".0%"
    )
    return figure


def _label_position(scored_text: ScoredText, place: int) -> str:
    """The token with some of what stands before it."""
    first = max(0, place - AROUND)
    shown = [format_token(scored_text.pieces, token) for token in scored_text.tokens[first : place + 1]]
    return escape_label("".join(shown[:-1])) + f"<b>{escape_label(shown[-1])}</b>"


def describe_along_text(scored_text: ScoredText) -> str:
    """How often draft tokens are rejected on average, and where most often."""
    apart = scored_text.distances
    if not apart.any():
        return "Both models have the same distribution at every token: a draft token is never rejected."
    most = int(apart.argmax())
    shown = "".join(
        glyph["t"]
        for glyph in build_glyphs(read_piece(scored_text.pieces, scored_text.tokens[most]).lstrip(b" "), scored_text.tokens[most])
    )
    return (
        f"A draft token would be rejected with probability {float(apart.mean()):.0%} on average, and most often where the target "
        f"wrote “{shorten_label(shown)}” (token {most + 1}): {float(apart.max()):.0%}."
    )


def plot_lorenz(curves: Sequence[tuple[str, DivergenceProfile]], kind: str = "light") -> go.Figure:
    """The Lorenz curve of each text or set of texts, the first as a solid line with marks at the top shares, and the even spread."""
    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="spread evenly", hoverinfo="skip", showlegend=False,
                       line={"width": 1, "dash": "dot", "color": GRAY[kind]})  # fmt: skip
    figure.add_annotation(
        x=0.66, y=0.55, text="spread evenly", showarrow=False, xanchor="left", font={"size": 12, "color": GRAY[kind]}
    )
    for n, (name, one) in enumerate(curves):
        line = {
            "width": 3 - 0.7 * min(n, 2),
            "dash": ("solid", "dash", "dashdot")[min(n, 2)],
            "color": _choose_ink(kind) if n == 0 else GRAY[kind],
        }
        figure.add_scatter(x=list(one.x), y=list(one.y), mode="lines", name=escape_label(name.rpartition(", ")[2]), line=line,
                           hovertemplate="%{x:.0%} of the tokens hold %{y:.0%} of the divergence<extra></extra>")  # fmt: skip
    tops = list(zip(TOP_SHARES, (share.value for share in curves[0][1].tops), strict=True))
    figure.add_scatter(x=[top for top, _ in tops], y=[held for _, held in tops], mode="markers", showlegend=False,
                       marker={"size": 8, "color": _choose_ink(kind)}, hovertemplate="%{x:.0%} of the tokens hold %{y:.0%} of the divergence<extra></extra>")  # fmt: skip
    top, held = tops[-1]
    figure.add_annotation(x=top, y=held, ax=0.3, ay=0.1, axref="x", ayref="y", xanchor="left", align="left", arrowcolor=_choose_ink(kind), arrowwidth=1,
                          arrowhead=0, standoff=6, text=f"{top:.0%} of the tokens<br>hold {held:.0%}", font={"size": 12, "color": _choose_ink(kind)})  # fmt: skip
    figure.update_layout(height=310, margin={"l": 8, "r": 12, "t": 44, "b": 46}, dragmode=False,
                         legend=LEGEND)  # fmt: skip
    figure.update_xaxes(title="share of the tokens, most often rejected first", range=[0, 1.01], tickformat=".0%", dtick=0.2, gridcolor=GRID,
                        zeroline=False, fixedrange=True)  # fmt: skip
    figure.update_yaxes(title="share of all divergence", range=[0, 1.02], tickformat=".0%", gridcolor=GRID, zeroline=False,
                        fixedrange=True)  # fmt: skip
    return figure


def _choose_ink(kind: str) -> str:
    return "#1a1f26" if kind == "light" else "#e8ecf1"


def describe_lorenz(curves: Sequence[tuple[str, DivergenceProfile]]) -> str:
    """What the top 1% and 10% of the tokens hold in the first curve, and the top 10% in each other."""
    one = curves[0][1]
    if not one.total:
        return "There is no divergence in this text: both models agree at every token."
    few, many = one.tops[0], one.tops[-1]
    said = (
        "Divergence is the sum of the rejection probabilities. "
        f"The 10% of tokens where the models differ most hold {many.value:.0%} of all divergence{_describe_interval(many)}, "
        f"the top 1% {few.value:.0%}. Spread evenly, they would hold 10% and 1%. "
    )
    for name, other in curves[1:]:
        said += f"In {name} ({other.count:,} tokens), the top 10% hold {other.tops[-1].value:.0%}{_describe_interval(other.tops[-1])}. "
    return said + _count_half(one)


def _count_half(profile: DivergenceProfile) -> str:
    """How few tokens hold half of the divergence, and at how many there is none."""
    few = next(x for x, y in zip(profile.x, profile.y, strict=True) if y >= 0.5)
    same = 1.0 - next(x for x, y in zip(profile.x, profile.y, strict=True) if y >= 1.0 - 1e-9)
    said = f"Half of this text’s divergence is in {few:.0%} of its tokens; spread evenly it would be in 50%."
    return said + (f" At {same:.0%} of them both models have the same distribution." if same >= 0.05 else "")


def _describe_interval(share: Estimate) -> str:
    if share.n < 2:
        return ""
    return f" ({share.low:.0%} to {share.high:.0%})"


def plot_kinds(profile: DivergenceProfile, own_profile: DivergenceProfile | None = None, kind: str = "light") -> go.Figure:
    """Mean rejection probability of each kind of word with its interval, the largest on top; ``own_profile``: of one text, as open circles."""
    order = sorted(profile.kinds, key=lambda row: row.distance.value)
    figure = go.Figure()
    places = {row.name: place for place, row in enumerate(order)}
    _add_dots(
        figure,
        order,
        places,
        "circle",
        _choose_ink(kind),
        f"{profile.texts} recorded texts" if own_profile else "these tokens",
        0.0,
    )
    if own_profile is not None:
        mine = [row for row in own_profile.kinds if row.name in places and row.count >= FEW]
        _add_dots(figure, mine, places, "circle-open", GRAY[kind], "this text", -0.26)
    ticks = [f"{row.name} ({row.count})" for row in order]
    figure.update_layout(height=310, margin={"l": 8, "r": 12, "t": 44, "b": 46}, dragmode=False,
                         legend=LEGEND)  # fmt: skip
    figure.update_yaxes(tickvals=list(places.values()), ticktext=ticks, range=[-0.7, len(order) - 0.4], automargin=True, showgrid=False, zeroline=False,
                        fixedrange=True, ticks="")  # fmt: skip
    figure.update_xaxes(title="mean rejection probability", rangemode="tozero", gridcolor=GRID, zeroline=False, fixedrange=True)
    return figure


def _add_dots(
    figure: go.Figure, rows: Sequence[WordKind], places: Mapping[str, int], symbol: str, color: str, name: str, lower: float
) -> None:
    values = [row.distance.value for row in rows]
    ends = [end for row in rows for end in (row.distance.low, row.distance.high)]
    bars = {"type": "data", "symmetric": False, "array": [b - v for b, v in zip(ends[1::2], values, strict=True)],
            "arrayminus": [v - a for a, v in zip(ends[::2], values, strict=True)], "thickness": 1.5, "width": 4}  # fmt: skip
    figure.add_scatter(x=values, y=[places[row.name] + lower for row in rows], mode="markers", error_x=bars, name=escape_label(name),
                       marker={"symbol": symbol, "size": 9, "color": color, "line": {"width": 2}},
                       customdata=[f"{row.name}: {DESCRIPTIONS[row.name]}" for row in rows],
                       hovertemplate="%{customdata}<br>rejected with probability %{x:.3f}<extra></extra>")  # fmt: skip


def describe_kinds(profile: DivergenceProfile) -> str:
    """At which kind of word the models differ most and least, where the intervals do not overlap."""
    rows = sorted((row for row in profile.kinds if row.count >= FEW), key=lambda row: row.distance.value)
    if len(rows) < 2:
        return "There are too few words here to compare their kinds."
    least, most = rows[0], rows[-1]
    what = f"{profile.texts} texts" if profile.by_text else f"{profile.count} tokens"
    if least.distance.n < 2 or most.distance.n < 2 or least.distance.high >= most.distance.low:
        return f"No kind of word stands out in these {what}: the {CONFIDENCE:.0%} intervals overlap."
    return (
        f"The models differ most at “{most.name}”: a draft token is rejected with probability {_format_mean(most)}. They differ least at “{least.name}”, {_format_mean(least)}. "
        f"“{_find_largest(rows).name}” holds the largest part of all divergence, {_find_largest(rows).divergence.value:.0%}, with {_find_largest(rows).tokens:.0%} of the tokens. "
        f"{CONFIDENCE:.0%} intervals, from resampling {what}."
    )


def _find_largest(rows: Sequence[WordKind]) -> WordKind:
    return max(rows, key=lambda row: row.divergence.value)


def _format_mean(row: WordKind) -> str:
    return f"{format_probability(row.distance.value)} ({format_probability(row.distance.low)} to {format_probability(row.distance.high)})"


def build_kind_rows(profile: DivergenceProfile) -> list[dict[str, object]]:
    """Each kind with its counts, means and intervals."""
    rows = []
    for row in profile.kinds:
        rows.append({"kind": row.name, "what it is": DESCRIPTIONS[row.name], "tokens": row.count, "share of tokens": f"{row.tokens:.1%}",
                     "mean rejection probability": _format_share(row.distance), "share of divergence": _format_share(row.divergence)})  # fmt: skip
    return rows


def build_share_rows(curves: Sequence[tuple[str, DivergenceProfile]]) -> list[dict[str, object]]:
    """The top shares of every curve."""
    return [
        {"texts": name, "tokens": one.count}
        | {f"top {top:.0%}": _format_share(share) for top, share in zip(TOP_SHARES, one.tops, strict=True)}
        for name, one in curves
    ]


def _format_share(share: Estimate) -> str:
    said = f"{share.value:.3f}"
    return said if share.n < 2 else f"{said} ({share.low:.3f} to {share.high:.3f})"


def list_curves(scored_text: ScoredText, surveys: Mapping[str, Sequence[ScoredText]]) -> list[tuple[str, DivergenceProfile]]:
    """This text's spread first, then that of each recorded set of texts. surveys: name of a distribution -> readings."""
    found = [("this text", compute_divergence_profile((scored_text,)))]
    return found + [
        (f"{len(reads)} recorded texts, {name}", compute_divergence_profile(tuple(reads)))
        for name, reads in surveys.items()
        if reads
    ]
