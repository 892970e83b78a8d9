"""The findings of a class as charts for print and slides: the same records as on the wall, drawn with Plotly.

The wall is HTML (wall.py): its sizes follow the projector's width, and it is drawn anew each second without a script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specviz.figures.charts import escape_label
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, GRID, LEGEND, MEANINGS
from specviz.web.classroom.room.records import RACE_METHODS
from specviz.web.classroom.room.tally import Calibration, RaceChoice, Votes
from specviz.web.classroom.room.wall import MAX_CHOICES, MIN_BIN, count_predictions

LARGEST, LEAST = 26.0, 7.0  # pixels of the largest and the smallest dot
ROW = 46  # pixels of a row of bars
HATCHED = {"shape": "/", "fillmode": "overlay", "fgcolor": "white", "size": 7}


def plot_calibration(calibration: Calibration, kind: str = "light") -> go.Figure:
    """What the class said, to the right, and min(1, p/q), upwards; larger where more said so. ``kind``: light or dark page."""
    dots = count_predictions(calibration)
    most = max(dots.values())
    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": getattr(MEANINGS["target"], kind), "width": 2.5},
                       name="predicted = min(1, p/q)", hoverinfo="skip")  # fmt: skip
    for first, ((said, truth), n) in enumerate(dots.items()):
        size = max(LEAST, LARGEST * (n / most) ** 0.5)
        figure.add_scatter(x=[said], y=[truth], mode="markers", marker={"size": size, "color": GRAY[kind], "opacity": 0.7}, name="predictions",
                           legendgroup="predictions", showlegend=not first, hovertext=f"{n} said {said:.0%}", hoverinfo="text")  # fmt: skip
    came = [(middle, share) for middle, n, share in calibration.bins if n >= MIN_BIN]
    if came:
        figure.add_scatter(x=[middle for middle, _ in came], y=[share for _, share in came], mode="markers",
                           marker={"symbol": "diamond-open", "size": 13, "color": GRAY[kind], "line": {"width": 2.5, "color": GRAY[kind]}},
                           name=f"share accepted, of {MIN_BIN} or more", hoverinfo="skip")  # fmt: skip
    figure.update_xaxes(range=[-0.04, 1.04], tickformat=".0%", title="predicted", gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(
        range=[-0.06, 1.06], tickformat=".0%", title="min(1, p/q)", gridcolor=GRID, zeroline=False, fixedrange=True
    )
    figure.update_layout(height=420, margin={"l": 8, "r": 12, "t": 34, "b": 46}, legend=LEGEND, showlegend=True, dragmode=False)
    return figure


def plot_votes(options: Sequence[Mapping[str, str]], votes: Votes, answer: int, kind: str = "light") -> go.Figure:
    """Votes before and after the discussion; the right answer is marked."""
    names = [f"{'✓ ' if place == answer else ''}{escape_label(option['name'])}" for place, option in enumerate(options)]
    rows = list(range(len(names)))[::-1]
    figure = go.Figure()
    for name, counts, shift, pattern in (
        ("before", votes.before, 0.21, HATCHED),
        ("after talking", votes.after, -0.21, {"shape": ""}),
    ):
        marker = {"color": GRAY[kind], "pattern": pattern}
        figure.add_bar(x=list(counts), y=[row + shift for row in rows], orientation="h", width=0.38, marker=marker, name=name,
                       hoverinfo="skip")  # fmt: skip
        _add_numbers(figure, counts, [row + shift for row in rows], [str(count) for count in counts], kind)
    most = max(1, *votes.before, *votes.after)
    figure.update_xaxes(range=[0, 1.15 * most], title="votes", dtick=max(1, round(most / 6)), gridcolor=GRID, zeroline=False, fixedrange=True)  # fmt: skip
    return _lay_out_rows(figure, rows, names)


def plot_race(choices: Sequence[RaceChoice], kind: str = "light") -> go.Figure:
    """Tokens per target pass of each choice, the most first; a mark where nothing is drafted."""
    shown = list(choices)[:MAX_CHOICES]
    rows = list(range(len(shown)))[::-1]
    values, blue = [one.per_pass for one in shown], getattr(MEANINGS["target"], kind)
    figure = go.Figure()
    figure.add_bar(x=values, y=rows, orientation="h", width=0.6, marker={"color": GRAY[kind]}, name="tokens per target pass",
                   hoverinfo="skip")  # fmt: skip
    _add_numbers(figure, values, rows, [f"{value:.2f}" for value in values], kind)
    marker = {"symbol": "line-ns-open", "size": 24, "line": {"width": 3, "color": blue}, "color": blue}
    figure.add_scatter(x=[1.0] * len(rows), y=rows, mode="markers", marker=marker, name="1: without drafting", hoverinfo="skip")
    figure.update_xaxes(
        range=[0, 1.15 * max(1.0, *values)], title="tokens per target pass", gridcolor=GRID, zeroline=False, fixedrange=True
    )
    return _lay_out_rows(figure, rows, [f"{RACE_METHODS[one.method]}, gamma {one.gamma}" for one in shown])


def _add_numbers(figure: go.Figure, ends: Sequence[float], places: Sequence[float], words: Sequence[str], kind: str) -> None:
    """A number after the end of each bar."""
    for end, place, text in zip(ends, places, words, strict=True):
        figure.add_annotation(
            x=end, y=place, text=text, showarrow=False, xanchor="left", xshift=6, font={"size": 13, "color": GRAY[kind]}
        )


def _lay_out_rows(figure: go.Figure, rows: Sequence[int], names: Sequence[str]) -> go.Figure:
    figure.update_yaxes(tickvals=list(rows), ticktext=list(names), range=[-0.6, max(rows) + 0.6], showgrid=False, zeroline=False, automargin=True,
                        fixedrange=True, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_layout(barmode="overlay", height=110 + ROW * len(rows), margin={"l": 8, "r": 12, "t": 34, "b": 46}, legend=LEGEND,
                         showlegend=True, dragmode=False)  # fmt: skip
    return figure
