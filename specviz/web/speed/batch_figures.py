"""Batching: speed-up over the number of texts, and what longer passes cost there. Record -> Plotly figures."""

from __future__ import annotations

from specviz.figures.charts import frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import SpeedPlan
from specviz.web.speed.plan_figures import PLAIN, add_band, add_line_names

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def plot_factors(batches: BatchSpeeds, key: str, kind: str = "light") -> go.Figure:
    """Speed-up over target-only sampling, over the number of texts: each gamma, and the best of them with its band."""
    figure, places = go.Figure(), list(range(len(batches.rows)))
    lines = {gamma: [batches.estimate_factor(key, rows, gamma).value for rows in batches.rows] for gamma in batches.gammas}
    for (gamma, values), dash in zip(lines.items(), DASHES, strict=False):
        figure.add_scatter(x=places, y=values, mode="lines", name=f"gamma {gamma}", line={"width": 1.3, "dash": dash, "color": PLAIN},
                           showlegend=False, hovertemplate=f"gamma {gamma}: %{{y:.2f}}<extra></extra>")  # fmt: skip
    best = [batches.find_best(key, rows)[1] for rows in batches.rows]
    add_band(figure, places, best, "the best gamma", kind)
    ends = [-0.15, places[-1] + 0.15]
    figure.add_scatter(x=ends, y=[1.0, 1.0], mode="lines", name="target-only sampling", line={"width": 1.2, "color": GRAY[kind]},
                       hoverinfo="skip")  # fmt: skip
    frame_chart(figure, 340, "texts at once", "speed-up over target-only")
    add_line_names(figure, {f"gamma {gamma}": values[-1] for gamma, values in lines.items()}, max(one.high for one in best), kind)
    figure.update_xaxes(tickvals=places, ticktext=[str(rows) for rows in batches.rows], range=ends)
    return figure


def plot_pass_costs(batches: BatchSpeeds, kind: str = "light") -> go.Figure:
    """Cost of a pass over more tokens of every text, in passes over one of each: a line for each number of texts."""
    figure, sizes = go.Figure(), [1, *(gamma + 1 for gamma in batches.gammas)]
    figure.add_scatter(x=sizes, y=sizes, mode="lines", name="as slow as one by one", line={"width": 1.2, "dash": "dot", "color": PLAIN},
                       hoverinfo="skip")  # fmt: skip
    lines = {
        _count_texts(rows): [1.0, *(batches.estimate_cost(rows, gamma).value for gamma in batches.gammas)]
        for rows in batches.rows
    }
    for place, (name, values) in enumerate(lines.items()):
        line = {"width": 1.0 + 0.25 * place, "color": GRAY[kind], "dash": "solid" if place else "dash"}
        figure.add_scatter(x=sizes, y=values, mode="lines", name=name, showlegend=False, line=line,
                           hovertemplate=f"{name}: %{{y:.2f}} passes<extra></extra>")  # fmt: skip
    frame_chart(figure, 340, "tokens of each text in a pass, gamma + 1", "cost, in one-token passes")
    values = [value for line in lines.values() for value in line]
    low, high = (
        0.9 * min(values),
        1.25 * max(values),
    )  # the dotted line leaves the picture: with all of it the others would lie on each other
    add_line_names(figure, {name: line[-1] for name, line in lines.items()}, high - low, kind)
    figure.update_xaxes(tickvals=sizes, range=[0.8, sizes[-1] + 0.2])
    figure.update_yaxes(range=[low, high])
    return figure


def describe_pass_costs(batches: BatchSpeeds) -> str:
    """What the longest and a short pass cost, on one text and on the most."""
    short, long = batches.gammas[min(1, len(batches.gammas) - 1)], batches.gammas[-1]
    one, many = batches.rows[0], batches.rows[-1]
    cost = {(rows, gamma): f"{batches.estimate_cost(rows, gamma).value:.2f}" for rows in (one, many) for gamma in (short, long)}
    return (
        f"With {_count_texts(one)}, a pass over {short + 1} tokens takes {cost[one, short]} times as long as over one, and over {long + 1} tokens "
        f"{cost[one, long]}. With {_count_texts(many)}, it takes {cost[many, short]} and {cost[many, long]} times as long. Batching uses compute "
        "that one text leaves idle."
    )


def build_rows(batches: BatchSpeeds, key: str) -> list[dict[str, object]]:
    """Every number of texts and every gamma as a row."""
    return [
        {"texts": count, "gamma": gamma, "speed-up": batches.estimate_factor(key, count, gamma).format(".3f"),
         "cost, in passes over one token": batches.estimate_cost(count, gamma).format(".3f"), "tokens per target pass": round(batches.estimate_tokens(key, gamma).value, 3)}
        for count in batches.rows
        for gamma in batches.gammas
    ]  # fmt: skip


def compare_with_plan(batches: BatchSpeeds, key: str, plan: SpeedPlan | None) -> str:
    """Why the speed-up of one text is another one than in the plan of the same rounds, from the costs of both; empty without both."""
    gamma, here = batches.find_best(key, batches.rows[0])
    row = plan.row(gamma) if plan else None
    if plan is None or plan.costs is None or row is None or row.factor is None or batches.rows[0] != 1:
        return ""
    return (
        f"For one text and gamma {gamma} this chart says {here.value:.2f}, the prediction above {row.factor.value:.2f}: two measurements. Here a round "
        f"took {batches.round_cost(1, gamma):.2f} target passes, with {batches.cached_tokens} tokens in the cache, at {batches.estimate_tokens(key, gamma).value:.2f} tokens per pass; "
        f"above it took {plan.costs.compute_cost(gamma):.2f}, at {row.tokens.value:.2f} tokens per pass."
    )


def _count_texts(rows: int) -> str:
    return "one text" if rows == 1 else f"{rows} texts"
