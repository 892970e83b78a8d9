"""Batching: speed over the number of texts, and what longer passes cost there. Plotly figures."""

from __future__ import annotations

from itertools import pairwise

from specviz.figures.charts import build_error_bars, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, INK, MEANINGS
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.estimate import Estimate
from specviz.web.speed.plan_figures import PLAIN, add_line_names
from specviz.web.speed.round_model import RoundModel

LETTERS = 14  # px
QUICK_TOKENS = 8  # over all texts, up to which a pass reads weights in half the bytes: HALVED of models/fast_llama/products.py, which needs torch


def estimate_speeds(model: RoundModel, batches: BatchSpeeds) -> list[Estimate]:
    """The speed where the sliders begin, for every number of texts, each with its best number of draft tokens.

    The interval of one text is the benchmark's. That of more is the record's at the same number of draft tokens, or the nearest timed
    one, in proportion: texts and runs are resampled.
    """
    found = []
    for texts in batches.rows:
        gamma, speed = model.find_best_gamma(model.alpha, model.c, texts)
        record = headline.get_speed("1")
        if texts > 1:
            timed = min(batches.gammas, key=lambda one: abs(one - gamma))
            record = batches.estimate_factor(f"{batches.settings.pair} 1", texts, timed)
        found.append(
            Estimate(speed, speed * record.low / record.value, speed * record.high / record.value, batches.runs, "times")
        )
    return found


def plot_model_speeds(model: RoundModel, batches: BatchSpeeds, kind: str = "light") -> go.Figure:
    """The speeds of ``estimate_speeds`` with their intervals. Every point has its number."""
    sizes, speeds = batches.rows, estimate_speeds(model, batches)
    places, blue = list(range(len(sizes))), getattr(MEANINGS["target"], kind)
    figure, ends = go.Figure(), [-0.4, places[-1] + 0.4]
    figure.add_scatter(x=ends, y=[1.0, 1.0], mode="lines", name="target only", line={"width": 1.4, "color": GRAY[kind]}, hoverinfo="skip", showlegend=False)  # fmt: skip
    figure.add_scatter(x=places, y=[one.value for one in speeds], mode="lines+markers", name="with a draft", line={"width": 2.6, "color": blue},
                       error_y=build_error_bars(speeds, thickness=1.6, width=5, color=blue), marker={"size": 10, "color": blue, "symbol": "circle-open", "line": {"width": 2.4}}, hoverinfo="skip", showlegend=False)  # fmt: skip
    measured = [(place, one.value) for place, texts, one in zip(places, sizes, speeds, strict=True) if texts == 1]
    figure.add_scatter(x=[place for place, _ in measured], y=[speed for _, speed in measured], mode="markers", name="measured",
                       marker={"size": 11, "color": blue}, hoverinfo="skip", showlegend=False)  # fmt: skip
    for place, texts, one in zip(places, sizes, speeds, strict=True):
        above = one.value >= 1.0
        figure.add_annotation(x=place, y=one.high if above else one.low, text=f"<b>{one.value:.2f}</b>", showarrow=False, xshift=12 if texts == 2 else 0,
                              yshift=12 if above else -12, font={"size": LETTERS, "color": INK[kind]})  # fmt: skip
    figure.add_annotation(x=0.0, xref="paper", y=1.0, xanchor="left", xshift=3, yshift=-11, showarrow=False, text="no draft", font={"size": LETTERS, "color": GRAY[kind]})  # fmt: skip
    frame_chart(figure, 320, "batch size (texts at once)", "times as fast as no draft")
    figure.update_layout(margin_t=16)
    figure.update_xaxes(tickvals=places, ticktext=[str(texts) for texts in sizes], range=ends, tickfont={"size": LETTERS}, title_font={"size": LETTERS})  # fmt: skip
    figure.update_yaxes(
        range=[min(0.8, *(one.low for one in speeds)) - 0.05, max(one.high for one in speeds) + 0.1],
        tickfont={"size": LETTERS},
        title_font={"size": LETTERS},
    )
    return figure


def find_dip(model: RoundModel, batches: BatchSpeeds) -> tuple[int, int] | None:
    """Numbers of texts between which the speed rises beyond both intervals, because only the smaller one alone has quick passes; None: there are none."""
    for (few, before), (many, after) in pairwise(zip(batches.rows, estimate_speeds(model, batches), strict=True)):
        if after.low > before.high and few <= QUICK_TOKENS < min(2 * few, many):
            return few, many
    return None


def plot_pass_costs(batches: BatchSpeeds, kind: str = "light") -> go.Figure:
    """Time of a pass over more tokens of every text, with the fewest and with the most texts, over that of a pass over one token of each."""
    figure, sizes = go.Figure(), [1, *(gamma + 1 for gamma in batches.gammas)]
    figure.add_scatter(x=sizes, y=sizes, mode="lines", name="if each token took a full pass", line={"width": 1.2, "dash": "dot", "color": PLAIN},
                       hoverinfo="skip", showlegend=False)  # fmt: skip
    most = {_count_texts(rows): rows for rows in (batches.rows[0], batches.rows[-1])}
    lines = {name: [1.0, *(batches.estimate_cost(rows, gamma).value for gamma in batches.gammas)] for name, rows in most.items()}
    looks = ((getattr(MEANINGS["target"], kind), "circle"), (INK[kind], "square"))
    for (name, values), (color, symbol) in zip(lines.items(), looks, strict=False):
        quick = sum(most[name] * size <= QUICK_TOKENS for size in sizes)  # of the passes that were timed, the shortest ones
        x, y = list[float](sizes), list[float | None](values)
        if 0 < quick < len(sizes):  # the time jumps between two passes that were timed: no solid line, and why
            ends = slice(quick - 1, quick + 1)
            figure.add_scatter(x=sizes[ends], y=values[ends], mode="lines", name=f"{name}, the jump", showlegend=False, hoverinfo="skip",
                               line={"width": 2.2, "color": color, "dash": "dot"})  # fmt: skip
            figure.add_shape(type="line", x0=QUICK_TOKENS / most[name] + 0.5, x1=QUICK_TOKENS / most[name] + 0.5, y0=1.0, y1=values[quick], layer="below", line={"width": 1, "color": GRAY[kind]})  # fmt: skip
            figure.add_annotation(x=QUICK_TOKENS / most[name] + 0.5, y=0.95, xanchor="right", yanchor="top", xshift=28, yshift=3, showarrow=False,
                                  text=f"over {QUICK_TOKENS}: weights in twice the bytes", font={"size": LETTERS - 1, "color": GRAY[kind]})  # fmt: skip
            x.insert(quick, (sizes[quick - 1] + sizes[quick]) / 2)
            y.insert(quick, None)
        figure.add_scatter(x=x, y=y, mode="lines+markers", name=name, showlegend=False, line={"width": 2.2, "color": color},
                           marker={"size": 8, "symbol": symbol}, hovertemplate=f"{name}: %{{y:.2f}} passes<extra></extra>")  # fmt: skip
    frame_chart(figure, 320, "tokens of each text in a pass", "time of a pass (1: one token)")
    figure.update_layout(margin_t=16)
    values = [value for line in lines.values() for value in line]
    low, high = (
        0.7 * min(values),
        1.15 * max(values),
    )  # the dotted line leaves the picture: with all of it the others would lie on each other
    add_line_names(figure, {name: line[-1] for name, line in lines.items()}, high - low, kind)
    figure.add_annotation(x=high, y=high, xanchor="left", yanchor="top", xshift=6, showarrow=False, align="left", text="if each token<br>took a full pass",
                          font={"size": LETTERS - 1, "color": GRAY[kind]})  # fmt: skip
    letters = {"tickfont": {"size": LETTERS}, "title_font": {"size": LETTERS}}
    figure.update_xaxes(tickvals=list(range(1, sizes[-1] + 1)), range=[0.8, sizes[-1] + 0.2], **letters)
    figure.update_yaxes(range=[low, high], dtick=1, **letters)
    return figure


def describe_pass_costs(batches: BatchSpeeds) -> str:
    """What a pass over a few tokens costs, on one text and on the most."""
    gamma, one, many = batches.gammas[min(2, len(batches.gammas) - 1)], batches.rows[0], batches.rows[-1]
    few, most = (f"{batches.estimate_cost(rows, gamma).value - 1.0:.0%}" for rows in (one, many))
    return (
        f"With {_count_texts(one)}, a pass over {gamma + 1} tokens takes {few} longer than a pass over one{_relate_to_round(gamma)}. With {_count_texts(many)}, "
        f"a pass over {gamma + 1} tokens of each takes {most} longer: one token of each already keeps the processor busy."
    )


def _relate_to_round(gamma: int) -> str:
    """Why the round at the top of the page has another time for the same pass; empty for a pass over other numbers of tokens."""
    if gamma != headline.load_headline().gamma:
        return ""
    time = headline.get_round("1").target_pass
    return f" (the {time:.2f} at the top was timed within rounds and divided by a token’s whole time, sampling included)"


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
