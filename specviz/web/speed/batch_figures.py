"""Batching: speed over the number of texts, and what longer passes cost there. Plotly figures."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.figures.charts import frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, INK, MEANINGS
from specviz.speed.records.batches import BatchSpeeds
from specviz.web.speed.plan_figures import PLAIN, add_line_names
from specviz.web.speed.round_model import RoundModel

LETTERS = 14  # px


def plot_model_speeds(model: RoundModel, sizes: Sequence[int], kind: str = "light") -> go.Figure:
    """The speed where the sliders begin, for every number of texts, each with its best number of draft tokens. Every point has its number."""
    places, blue = list(range(len(sizes))), getattr(MEANINGS["target"], kind)
    speeds = [model.find_best_gamma(model.alpha, model.c, texts)[1] for texts in sizes]
    figure, ends = go.Figure(), [-0.4, places[-1] + 0.4]
    figure.add_scatter(x=ends, y=[1.0, 1.0], mode="lines", name="target only", line={"width": 1.4, "color": GRAY[kind]}, hoverinfo="skip", showlegend=False)  # fmt: skip
    figure.add_scatter(x=places, y=speeds, mode="lines+markers", name="with a draft", line={"width": 2.6, "color": blue},
                       marker={"size": 9, "color": blue}, hoverinfo="skip", showlegend=False)  # fmt: skip
    for place, speed in zip(places, speeds, strict=True):
        figure.add_annotation(x=place, y=speed, text=f"<b>{speed:.2f}</b>", showarrow=False, yshift=14 if speed >= 1.0 else -14,
                              font={"size": LETTERS, "color": INK[kind]})  # fmt: skip
    figure.add_annotation(x=0.0, xref="paper", y=1.0, xanchor="left", xshift=3, yshift=-11, showarrow=False, text="target only", font={"size": LETTERS, "color": GRAY[kind]})  # fmt: skip
    frame_chart(figure, 320, "texts at once", "times as fast as target only")
    figure.update_xaxes(tickvals=places, ticktext=[str(texts) for texts in sizes], range=ends, tickfont={"size": LETTERS}, title_font={"size": LETTERS})  # fmt: skip
    figure.update_yaxes(
        range=[min(0.8, *speeds) - 0.05, max(speeds) + 0.12], tickfont={"size": LETTERS}, title_font={"size": LETTERS}
    )
    return figure


def plot_pass_costs(batches: BatchSpeeds, kind: str = "light") -> go.Figure:
    """Cost of a pass over more tokens of every text, in passes over one of each: with the fewest, a middle number and the most texts."""
    figure, sizes = go.Figure(), [1, *(gamma + 1 for gamma in batches.gammas)]
    figure.add_scatter(x=sizes, y=sizes, mode="lines", name="as slow as one by one", line={"width": 1.2, "dash": "dot", "color": PLAIN},
                       hoverinfo="skip")  # fmt: skip
    lines = {
        _count_texts(rows): [1.0, *(batches.estimate_cost(rows, gamma).value for gamma in batches.gammas)]
        for rows in dict.fromkeys((batches.rows[0], batches.rows[len(batches.rows) // 2], batches.rows[-1]))
    }
    for (name, values), dash in zip(lines.items(), ("solid", "dash", "dashdot"), strict=False):
        line = {"width": 2.0, "color": GRAY[kind], "dash": dash}
        figure.add_scatter(x=sizes, y=values, mode="lines", name=name, showlegend=False, line=line,
                           hovertemplate=f"{name}: %{{y:.2f}} passes<extra></extra>")  # fmt: skip
    frame_chart(figure, 300, "tokens of each text in a pass, gamma + 1", "cost, in one-token passes")
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


def _count_texts(rows: int) -> str:
    return "one text" if rows == 1 else f"{rows} texts"
