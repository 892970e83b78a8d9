"""How often draft tokens are accepted, over temperature and over top-p, and whether that can be predicted: pictures of the study."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from specviz.figures.charts import build_error_bars, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, MEANINGS
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.study import (
    DRAFTS,
    KINDS,
    STATISTICS,
    Study,
    StudyCell,
    average_over_kinds,
    compute_calibration,
    compute_calibration_error,
    compute_reliability,
)
from specviz.web.speed.plan_figures import PLAIN, add_band, add_line_names

TEMPERATURE, TOP_P = AXES = ("temperature", "top-p")
GROUPS = 8  # of cells, by predicted acceptance rate: a mean of each
WIDE = 1.96  # standard errors on each side of a share
LITTLE = 0.05  # change of the mean acceptance rate over a whole axis
APART = 0.15  # of an axis, between two numbers under it


def group_by_axis(study: Study, draft: str, axis: str) -> dict[float, list[StudyCell]]:
    """Measured cells of a draft by their place on one of AXES, ascending; a whole distribution has top-p 1."""
    found: dict[float, list[StudyCell]] = {}
    for cell in study.list_cells_by_temperature(draft) if axis == TEMPERATURE else study.list_cells_by_top_p(draft):
        found.setdefault(cell.temperature if axis == TEMPERATURE else cell.top_p or 1.0, []).append(cell)
    return dict(sorted(found.items()))


def group_by_kind(study: Study, draft: str, axis: str = TEMPERATURE) -> dict[str, dict[float, float]]:
    """Kind of text -> place on the axis -> acceptance rate, of one draft."""
    found: dict[str, dict[float, float]] = {}
    for place, cells in group_by_axis(study, draft, axis).items():
        for cell in cells:
            found.setdefault(cell.kind, {})[place] = cell.share
    return found


def plot_acceptance(study: Study, draft: str, axis: str, kind: str = "light") -> go.Figure:
    """Acceptance rate: a thin line for each kind of text, a thick one for their mean, with its band."""
    figure, by, over = go.Figure(), group_by_kind(study, draft, axis), compute_means(study, draft, axis)
    places = list(over)
    for name, shares in by.items():
        figure.add_scatter(x=places, y=[shares.get(x) for x in places], mode="lines", line={"width": 1.2, "color": GRAY[kind]}, opacity=0.55,
                           name=KINDS[name], showlegend=False, hovertemplate=f"{KINDS[name]}: %{{y:.2f}}<extra></extra>")  # fmt: skip
    add_band(figure, places, list(over.values()), "mean over kinds of text", kind)
    figure.data[-1].update(mode="lines+markers")
    last = places[-1]
    frame_chart(figure, 220, axis, "acceptance rate")
    add_line_names(figure, {KINDS[name]: by[name][last] for name in _choose_named_kinds(by, last)}, 1.0, kind)
    figure.update_yaxes(range=[0, 1])
    edge = 0.03 * (last - places[0])
    labels = [f"{place:g}" if place in _choose_ticks(places) else "" for place in places]
    figure.update_xaxes(tickvals=places, range=[places[0] - edge, last + edge], ticktext=labels, tickangle=0)
    return figure


def _choose_ticks(places: Sequence[float]) -> list[float]:
    """The places whose numbers do not overlap on a phone: from the last one down, each at least APART of the axis from the one before."""
    found = [places[-1]]
    for place in reversed(places[:-1]):
        if found[-1] - place >= APART * (places[-1] - places[0]) - 1e-9:
            found.append(place)
    return found


def compute_means(study: Study, draft: str, axis: str) -> dict[float, Estimate]:
    """Place on the axis -> mean share over the kinds of text, with the middle 95% over resampled kinds."""
    return {place: average_over_kinds(cells) for place, cells in group_by_axis(study, draft, axis).items()}


def _choose_named_kinds(shares_by_kind: dict[str, dict[float, float]], last: float) -> list[str]:
    """The kinds with the largest and the least share at the last place: only these are named beside their lines."""
    there = [name for name, shares in shares_by_kind.items() if last in shares]
    return sorted(
        {min(there, key=lambda name: shares_by_kind[name][last]), max(there, key=lambda name: shares_by_kind[name][last])}
    )


def describe_acceptance(study: Study, draft: str, axis: str) -> str:
    """What the picture shows: both ends of the mean, and the range over kinds of text."""
    over, places = compute_means(study, draft, axis), group_by_axis(study, draft, axis)
    (first, one), (last, two) = next(iter(over.items())), list(over.items())[-1]
    flat = [(cell, place) for place, cells in places.items() for cell in cells]
    low, high = min(flat, key=lambda pair: pair[0].share), max(flat, key=lambda pair: pair[0].share)
    change = (
        "hardly depends on" if abs(two.value - one.value) < LITTLE else "falls with" if two.value < one.value else "rises with"
    )
    return (
        f"The acceptance rate of this draft {change} {axis}: on average {one.format()} at {first:g} and {two.format()} at {last:g}. Kinds of text range from "
        f"{low[0].share:.2f} ({KINDS[low[0].kind]}, {low[1]:g}) to {high[0].share:.2f} ({KINDS[high[0].kind]}, {high[1]:g})."
    )


def plot_predictions(study: Study, draft: str, kind: str = "light") -> go.Figure:
    """Measured over predicted acceptance rate, a point for each kind of text and sampling: the prediction with intervals, the text's overlap beside."""
    cells, figure = study.list_measured((draft,)), go.Figure()
    _add_diagonal(figure)
    titles = [f"{KINDS[cell.kind]}, {describe_distribution(cell)}" for cell in cells]
    look = {"hovertemplate": "%{customdata}: predicted %{x:.3f}, measured %{y:.3f}<extra></extra>", "customdata": titles}
    figure.add_scatter(x=[cell.statistics["overlap"] for cell in cells], y=[cell.share for cell in cells], mode="markers", **look,
                       name="overlap on the text itself", marker={"size": 7, "symbol": "circle-open", "color": PLAIN})  # fmt: skip
    spread = {"type": "data", "array": [WIDE * cell.noise for cell in cells], "thickness": 1, "width": 0, "color": GRAY[kind]}
    figure.add_scatter(x=[cell.predicted for cell in cells], y=[cell.share for cell in cells], mode="markers", name="predicted", error_y=spread, **look,
                       marker={"size": 7, "symbol": "diamond", "color": getattr(MEANINGS["target"], kind)})  # fmt: skip
    groups = compute_calibration([cell.predicted for cell in cells], [cell.share for cell in cells], GROUPS)
    figure.add_scatter(x=[one[0] for one in groups], y=[one[1] for one in groups], mode="lines", name="means of eighths", hoverinfo="skip",
                       line={"width": 2, "color": getattr(MEANINGS["target"], kind)})  # fmt: skip
    return _frame_square(figure, "predicted acceptance rate", "measured acceptance rate", compute_range(cells))


def compute_range(cells: Sequence[StudyCell]) -> tuple[float, float]:
    """Tenths between which all predicted and measured rates lie: one range for both axes."""
    shares = [x for cell in cells for x in (cell.share, cell.predicted, cell.statistics["overlap"])]
    return max(0.0, floor(10 * min(shares) - 0.3) / 10), min(1.0, ceil(10 * max(shares) + 0.3) / 10)


def describe_predictions(study: Study, draft: str) -> str:
    """How near the prediction is, how near the overlap, and how many intervals hold the prediction."""
    cells = study.list_measured((draft,))
    off, plain = (
        sum(abs(value(cell) - cell.share) for cell in cells) / len(cells)
        for value in (lambda cell: cell.predicted, lambda cell: cell.statistics["overlap"])
    )
    held = sum(abs(cell.predicted - cell.share) <= WIDE * cell.noise for cell in cells)
    return (
        f"The prediction is off by {off:.3f} on average, the overlap on the text itself by {plain:.3f}. The 95% intervals of {held} of {len(cells)} "
        "measured rates hold the prediction (intervals of the measured rate only, as if checks were independent)."
    )


def plot_confidence(study: Study, draft: str, kind: str = "light") -> go.Figure:
    """How often the text has the draft's likeliest token, over the probability that the draft gives it, with intervals over kinds of text."""
    points, figure = compute_reliability(list_uncut_cells(study, draft)), go.Figure()
    _add_diagonal(figure)
    spread = build_error_bars([one.right for one in points], thickness=1.4, width=4)
    figure.add_scatter(x=[one.confidence for one in points], y=[one.right.value for one in points], mode="lines+markers", name="the draft", error_y=spread,
                       customdata=[one.places for one in points], line={"width": 2, "color": MEANINGS["draft"].light}, marker={"size": 8, "symbol": "square"},
                       hovertemplate="probability %{x:.2f}, in the text %{y:.2f}, %{customdata:,} positions<extra></extra>")  # fmt: skip
    return _frame_square(figure, "probability of the draft’s likeliest token", "how often the text has it", (0.0, 1.0))


def describe_confidence(study: Study, draft: str) -> str:
    """Whether the draft is overconfident, and by how much."""
    cells = list_uncut_cells(study, draft)
    points = compute_reliability(cells)
    if len(points) < 2:
        return (
            f"All these draft tokens have the same probability ({points[0].confidence:.2f}); the text has them {points[0].right.value:.2f} of the time."
            if points
            else "Too few positions for a point."
        )
    places = sum(one.places for one in points)
    lean = sum((one.confidence - one.right.value) * one.places for one in points) / places
    more = "overconfident" if lean > 0.0 else "underconfident"
    return (
        f"At temperature 1, over {places:,} positions in the nine kinds of text, the draft is {more} by {abs(lean):.3f} on average; its "
        f"calibration error is {compute_calibration_error(cells):.3f}. A draft token is checked against the target’s distribution, not against the text."
    )


def list_uncut_cells(study: Study, draft: str) -> list[StudyCell]:
    """Cells of a draft under the whole distribution of temperature 1."""
    return [cell for cell in study.list_cells_by_temperature(draft) if cell.temperature == 1.0]


def describe_distribution(cell: StudyCell) -> str:
    """Temperature and top-p of a cell."""
    return f"temperature {cell.temperature:g}" + ("" if cell.top_p is None else f", top-p {cell.top_p:g}")


def build_score_rows(study: Study) -> list[dict[str, object]]:
    """Every predictor as a row: its error on kinds of text that its fit had not seen."""
    return [
        {"predictor": STATISTICS.get(one.name, one.name), "mean error": round(one.error.value, 3),
         "95% interval over kinds": f"{one.error.low:.3f} to {one.error.high:.3f}", "variance explained": round(one.explained, 2)}
        for one in study.score_predictors(tuple(DRAFTS))
    ]  # fmt: skip


def build_rows(study: Study, draft: str) -> list[dict[str, object]]:
    """Every cell of a draft as a row of a table."""
    return [
        {"kind of text": KINDS[cell.kind], "temperature": cell.temperature, "top-p": cell.top_p, "checked": cell.checked, "accepted": cell.accepted,
         "acceptance rate": round(cell.share, 3), "predicted": round(cell.predicted, 3), "overlap on the text": round(cell.statistics["overlap"], 3)}
        for cell in study.list_measured((draft,))
    ]  # fmt: skip


def build_calibration_rows(study: Study, draft: str) -> list[dict[str, object]]:
    """Every point of the draft's calibration as a row."""
    return [
        {"probability": round(one.confidence, 3), "in the text": round(one.right.value, 3), "95% interval over kinds": f"{one.right.low:.3f} to {one.right.high:.3f}",
         "positions": one.places}
        for one in compute_reliability(list_uncut_cells(study, draft))
    ]  # fmt: skip


def _add_diagonal(figure: go.Figure) -> None:
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"width": 1, "dash": "dot", "color": PLAIN}, hoverinfo="skip", showlegend=False, name="equal")  # fmt: skip


def _frame_square(figure: go.Figure, x: str, y: str, ends: tuple[float, float]) -> go.Figure:
    edge = 0.02 * (ends[1] - ends[0])
    both = [ends[0] - edge, ends[1] + edge]
    frame_chart(figure, 340, x, y, xaxis_range=both, yaxis_range=both)
    return figure
