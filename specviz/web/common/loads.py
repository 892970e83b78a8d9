"""Models loaded in a thread of their own: who waits can be told so, and can leave within a second.

A load that nobody waits for any more goes on for whoever asks next; the same pair is never loaded twice at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specviz.errors import SpecvizError
from specviz.web.common import warmup

if TYPE_CHECKING:
    from specviz.models.pairs.loading import Pair
    from specviz.web.common.queue import Ticket

PAUSE = 0.2  # seconds between two looks at whether whoever waits has left

Key = tuple[str, str, str]  # pair, device, dtype


@dataclass(frozen=True, slots=True)
class Load:
    """A load that was begun: its outcome, and when it began."""

    outcome: Future = field(default_factory=Future)
    began: float = field(default_factory=time.monotonic)

    def ready(self, seconds: float) -> bool:
        """Whether it has ended, waiting for it at most so long."""
        end = time.monotonic() + seconds
        while not self.outcome.done() and time.monotonic() < end:
            time.sleep(min(0.02, seconds))
        return self.outcome.done()


_lock = threading.Lock()
_loads: dict[Key, Load] = {}  # those that go on


def begun(key: Key, make: Callable[..., Any]) -> Load:
    """The load of ``make(*key)`` that goes on, or a new one. What it raises is the outcome's."""
    with _lock:
        if (load := _loads.get(key)) is None:
            load = _loads[key] = Load()
            threading.Thread(target=_carry_out, args=(load, key, make), name="models", daemon=True).start()
    return load


def _carry_out(load: Load, key: Key, make: Callable[..., Any]) -> None:
    made, trouble = None, None
    try:
        made = make(*key)
    except BaseException as error:  # whatever it is, it belongs to those who wait
        trouble = error
    with _lock:
        del _loads[key]
    if trouble is None:
        load.outcome.set_result(made)
    else:
        load.outcome.set_exception(trouble)


def libraries(ticket: Ticket) -> None:
    """Wait for the libraries. Raises SpecvizError where they cannot be had, and what the ticket raises where it is stopped."""
    ticket.tick(doing="Loading the models, once for this server")
    while not warmup.wait(PAUSE):
        ticket.tick()
    if sentence := warmup.trouble():
        raise SpecvizError(sentence)


def waited(ticket: Ticket, key: Key, make: Callable[..., Pair]) -> Pair:
    """The models, for a piece of work in the queue: libraries first, then weights. Raises as ``libraries`` and ``make`` do."""
    libraries(ticket)
    load = begun(key, make)
    while not load.ready(PAUSE):
        ticket.tick()
    return load.outcome.result()
