"""Loads models in threads of their own, so that a job that waits for them can report it, and can be cancelled within a second.

A load goes on after all jobs that wait for it were cancelled, for the next one. No pair is loaded twice at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from specviz.errors import SpecvizError
from specviz.jobs.daemon_threads import run_in_thread
from specviz.web.jobs import warmup

if TYPE_CHECKING:
    from specviz.jobs.queue import Ticket
    from specviz.models.pairs.loading import LoadedPair

POLL = 0.2  # seconds between two ticks of a job that waits
QUICK = 0.02  # seconds after which a load is shown

Key = tuple[str, str, str]  # pair, device, dtype

_lock = threading.Lock()
_loads: dict[Key, Future] = {}  # those that have not ended


def start_loading(key: Key, load: Callable[..., Any]) -> Future:
    """Start ``load(*key)`` in a thread, unless it runs already. The future also holds what it raises."""

    def load_once() -> Any:
        try:
            return load(*key)
        finally:
            with _lock:
                del _loads[key]

    with _lock:
        if key not in _loads:
            _loads[key] = run_in_thread(load_once, name="models")
        return _loads[key]


def wait_for_libraries(ticket: Ticket) -> None:
    """Wait until torch and transformers are imported, and set this thread's number of PyTorch threads.

    Raises SpecvizError if they cannot be imported, and CancelledError.
    """
    if not warmup.wait(0):
        warmup.start()  # a page that opens with a job may come before the frame has started the import
        ticket.tick(doing=warmup.DOING)
    while not warmup.wait(POLL):
        ticket.tick()
    if sentence := warmup.describe_failure():
        raise SpecvizError(sentence)
    warmup.share_cores()


def wait_for_models(ticket: Ticket, key: Key, load: Callable[..., LoadedPair]) -> LoadedPair:
    """Wait for the libraries, then for ``load(*key)``. Raises what ``load`` raises, and as ``wait_for_libraries``."""
    wait_for_libraries(ticket)
    future = start_loading(key, load)
    if not wait([future], QUICK).done:
        ticket.tick(doing=f"Loading the pair {key[0]}")
    while not wait([future], POLL).done:
        ticket.tick()
    return future.result()
