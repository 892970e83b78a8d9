"""Figures of records that do not change, kept as they were drawn: most visitors look at the same ones.

Drawing a figure costs more processor time than everything else on a recorded page. Kept figures are shared and never changed. A figure
is found by the very record that it shows, not by an equal one: records are frozen, and comparing them would cost what is saved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from plotly.graph_objects import Figure

MAX_KEPT = (
    128  # pictures: those of all recorded pages in both palettes, and some visitors' own; the one shown longest ago goes first
)

_lock = threading.Lock()
_kept: OrderedDict[tuple, CachedFigure] = OrderedDict()


class FrozenFigure(Figure):
    """A figure that is not changed any more. Its message is built once, however often it is shown."""

    def to_dict(self) -> dict[str, Any]:
        if not hasattr(self, "_once"):
            self._once = super().to_dict()
        return self._once


def freeze_figure(figure: Any) -> Any:
    """Turn a figure into a FrozenFigure. Anything else is returned as it is."""
    if type(figure) is Figure:
        figure.__class__ = FrozenFigure  # a copy would be checked again, number by number
    return figure


class CachedFigure:
    """A figure that is kept; callers that ask while it is drawn wait for it. arguments: what it is drawn from, held so that no id is reused."""

    def __init__(self, arguments: tuple):
        self.arguments, self.lock, self.figure = arguments, threading.Lock(), None

    def draw(self, draw: Callable[..., Any]) -> Any:
        with self.lock:
            if self.figure is None:
                self.figure = freeze_figure(draw(*self.arguments))
            return self.figure


def draw_cached(draw: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``draw(*arguments)``, or its earlier result for the same records and words. draw: a function of a module, not a closure."""
    key = (draw, *(one if isinstance(one, str | int | float | None) else (id(one),) for one in arguments))
    with _lock:
        cached = _kept.setdefault(key, CachedFigure(arguments))
        _kept.move_to_end(key)
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return cached.draw(draw)
