"""How fast? in words and pictures: tokens and speed-up over gamma, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specviz.figures.charts import build_error_bars, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, MEANINGS
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import PlanRow, SpeedPlan
from specviz.speed.records.published_speeds import ROWS

LETTERS = 13  # px: names beside the ends of lines
APART = 0.06  # of the picture's height, between two of them
PLAIN = "#8a94a0"  # simpler formulas
PER_POSITION = "one alpha per position"
WASH = {"light": "rgba(0, 114, 178, .16)", "dark": "rgba(63, 160, 219, .22)"}


def plot_tokens(plan: SpeedPlan, kind: str = "light") -> go.Figure:
    """Tokens per target pass over gamma: the prediction with its band, two simpler formulas, what was measured."""
    return _plot_over_gamma(plan, "tokens", {PER_POSITION: "hazards", "one alpha": "independent"}, "tokens per target pass", kind)


def plot_factors(plan: SpeedPlan, kind: str = "light") -> go.Figure:
    """Speed-up over target-only sampling, over gamma: predicted from accepted draft tokens and timed rounds, and measured."""
    figure = _plot_over_gamma(plan, "factor", {}, "times as fast as target only", kind)
    figure.add_hline(y=1.0, line={"width": 1.2, "color": GRAY[kind]})
    pays = plan.rows[0].speedup.low > 1.0  # the curve is above the line: its name stands below, at the left
    figure.add_annotation(x=0.0 if pays else 1.0, xref="paper", y=1.0, xanchor="left" if pays else "right", xshift=3 if pays else -3, yshift=-10 if pays else 10,
                          showarrow=False, text="target only", font={"size": 14, "color": GRAY[kind]})  # fmt: skip
    figure.update_layout(height=330, legend={"font": {"size": 14}})
    figure.update_xaxes(tickfont={"size": 14}, title_font={"size": 14})
    figure.update_yaxes(tickfont={"size": 14}, title_font={"size": 14})
    return figure


def _plot_over_gamma(plan: SpeedPlan, name: str, simpler: Mapping[str, str], title: str, kind: str) -> go.Figure:
    """One field of the plan's rows with its band, simpler formulas (name on screen -> field), and the same field as measured."""
    figure, gammas = go.Figure(), [row.gamma for row in plan.rows]
    add_band(figure, gammas, [getattr(row, name) for row in plan.rows], "predicted", kind)
    for (formula, field), dash in zip(simpler.items(), ("dash", "dot"), strict=False):
        figure.add_scatter(x=gammas, y=[getattr(row, field) for row in plan.rows], mode="lines", name=formula,
                           line={"width": 1.8, "dash": dash, "color": PLAIN}, hovertemplate=f"{formula}: %{{y:.3f}}<extra></extra>")  # fmt: skip
    if measured := {row.gamma: one for row in plan.checked if (one := getattr(row, name)) is not None}:
        figure.add_scatter(x=list(measured), y=[one.value for one in measured.values()], mode="markers", name="measured",
                           error_y=build_error_bars(measured.values(), thickness=1.4, width=4),
                           marker={"size": 8, "symbol": "diamond", "color": GRAY[kind]}, hovertemplate="measured: %{y:.3f}<extra></extra>")  # fmt: skip
    frame_chart(figure, 300, "draft tokens a round", title)
    figure.update_xaxes(tickvals=gammas)
    return figure


def describe_tokens(plan: SpeedPlan) -> str:
    """What the first picture shows."""
    if not plan.checked:
        last = plan.rows[-1]
        return f"Predicted: {plan.rows[0].tokens.value:.2f} tokens per target pass at gamma {plan.rows[0].gamma}, {last.tokens.value:.2f} at gamma {last.gamma}."
    worst = max(plan.checked, key=lambda row: abs(row.gaps["accepted draft tokens"].value))
    plain = max(plan.checked, key=lambda row: abs(row.gaps["independent"].value))
    off = abs(worst.gaps["accepted draft tokens"].value)
    near = f"is within {off:.1%} of the measurement" if off >= 0.0005 else "equals the measurement"
    return (
        f"The prediction, made without running speculative decoding, {near}. "
        f"With one alpha for all draft tokens it is up to {abs(plain.gaps['independent'].value):.1%} off."
    )


def describe_best(plan: SpeedPlan) -> tuple[str, str]:
    """The draft length to take as a large number, or that none pays, and its speeds in words. plan: with costs."""
    row = choose_row(plan)
    assert row is not None, "a plan with costs has a row"
    speeds = f"predicted {row.speedup.value:.2f}×"
    if measured := next((one for best, one in _pair_speeds(plan) if best is row), None):
        speeds += f", measured {measured.value:.2f}×"
    if plan.verdict == "speculate":
        return (
            f"{row.gamma}",
            f"draft token{'s' * (row.gamma > 1)} a round {'is' if row.gamma == 1 else 'are'} best here: {speeds}.",
        )
    if plan.verdict == "do not speculate":
        return (
            "Do not draft",
            f"here. Even the best length, {row.gamma} draft token{'s' * (row.gamma > 1)} a round, is no clear gain: {speeds}.",
        )
    return "", plan.in_words


def describe_gap(plan: SpeedPlan) -> str:
    """How many predicted speeds the measurement agrees with, and the largest difference; empty where no speed was measured."""
    pairs = _pair_speeds(plan)
    if not pairs:
        return ""
    most = max(pairs, key=lambda pair: abs(pair[0].speedup.value / pair[1].value - 1.0))
    off = most[0].speedup.value / most[1].value - 1.0
    inside = sum(measured.low <= row.speedup.value <= measured.high for row, measured in pairs)
    one_sided = all((row.speedup.value > measured.value) == (off > 0.0) for row, measured in pairs)
    way = "high" if off > 0.0 else "low"
    number = f"at {most[0].gamma} draft token{'s' * (most[0].gamma > 1)}"
    how = (
        f"Every prediction is too {way}, by at most {abs(off):.0%} ({number})"
        if one_sided
        else f"The worst prediction is {abs(off):.0%} too {way} ({number})"
    )
    return f"Checked by measuring all {len(pairs)} lengths. {how}. {inside} of {len(pairs)} lie within the bars, the 95% intervals of the measurement."


def _pair_speeds(plan: SpeedPlan) -> list[tuple[PlanRow, Estimate]]:
    """Rows of the plan with the speed that was measured with the same gamma."""
    return [
        (row, one.factor) for one in plan.checked if one.factor is not None and (row := plan.find_row(one.gamma)) and row.factor
    ]


def choose_row(plan: SpeedPlan) -> PlanRow | None:
    """The row of the best gamma, or of the nearest to a gain where none pays; None without costs."""
    if plan.best is None or plan.costs is None:
        return None
    return plan.find_row(int(plan.best.value)) or max(plan.rows, key=lambda row: row.speedup.value)


DRAFT_COLUMNS = ("", "gamma", "tokens per round", "speed-up, predicted", "speed-up, measured")  # columns of ``build_draft_table``


def build_draft_table(plans: Mapping[str, SpeedPlan]) -> tuple[tuple[str, ...], list[tuple[tuple[str, ...], str]]]:
    """Drafts beside each other, each with its best gamma: columns, and rows of (cells, "").

    The last of DRAFT_COLUMNS is left out where nothing was measured. plans: name -> plan; those without costs are left out.
    """
    found: list[tuple[tuple[str, ...], str]] = []
    for name, plan in plans.items():
        if (row := choose_row(plan)) is None:
            continue
        measured = next((one.factor.format() for one in plan.checked if one.gamma == row.gamma and one.factor), "")
        found.append(((name, str(row.gamma), f"{row.tokens.value:.2f}", row.speedup.format(), measured), ""))
    shown = len(DRAFT_COLUMNS) - (not any(cells[-1] for cells, _ in found))
    return DRAFT_COLUMNS[:shown], [(cells[:shown], said) for cells, said in found]


def build_rows(plan: SpeedPlan) -> list[dict[str, object]]:
    """Every gamma as a row of a table."""
    found = []
    for row in plan.rows:
        line: dict[str, object] = {"gamma": row.gamma, "predicted": row.tokens.format(".3f"), PER_POSITION: round(row.hazards, 3),
                                   "one alpha": round(row.independent, 3), "on the text itself": None if row.own_text is None else round(row.own_text, 3), "alpha": round(row.alpha, 3)}  # fmt: skip
        measured = next((one for one in plan.checked if one.gamma == row.gamma), None)
        line["measured"] = None if measured is None else measured.tokens.format(".3f")
        line["predicted speed-up"] = None if row.factor is None else row.factor.format(".3f")
        line["measured speed-up"] = None if measured is None or measured.factor is None else measured.factor.format(".3f")
        found.append(line)
    return found


def build_published_rows() -> list[dict[str, object]]:
    """The paper's own table, as reported, beside its formula."""
    return [
        {"task": row.task, "temperature": row.temperature, "draft": row.draft, "gamma": row.gamma, "alpha": row.alpha,
         "reported": row.factor, "formula": round(row.formula, 2), "error": f"{row.error:+.0%}"}
        for row in ROWS
    ]  # fmt: skip


def add_band(figure: go.Figure, x: Sequence[float], estimates: Sequence[Estimate], name: str, kind: str) -> None:
    """A line of estimates over the band of their intervals."""
    color = getattr(MEANINGS["target"], kind)
    figure.add_scatter(x=[*x, *x[::-1]], y=[*(one.high for one in estimates), *(one.low for one in estimates[::-1])], mode="lines", fill="toself",
                       fillcolor=WASH[kind], line={"width": 0}, hoverinfo="skip", showlegend=False, name="middle 95%")  # fmt: skip
    figure.add_scatter(x=x, y=[one.value for one in estimates], mode="lines", name=name, line={"width": 2.6, "color": color},
                       hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>")  # fmt: skip


def add_line_names(figure: go.Figure, ends: Mapping[str, float], top: float, kind: str) -> None:
    """Names in the right margin, which is as wide as the longest at any width, beside the ends of lines; moved apart where they would cover each other.

    ends    name -> y where its line ends
    top     of the picture, whose height they share
    """
    margin, height, apart = figure.layout.margin, figure.layout.height, APART
    if height is not None:  # no closer than a line of text is high
        apart = max(apart, 1.15 * LETTERS / (height - (margin.t or 0) - (margin.b or 0)))
    for name, y in _spread_names(ends, apart * top).items():
        figure.add_annotation(x=1, xref="paper", y=y, xanchor="left", xshift=3, showarrow=False, text=name,
                              font={"size": LETTERS, "color": GRAY[kind]})  # fmt: skip
    figure.update_layout(margin_r=12 + round(0.58 * LETTERS * max(map(len, ends))))


def _spread_names(ends: Mapping[str, float], step: float) -> dict[str, float]:
    """Each name as near to its end as its neighbors let it: those that would cover each other stand around their common middle."""
    groups: list[list[str]] = []
    lowest = lambda group: sum(ends[name] for name in group) / len(group) - step * (len(group) - 1) / 2  # noqa: E731
    for name in sorted(ends, key=lambda name: ends[name]):
        groups.append([name])
        while len(groups) > 1 and lowest(groups[-1]) < lowest(groups[-2]) + step * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return {name: lowest(group) + step * place for group in groups for place, name in enumerate(group)}


def plot_positions(plan: SpeedPlan, kind: str = "light") -> go.Figure:
    """A point for each position, with its 95% interval, on an axis from 0 to 1."""
    figure, color, found = go.Figure(), getattr(MEANINGS["target"], kind), plan.positions
    spread = build_error_bars(found, thickness=1.6, width=5, color=color)
    places = list(range(1, len(found) + 1))
    figure.add_scatter(x=places, y=[one.value for one in found], mode="lines+markers", name="accepted", error_y=spread,
                       line={"width": 1.6, "color": color, "dash": "dot"}, marker={"size": 9, "color": color},
                       hovertemplate="position %{x}: %{y:.3f}<extra></extra>")  # fmt: skip
    frame_chart(figure, 220, "position in the round", "accepted, of those checked")
    figure.update_xaxes(tickvals=places)
    figure.update_yaxes(range=[0.0, 1.02])
    return figure


def describe_positions(plan: SpeedPlan) -> str:
    """Whether the position in the round matters."""
    first, last, number = plan.positions[0], plan.positions[-1], len(plan.positions)
    if number == 1:
        return f"Of the draft tokens checked at position 1, {first.format()} are accepted."
    low, high = (pick(plan.positions, key=lambda one: one.value) for pick in (min, max))
    span = f"{first.format()} at position 1, {last.format()} at position {number}"
    if first.low > last.high or last.low > first.high:
        return f"Later draft tokens are accepted {'less' if first.low > last.high else 'more'} often: {span}."
    if low.high < high.low:
        place, other = (1 + plan.positions.index(one) for one in (low, high))
        return f"Not steadily: the least is {low.format()} at position {place}, the most {high.format()} at position {other}."
    return f"No change with the position is seen: {span}."


def build_position_rows(plan: SpeedPlan) -> list[dict[str, object]]:
    """Every position as a row of a table."""
    return [{"position": number, "accepted, of those checked": one.format(".3f")} for number, one in enumerate(plan.positions, 1)]
