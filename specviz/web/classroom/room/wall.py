"""Pictures of the wall of a room as HTML, read at ten meters and drawn anew each second: records in, text out.

Everything has a size in ``--u``, a 1,920th of the wall's width (assets/components/classroom/wall.css), so that words and bars keep their proportions
on every projector. Texts of models and people are escaped here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from specviz.evidence.testing.results import CellShares
from specviz.figures.charts import shorten_label
from specviz.figures.numbers import format_probability
from specviz.web.classroom.room.records import RACE_METHODS
from specviz.web.classroom.room.tally import Calibration, RaceChoice, Votes

MAX_CELLS, MAX_CHOICES, MAX_NAME = 12, 10, 22  # rows of a histogram; of a race; characters of a row's name
POSITIONS = 20  # on an axis of probabilities, at which predictions are drawn together
MIN_BIN = 5  # predictions of a tenth whose outcomes are drawn
TICK_STEPS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)  # between ticks of an axis of shares
MAX_TICKS = 6  # of an axis
MIN_ROW, MAX_ROW, FULL_HEIGHT = 43, 150, 560  # of the bars of a row, and of all rows, in --u
MAX_DOT = 64  # size of the largest dot, in --u


def draw_histogram(shares: CellShares) -> str:
    """The samples over the exact distribution: share, mark of the exact probability, band of sampling noise; the other cells in a line."""
    places = describe_bars(shares)
    end = min(1.05, max((max(1.35 * shares.probs[place], 1.05 * shares.shares[place]) for place in places), default=1.0))
    rows = []
    for place in places:
        low, high = (min(end, edge[place]) for edge in (shares.low, shares.high))
        band = _build_bar("band", low / end, (high - low) / end) if shares.n else ""
        bars = band + _build_bar("share", 0.0, shares.shares[place] / end) + _build_mark(shares.probs[place] / end)
        rows.append((shorten_label(shares.labels[place], MAX_NAME), bars))
    step = next((step for step in TICK_STEPS if end / step <= MAX_TICKS), 0.5)
    ticks = [(place * step / end, f"{place * step:.4g}") for place in range(int(end / step) + 1)]
    ticks = [(where, f"{100 * float(value):g}%") for where, value in ticks]
    key = _build_key(("share", "share of the samples"), ("exact", "exact distribution"), ("band", "sampling noise, 99%"))
    rest = f'<p class="wall-rest">{escape(sum_others(shares, places))}</p>'
    return _build_chart(shares.conclusion, key + _build_rows(rows) + _build_axis(ticks, "share of all samples") + rest)


def describe_bars(shares: CellShares) -> list[int]:
    """Cells that get a row, heaviest first: the ones farthest outside sampling noise, however rare they should be, then the heaviest."""
    far = [place for place in shares.bars if shares.n and not shares.low[place] <= shares.shares[place] <= shares.high[place]]
    far.sort(key=lambda place: -abs(shares.shares[place] - shares.probs[place]))
    kept = set([*far[:MAX_CELLS], *(place for place in shares.bars if place not in far)][:MAX_CELLS])
    return [place for place in shares.bars if place in kept]


def sum_others(shares: CellShares, places: Sequence[int]) -> str:
    """What the cells without a row hold together."""
    rest = set(range(len(shares.probs))) - set(places)
    if not rest:
        return ""
    exact = f"{sum(shares.probs[place] for place in rest):.1%}"
    share = f"{sum(shares.shares[place] for place in rest):.1%} of the samples, exact " if shares.n else "exact "
    return f"All other texts together: {share}{exact}."


def draw_text(text: str, token: str) -> str:
    """A text with the draft token that follows it marked."""
    return f'<p class="wall-text">{escape(text)}<mark>{escape(token)}</mark></p>'


def draw_situation(content: Mapping[str, Any]) -> str:
    """Both distributions at the draft token of a prediction, with its q and p: a class is to say what follows from them."""
    end = 1.25 * max(1e-9, *(row[letter] for row in content["bars"] for letter in "pq"))  # with room for the numbers
    rows = [
        (shorten_label(row["token"], MAX_NAME),
         "".join(_build_bar(f"{name} {side}", 0.0, row[letter] / end)
                 + (_build_value(side, row[letter] / end, f"{letter} = {format_probability(row[letter])}") if row["token"] == content["token"] else "")
                 for name, side, letter in (("target", "upper", "p"), ("draft", "lower", "q"))),
         row["token"] == content["token"])
        for row in content["bars"]
    ]  # fmt: skip
    key = _build_key(("target", "target p"), ("draft", "draft q"))
    return _build_chart(
        f"Both distributions of the next token. Of the draft token: q = {format_probability(content['q'])}, p = {format_probability(content['p'])}.",
        key + _build_rows(rows, "two"),
    )


def count_predictions(calibration: Calibration) -> dict[tuple[float, float], int]:
    """How many predictions a dot stands for: (predicted, min(1, p/q)), the first rounded to POSITIONS places, in order."""
    return dict(sorted(Counter((round(said * POSITIONS) / POSITIONS, truth) for said, truth in calibration.points).items()))


def draw_calibration(calibration: Calibration) -> str:
    """What the class said, to the right, and min(1, p/q), upwards; larger where more said so. Who is right stands on the diagonal."""
    dots = count_predictions(calibration)
    most = max(dots.values())
    inside = [_build_dot("said", said, truth, MAX_DOT * (n / most) ** 0.5) for (said, truth), n in dots.items()]
    inside += [_build_dot("came", middle, share, 30) for middle, n, share in calibration.bins if n >= MIN_BIN]
    came = [("came", f"share accepted, of {MIN_BIN} or more")] if any(n >= MIN_BIN for _, n, _ in calibration.bins) else []
    key = _build_key(("said", "predictions"), *came, ("line", "predicted = min(1, p/q)"))
    ticks = "".join(f'<i style="bottom:{place}%">{place}%</i>' for place in (0, 50, 100))
    across = _build_axis([(place / 4, f"{25 * place}%") for place in range(5)], "across: predicted; upwards: min(1, p/q)")
    alt = (
        f"{calibration.n} predictions, on average {calibration.predicted:.0%}; min(1, p/q) is {calibration.truth:.0%} on average."
    )
    return _build_chart(
        alt,
        f'{key}<div class="square"><div class="ticks">{ticks}</div><div class="plane">{"".join(inside)}</div></div>{across}',
        "calibration",
    )


def draw_votes(options: Sequence[Mapping[str, str]], votes: Votes, answer: int) -> str:
    """Votes before and after the discussion; the right answer is marked."""
    end = 1.12 * max(1, *votes.before, *votes.after)
    rows = [
        (f"{'✓ ' if place == answer else ''}{option['name']}",
         "".join(_build_bar(f"{name} {side}", 0.0, counts[place] / end) + _build_value(side, counts[place] / end, f"{counts[place]}")
                 for name, side, counts in (("before", "upper", votes.before), ("after", "lower", votes.after))),
         place == answer)
        for place, option in enumerate(options)
    ]  # fmt: skip
    said = "; ".join(
        f"{option['name']}: {a} before, {b} after" for option, a, b in zip(options, votes.before, votes.after, strict=True)
    )
    return _build_chart(said, _build_key(("before", "before"), ("after", "after talking")) + _build_rows(rows, "two wide"))


def draw_race(choices: Sequence[RaceChoice]) -> str:
    """Tokens per target pass of each choice, the most first; a line where nothing is drafted. Before the first choice: what can be chosen."""
    shown = list(choices)[:MAX_CHOICES]
    end = 1.5 * max([1.0, *(row.per_pass for row in shown)])
    rows = [
        (f"{RACE_METHODS[row.method]}, γ = {row.gamma}",
         _build_bar("share", 0.0, row.per_pass / end) + _build_mark(1.0 / end)
         + _build_value("", row.per_pass / end, f"{row.per_pass:.2f}" + (f" · {row.students} students" if row.students > 1 else "")))
        for row in shown
    ]  # fmt: skip
    if not shown:
        rows = [(name, _build_mark(1.0 / end)) for name in RACE_METHODS.values()]
    said = "; ".join(f"{RACE_METHODS[row.method]}, gamma {row.gamma}: {row.per_pass:.2f}" for row in shown)
    return _build_chart(
        said or ", ".join(RACE_METHODS.values()),
        _build_key(("share", "tokens per target pass"), ("exact", "1: without drafting")) + _build_rows(rows, "wide"),
    )


# Parts -----------------------------------------------------------------------------------------------------------------------


def _build_chart(alt: str, inside: str, kind: str = "") -> str:
    return f'<div class="wall-chart {kind}" role="img" aria-label="{escape(alt)}">{inside}</div>'


def _build_key(*entries: tuple[str, str]) -> str:
    return '<p class="wall-key">' + "".join(f'<span><i class="{name}"></i>{words}</span>' for name, words in entries) + "</p>"


def _build_rows(rows: Iterable[tuple], kind: str = "") -> str:
    """(name, bars) or (name, bars, whether the name is marked) each. Few rows are taller, so that they fill the wall."""
    rows = list(rows)
    least = MIN_ROW * (2 if "two" in kind else 1)
    height = min(MAX_ROW, max(least, FULL_HEIGHT / max(1, len(rows))))
    made = "".join(
        f'<div class="row"><span class="name{" asked" if marked and marked[0] else ""}">{escape(name)}</span><span class="track">{bars}</span></div>'
        for name, bars, *marked in rows
    )
    return f'<div class="wall-rows {kind}" style="--row:{height:.0f}">{made}</div>'


def _build_axis(ticks: Iterable[tuple[float, str]], title: str) -> str:
    made = "".join(f'<i style="left:{_format_share(where)}">{words}</i>' for where, words in ticks)
    return f'<div class="wall-axis"><div>{made}</div><p>{escape(title)}</p></div>'


def _build_bar(name: str, left: float, width: float) -> str:
    return f'<i class="{name}" style="left:{_format_share(left)};width:{_format_share(width)}"></i>'


def _build_mark(left: float) -> str:
    return f'<i class="exact" style="left:{_format_share(left)}"></i>'


def _build_value(side: str, left: float, words: str) -> str:
    return f'<b class="{side}" style="left:{_format_share(left)}">{words}</b>'


def _build_dot(name: str, x: float, y: float, size: float) -> str:
    return f'<i class="{name}" style="left:{_format_share(x)};bottom:{_format_share(y)};--size:{size:.1f}"></i>'


def _format_share(x: float) -> str:
    return f"{100 * min(1.0, max(0.0, x)):.2f}%"
