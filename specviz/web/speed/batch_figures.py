"""Batching: speed over the number of texts, and what longer passes cost there. Plotly figures."""

from __future__ import annotations

from itertools import pairwise

from specviz.figures.charts import build_error_bars, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, INK, MEANINGS
from specviz.speed.records import gpu_costs, headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.gpu_costs import GpuCosts
from specviz.web.speed.plan_figures import add_line_names
from specviz.web.speed.round_model import RoundModel

LETTERS = 14  # px
CHECKED = gpu_costs.GAMMA  # draft tokens that the timed passes of both machines check
OWN, SERVER, LARGE = "two CPU cores", "an H200 (8B)", "8B"  # names of lines; the target of the second one in its record
DIP = "above {quick} tokens in a pass, this CPU<br>code reads the weights at full size"
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
    lowest = min(0.8, *(one.low for one in speeds)) - 0.05
    if dip := find_dip(model, batches):
        place = sizes.index(dip[0])
        lowest -= 0.2
        figure.add_annotation(x=place, y=speeds[place].low, yshift=-42, showarrow=False, text=DIP.format(quick=QUICK_TOKENS), font={"size": LETTERS - 1, "color": GRAY[kind]})  # fmt: skip
    frame_chart(figure, 320, "batch size (texts at once)", "times as fast as no draft")
    figure.update_layout(margin_t=16)
    figure.update_xaxes(tickvals=places, ticktext=[str(texts) for texts in sizes], range=ends, tickfont={"size": LETTERS}, title_font={"size": LETTERS})  # fmt: skip
    figure.update_yaxes(
        range=[lowest, max(one.high for one in speeds) + 0.1],
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


def list_pass_costs(model: RoundModel, batches: BatchSpeeds, gpu: GpuCosts | None) -> dict[str, dict[int, float]]:
    """By machine and number of texts, the time of the pass that checks CHECKED draft tokens of each text, over that of a token of each without a draft.

    The pair's machine has the costs of the lanes. gpu: With passes of LARGE over several texts; None: it has no line.
    """
    found = {OWN: {texts: model.compute_parts(CHECKED, model.c, texts).target_pass for texts in batches.rows}}
    rows = {} if gpu is None else gpu.rows.get(LARGE, {})
    there = {
        texts: rows[long] / rows[short]
        for texts in batches.rows
        if (long := f"{texts} x {CHECKED + 1}") in rows and (short := f"{texts} x 1") in rows
    }
    return found | ({SERVER: there} if there else {})


def plot_pass_costs(model: RoundModel, batches: BatchSpeeds, gpu: GpuCosts | None, kind: str = "light") -> go.Figure:
    """The times of ``list_pass_costs`` over the number of texts, a line a machine."""
    figure, sizes = go.Figure(), batches.rows
    lines = list_pass_costs(model, batches, gpu)
    ends, looks = [-0.4, len(sizes) - 0.6], ((getattr(MEANINGS["target"], kind), "circle"), (INK[kind], "square"))
    figure.add_scatter(x=ends, y=[1.0, 1.0], mode="lines", name="one token", line={"width": 1.4, "color": GRAY[kind]}, hoverinfo="skip", showlegend=False)  # fmt: skip
    for (name, costs), (color, symbol) in zip(lines.items(), looks, strict=False):
        figure.add_scatter(x=[sizes.index(texts) for texts in costs], y=[*costs.values()], mode="lines+markers", name=name, showlegend=False, hoverinfo="skip",
                           line={"width": 2.2, "color": color}, marker={"size": 8, "symbol": symbol})  # fmt: skip
    frame_chart(figure, 320, "batch size (texts at once)", f"time of a pass over {CHECKED + 1} tokens")
    figure.update_layout(margin_t=16)
    high = 1.15 * max(value for costs in lines.values() for value in costs.values())
    add_line_names(figure, {name.removeprefix("an "): costs[max(costs)] for name, costs in lines.items()}, high - 0.8, kind)
    figure.add_annotation(x=0.0, xref="paper", y=1.0, xanchor="left", xshift=3, yshift=-11, showarrow=False, text="over one token", font={"size": LETTERS, "color": GRAY[kind]})  # fmt: skip
    letters = {"tickfont": {"size": LETTERS}, "title_font": {"size": LETTERS}}
    figure.update_xaxes(tickvals=[*range(len(sizes))], ticktext=[str(texts) for texts in sizes], range=ends, **letters)
    figure.update_yaxes(range=[0.8, high], dtick=0.5, **letters)
    return figure


def describe_pass_costs(model: RoundModel, batches: BatchSpeeds, gpu: GpuCosts | None) -> str:
    """How much longer a pass takes that checks draft tokens, with one text and with the most, on each machine."""
    said = (
        f"on {name}, {costs[min(costs)] - 1.0:.0%} longer with {_count_texts(min(costs))} and {costs[max(costs)] - 1.0:.0%} with {max(costs)}"
        for name, costs in list_pass_costs(model, batches, gpu).items()
    )
    return f"A pass over {CHECKED + 1} tokens of each text takes longer than over one: {'; '.join(said)}."


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
