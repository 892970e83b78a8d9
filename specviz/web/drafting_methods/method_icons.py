"""Each drafting method as a small drawing: the text, who drafts, and the draft tokens. Shapes of our own, which the page draws.

One grammar for all: a gray bar is the text so far, an orange square a draft token, blue the target, a line leads from a token to the
next. A shape is the name of an SVG element and its attributes; its class says what it means, and the style sheet how that looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

KEY = "Gray bar: the text so far. Orange squares: draft tokens. Blue: the target."
WIDTH, HEIGHT, SIDE = 132, 44, 10
KINDS = ("draft", "target", "text", "dot", "way", "frame", "copied", "book", "tick", "ghost")  # classes of shapes
MIDDLE = HEIGHT / 2
FIRST, STEP = 58.0, 20.0  # center of the first draft token, and from one depth to the next
TEXT_END = 34.0

Shape = tuple[str, dict[str, Any]]  # SVG element, attributes


def draw_square(x: float, y: float, kind: str = "draft", side: float = SIDE) -> list[Shape]:
    half = side / 2
    return draw_frame(x - half, y - half, side, side, kind, side / 4)


def draw_path(d: str, kind: str = "way") -> list[Shape]:
    return [("path", {"class": kind, "d": d})]


def draw_line(x: float, y: float, to_x: float, to_y: float, kind: str = "way") -> list[Shape]:
    return draw_path(f"M{x:g} {y:g} L{to_x:g} {to_y:g}", kind)


def draw_arc(x: float, y: float, to_x: float, to_y: float, lift: float, kind: str = "way") -> list[Shape]:
    return draw_path(f"M{x:g} {y:g} Q{(x + to_x) / 2:g} {min(y, to_y) - lift:g} {to_x:g} {to_y:g}", kind)


def draw_frame(x: float, y: float, wide: float, high: float, kind: str = "frame", round_: float = 4) -> list[Shape]:
    return [("rect", {"class": kind, "x": x, "y": y, "width": wide, "height": high, "rx": round_})]


def draw_text() -> list[Shape]:
    return draw_frame(2, MIDDLE - 3, TEXT_END - 2, 6, "text", 3)


def draw_chain(count: int = 4, y: float = MIDDLE, kind: str = "draft", begin: float = TEXT_END) -> list[Shape]:
    """Tokens one after the other, the first of them after the text."""
    places = [FIRST + STEP * number for number in range(count)]
    half = SIDE / 2
    lines = [draw_line(begin, MIDDLE, places[0] - half, y)] + [draw_line(a + half, y, b - half, y) for a, b in pairwise(places)]
    return join_shapes(*lines, *(draw_square(x, y, kind) for x in places))


def draw_tree(rows: Sequence[Sequence[float]], parents: Sequence[Sequence[int]], side: float = SIDE) -> list[Shape]:
    """Tokens by depth, at these heights; parents: of each, the place in the depth before."""
    half, lines = side / 2, []
    for depth, ys in enumerate(rows):
        x = FIRST + STEP * depth
        for place, y in enumerate(ys):
            start = (TEXT_END, MIDDLE) if depth == 0 else (x - STEP + half, rows[depth - 1][parents[depth][place]])
            lines.append(draw_line(*start, x - half, y))
    return join_shapes(*lines, *(draw_square(FIRST + STEP * depth, y, side=side) for depth, ys in enumerate(rows) for y in ys))


def draw_bars(heights: Sequence[float]) -> list[Shape]:
    """A distribution that needs no model, above the text."""
    return join_shapes(*(draw_frame(5 + 6 * number, 16 - height, 4, height, "draft", 0) for number, height in enumerate(heights)))


def join_shapes(*parts: list[Shape]) -> list[Shape]:
    return [shape for part in parts for shape in part]


SIX = (4.5, 11.5, 18.5, 25.5, 32.5, 39.5)
WIDE = draw_tree(((8.0, 22.0, 36.0), SIX, SIX), ((), (0, 0, 1, 1, 2, 2), (0, 1, 2, 3, 4, 5)), side=6)
SMALL = draw_tree(((12.0, 32.0), (6.0, 18.0, 32.0)), ((), (0, 0, 1)))
HEADS = join_shapes(*(draw_arc(30, MIDDLE - 6, FIRST + STEP * depth, MIDDLE - 6, 8 + 5 * depth) for depth in range(3)))
DEPTHS = join_shapes(*(draw_square(FIRST + STEP * depth, MIDDLE) for depth in range(3)))
OWN_STATE = draw_frame(24, 14, 12, 16, "target", 2.5)  # of the target, at the end of the text
FEEDS = join_shapes(
    *(draw_arc(FIRST + STEP * depth, MIDDLE - 5, FIRST + STEP * (depth + 1), MIDDLE - 5, 12) for depth in range(3))
)
LAYERS = join_shapes(*(draw_frame(8, 5 + 7 * number, 24, 5, "draft" if number > 2 else "target", 1.5) for number in range(5)))
WINDOW = join_shapes(
    *(
        draw_square(FIRST + STEP * n, 6, "ghost", 7) + draw_line(FIRST + STEP * n, 10, FIRST + STEP * n, MIDDLE - 6)
        for n in range(3)
    )
)
BOOK = draw_path("M4 1 h12 v14 h-12 z M18 1 h12 v14 h-12 z M7 5 h6 M7 9 h6 M21 5 h6 M21 9 h6", "book")
TICKS = join_shapes(
    *(draw_path(f"M{FIRST + STEP * n - 3:g} {MIDDLE:g} l2.4 2.8 l4 -5.4", "tick") for n in range(4))
)  # every token passes

DRAWINGS: dict[str, Callable[[], list[Shape]]] = {
    "target": lambda: draw_text() + draw_line(TEXT_END, MIDDLE, FIRST - 5, MIDDLE) + draw_square(FIRST, MIDDLE, "target"),
    "draft": lambda: draw_text() + draw_chain(),
    "block": lambda: draw_text() + draw_frame(FIRST - 10, MIDDLE - 11, 3 * STEP + 20, 22) + draw_chain(),
    "tree-top": lambda: draw_text() + SMALL,
    "tree": lambda: draw_text() + SMALL + join_shapes(*(draw_frame(FIRST - 1.8, y - 1.8, 3.6, 3.6, "dot", 1.8) for y in (12.0, 32.0))),
    "tree-wide": lambda: draw_text() + WIDE,
    "several": lambda: draw_text() + draw_chain(3, 12.0) + draw_chain(3, 32.0),
    "several-kseq": lambda: draw_text() + draw_frame(FIRST - 9, 3, 18, 38) + draw_chain(3, 12.0) + draw_chain(3, 32.0),
    "medusa": lambda: draw_text() + OWN_STATE + HEADS + DEPTHS,
    "medusa-wide": lambda: draw_text() + OWN_STATE + WIDE,
    "eagle": lambda: draw_text() + OWN_STATE + FEEDS + draw_chain(),
    "eagle-wide": lambda: draw_text() + OWN_STATE + draw_arc(30, 14, FIRST, 4, 4) + WIDE,
    "early-exit": lambda: LAYERS + draw_line(TEXT_END, 30, FIRST - 5, 30) + draw_square(FIRST, 30),
    "lookahead": lambda: draw_text() + OWN_STATE + WINDOW + draw_chain(3),
    "ngram": lambda: draw_text() + draw_frame(8, MIDDLE - 6, 14, 12, "copied") + draw_arc(15, MIDDLE - 6, FIRST + STEP, MIDDLE - 6, 16) + draw_chain(3),
    "retrieval": lambda: draw_text() + BOOK + draw_arc(31, 6, FIRST, MIDDLE - 6, 2) + draw_chain(3),
    "unigram": lambda: draw_text() + draw_bars((14, 9, 6, 4, 2)) + draw_chain(3),
    "uniform": lambda: draw_text() + draw_bars((6, 6, 6, 6, 6)) + draw_chain(3),
    "adversarial": lambda: draw_text() + draw_bars((2, 4, 6, 9, 14)) + draw_chain(3),
    "oracle": lambda: draw_text() + draw_chain(kind="target"),
    "typical": lambda: draw_text() + draw_chain() + TICKS,
}  # fmt: skip
