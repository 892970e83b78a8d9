"""Models loaded in a thread of their own: work that waits for them can say so, and can be stopped within a second.

A load goes on even when no work waits for it any more, for the next request. The same pair is never loaded twice at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from specviz.errors import SpecvizError
from specviz.web.jobs import warmup

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair
    from specviz.web.jobs.queue import Ticket

PAUSE = 0.2  # seconds after which work that waits looks whether it was stopped
QUICK = 0.02  # seconds after which a load is worth a word

Key = tuple[str, str, str]  # pair, device, dtype


_lock = threading.Lock()
_loads: dict[Key, Future] = {}  # those that go on


def begun(key: Key, make: Callable[..., Any]) -> Future:
    """The load of ``make(*key)`` that goes on, or a new one. It holds what ``make`` raises as well."""
    with _lock:
        if (load := _loads.get(key)) is None:
            load = Future()
            threading.Thread(target=_carry_out, args=(load, key, make), name="models", daemon=True).start()
            _loads[key] = load  # after the start, which may fail; the thread takes it out under the same lock
    return load


def _carry_out(load: Future, key: Key, make: Callable[..., Any]) -> None:
    try:
        hand_over, found = load.set_result, make(*key)
    except BaseException as error:  # whatever it is, the work that waits raises it
        hand_over, found = load.set_exception, error
    with _lock:
        del _loads[key]
    hand_over(found)


def libraries(ticket: Ticket) -> None:
    """Wait for the libraries, and let passes of this thread use its share of the cores. Raises SpecvizError where they cannot be had, and what the ticket raises where it is stopped."""
    if not warmup.wait(0):
        warmup.start()  # a page that opens with work may come before the frame has begun the import
        ticket.tick(doing=warmup.DOING)
    while not warmup.wait(PAUSE):
        ticket.tick()
    if sentence := warmup.trouble():
        raise SpecvizError(sentence)
    warmup.share_cores()


def waited(ticket: Ticket, key: Key, make: Callable[..., LoadedPair]) -> LoadedPair:
    """The models, for a piece of work in the queue: libraries first, then weights. Raises as ``libraries`` and ``make`` do."""
    libraries(ticket)
    load = begun(key, make)
    if not wait([load], QUICK).done:
        ticket.tick(doing=f"Loading the pair {key[0]}")
    while not wait([load], PAUSE).done:
        ticket.tick()
    return load.result()
