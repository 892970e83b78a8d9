"""Pictures of records that do not change, kept as they were drawn: most visitors look at the same ones.

Drawing a figure costs more processor time than everything else on a recorded page. What is kept is shared and never changed. It is
found by the very record that it shows, not by an equal one: records are frozen, and comparing them would cost what is saved. Who asks
for a picture that somebody else's page draws at this moment waits for that one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from specviz.figures.still import still

KEPT = 128  # pictures: those of all recorded pages in both palettes, and some visitors' own; the one shown longest ago goes first

_lock = threading.Lock()
_kept: OrderedDict[tuple, Picture] = OrderedDict()


class Picture:
    """One that is kept. given: what it is drawn from, held so that no id is given out again."""

    def __init__(self, given: tuple):
        self.given, self.lock, self.figure = given, threading.Lock(), None

    def drawn(self, draw: Callable[..., Any]) -> Any:
        with self.lock:
            if self.figure is None:
                self.figure = still(draw(*self.given))
            return self.figure


def drawn(draw: Callable[..., Any], *given: Any) -> Any:
    """``draw(*given)``, or what it gave before for the same records and words. draw: a function of a module, not a closure."""
    key = (draw, *(one if isinstance(one, str | int | float | None) else (id(one),) for one in given))
    with _lock:
        picture = _kept.setdefault(key, Picture(given))
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return picture.drawn(draw)
