"""Each drafting method as a small drawing: the text, who drafts, and the draft tokens. SVG as markup, from our own shapes alone.

One grammar for all: a gray bar is the text so far, an orange square a draft token, blue the target, a line leads from a token to the
next. Each is a picture by itself (an ``img`` of a data address), because Streamlit takes no SVG in its markup. So its colors are the
same on light and dark pages.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from specviz.figures.common.theme import MEANINGS
from specviz.measure.methods import MethodComparison

KEY = "Gray bar: the text so far. Orange squares: draft tokens. Blue: the target."
WIDTH, HEIGHT, SIDE = 132, 44, 10
GRAY, DARK = "#808c9b", "#1d2733"  # legible on both pages; on the orange of a token
DRAFT, TARGET = MEANINGS["draft"].light, MEANINGS["target"].light
LOOKS = {  # class -> how it is painted
    "draft": f'fill="{DRAFT}"',
    "target": f'fill="{TARGET}"',
    "text": f'fill="{GRAY}" fill-opacity="0.6"',
    "probs": f'fill="{DRAFT}"',
    "dot": f'fill="{DARK}"',
    "way": f'fill="none" stroke="{GRAY}" stroke-width="1.3"',
    "frame": f'fill="none" stroke="{GRAY}" stroke-width="1.3" stroke-dasharray="3 2"',
    "copied": f'fill="none" stroke="{DRAFT}" stroke-width="1.6"',
    "book": f'fill="none" stroke="{DRAFT}" stroke-width="1.3"',
    "tick": f'fill="none" stroke="{DARK}" stroke-width="1.8"',
    "ghost": f'fill="none" stroke="{TARGET}" stroke-width="1.2"',
}
MIDDLE = HEIGHT / 2
FIRST, STEP = 58.0, 20.0  # center of the first draft token, and from one depth to the next
TEXT_END = 34.0


def square(x: float, y: float, kind: str = "draft", side: float = SIDE) -> str:
    half = side / 2
    return f'<rect class="{kind}" x="{x - half:g}" y="{y - half:g}" width="{side:g}" height="{side:g}" rx="{side / 4:g}"/>'


def line(x: float, y: float, to_x: float, to_y: float, kind: str = "way") -> str:
    return f'<path class="{kind}" d="M{x:g} {y:g} L{to_x:g} {to_y:g}"/>'


def arc(x: float, y: float, to_x: float, to_y: float, lift: float, kind: str = "way") -> str:
    return f'<path class="{kind}" d="M{x:g} {y:g} Q{(x + to_x) / 2:g} {min(y, to_y) - lift:g} {to_x:g} {to_y:g}"/>'


def frame(x: float, y: float, wide: float, high: float, kind: str = "frame") -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="4"/>'


def text(kind: str = "text") -> str:
    return f'<rect class="{kind}" x="2" y="{MIDDLE - 3:g}" width="{TEXT_END - 2:g}" height="6" rx="3"/>'


def chain(count: int = 4, y: float = MIDDLE, kind: str = "draft", begin: float = TEXT_END) -> str:
    """Tokens one after the other, the first of them after the text."""
    places = [FIRST + STEP * number for number in range(count)]
    half = SIDE / 2
    lines = [line(begin, MIDDLE, places[0] - half, y)] + [line(a + half, y, b - half, y) for a, b in pairwise(places)]
    return "".join([*lines, *(square(x, y, kind) for x in places)])


def tree(rows: Sequence[Sequence[float]], parents: Sequence[Sequence[int]], side: float = SIDE) -> str:
    """Tokens by depth, at these heights; parents: of each, the place in the depth before."""
    half, lines = side / 2, []
    for depth, ys in enumerate(rows):
        x = FIRST + STEP * depth
        for place, y in enumerate(ys):
            start = (TEXT_END, MIDDLE) if depth == 0 else (x - STEP + half, rows[depth - 1][parents[depth][place]])
            lines.append(line(*start, x - half, y))
    return "".join([*lines, *(square(FIRST + STEP * depth, y, side=side) for depth, ys in enumerate(rows) for y in ys)])


def bars(heights: Sequence[float]) -> str:
    """A distribution that needs no model, above the text."""
    return "".join(
        f'<rect class="probs" x="{5 + 6 * number}" y="{16 - height:g}" width="4" height="{height:g}"/>'
        for number, height in enumerate(heights)
    )


SIX = (4.5, 11.5, 18.5, 25.5, 32.5, 39.5)
WIDE = tree(((8.0, 22.0, 36.0), SIX, SIX), ((), (0, 0, 1, 1, 2, 2), (0, 1, 2, 3, 4, 5)), side=6)
SMALL = tree(((12.0, 32.0),), ((),))
HEADS = "".join(arc(30, MIDDLE - 6, FIRST + STEP * depth, MIDDLE - 6, 8 + 5 * depth) for depth in range(3))
DEPTHS = "".join(square(FIRST + STEP * depth, MIDDLE) for depth in range(3))
OWN_STATE = '<rect class="target" x="24" y="14" width="12" height="16" rx="2.5"/>'  # of the target, at the end of the text
FEEDS = "".join(arc(FIRST + STEP * depth, MIDDLE - 5, FIRST + STEP * (depth + 1), MIDDLE - 5, 12) for depth in range(3))
LAYERS = "".join(
    f'<rect class="{"draft" if number > 2 else "target"}" x="8" y="{5 + 7 * number}" width="24" height="5" rx="1.5"/>'
    for number in range(5)
)
WINDOW = "".join(
    square(FIRST + STEP * n, 6, "ghost", 7) + line(FIRST + STEP * n, 10, FIRST + STEP * n, MIDDLE - 6) for n in range(3)
)
BOOK = '<path class="book" d="M4 1 h12 v14 h-12 z M18 1 h12 v14 h-12 z M7 5 h6 M7 9 h6 M21 5 h6 M21 9 h6"/>'
TICKS = "".join(
    f'<path class="tick" d="M{FIRST + STEP * n - 3:g} {MIDDLE:g} l2.4 2.8 l4 -5.4"/>' for n in range(4)
)  # every token passes

DRAWINGS: dict[str, Callable[[], str]] = {
    "target": lambda: text() + line(TEXT_END, MIDDLE, FIRST - 5, MIDDLE) + square(FIRST, MIDDLE, "target"),
    "draft": lambda: text() + chain(),
    "block": lambda: text() + frame(FIRST - 10, MIDDLE - 11, 3 * STEP + 20, 22) + chain(),
    "tree-top": lambda: text() + SMALL,
    "tree": lambda: text() + SMALL + "".join(f'<circle class="dot" cx="{FIRST:g}" cy="{y:g}" r="1.8"/>' for y in (12.0, 32.0)),
    "tree-wide": lambda: text() + WIDE,
    "several": lambda: text() + chain(3, 12.0) + chain(3, 32.0),
    "several-kseq": lambda: text() + frame(FIRST - 9, 3, 18, 38) + chain(3, 12.0) + chain(3, 32.0),
    "medusa": lambda: text() + OWN_STATE + HEADS + DEPTHS,
    "medusa-wide": lambda: text() + OWN_STATE + WIDE,
    "eagle": lambda: text() + OWN_STATE + FEEDS + chain(),
    "eagle-wide": lambda: text() + OWN_STATE + arc(30, 14, FIRST, 4, 4) + WIDE,
    "early-exit": lambda: LAYERS + line(TEXT_END, 30, FIRST - 5, 30) + square(FIRST, 30),
    "lookahead": lambda: text() + OWN_STATE + WINDOW + chain(3),
    "ngram": lambda: text() + frame(8, MIDDLE - 6, 14, 12, "copied") + arc(15, MIDDLE - 6, FIRST + STEP, MIDDLE - 6, 16) + chain(3),
    "retrieval": lambda: text() + BOOK + arc(31, 6, FIRST, MIDDLE - 6, 2) + chain(3),
    "unigram": lambda: text() + bars((14, 9, 6, 4, 2)) + chain(3),
    "uniform": lambda: text() + bars((6, 6, 6, 6, 6)) + chain(3),
    "adversarial": lambda: text() + bars((2, 4, 6, 9, 14)) + chain(3),
    "oracle": lambda: text() + chain(kind="target"),
    "typical": lambda: text() + chain() + TICKS,
}  # fmt: skip


def drawing(key: str) -> str:
    """The drawing of a method as SVG; its sentence stands beside it, so it says nothing by itself."""
    shapes = DRAWINGS[key]()
    for name, look in LOOKS.items():
        shapes = shapes.replace(f'class="{name}"', look)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">{shapes}</svg>'


def first_sentence(text: str) -> str:
    """The others stand beside a round of the method."""
    head, stop, _ = text.partition(". ")
    return head + "." if stop else text


def html(one: MethodComparison) -> str:
    """Every method of a comparison with its drawing and one line, as a list."""
    items = "".join(
        f'<li><img src="data:image/svg+xml;base64,{base64.b64encode(drawing(row.key).encode()).decode()}" alt="" width="{WIDTH}" height="{HEIGHT}">'
        f"<p><b>{escape(row.entry.name)}</b> {escape(first_sentence(row.entry.description))}</p></li>"
        for row in one.rows
    )
    return f'<ul class="drawings" tabindex="0" aria-label="The drafting methods">{items}</ul><p class="drawings-key">{KEY}</p>'
