"""Pictures of records that do not change, kept as they were drawn: most visitors look at the same ones.

Drawing a figure costs more processor time than everything else on a recorded page. What is kept is shared and never changed. It is
found by the very record that it shows, not by an equal one: records are frozen, and comparing them would cost what is saved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

KEPT = 64  # pictures: those of all recorded pages in both palettes, and some visitors' own; the one shown longest ago goes first

_lock = threading.Lock()
_kept: OrderedDict[tuple, tuple[tuple, Any]] = (
    OrderedDict()
)  # key -> what it was drawn from, held so that no id is given out again


def drawn(draw: Callable[..., Any], *given: Any) -> Any:
    """``draw(*given)``, or what it gave before for the same records and words. draw: a function of a module, not a closure."""
    key = (draw, *(one if isinstance(one, str | int | float | None) else (id(one),) for one in given))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key][1]
    figure = draw(*given)
    with _lock:
        _kept[key] = given, figure
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return figure
