"""Loads models in threads of their own, so that a job that waits for them can report it, and can be cancelled within a second.

A load goes on after all jobs that wait for it were cancelled, for the next one. No pair is loaded twice at a time.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from specviz.errors import SpecvizError
from specviz.jobs.daemon_threads import run_in_thread
from specviz.settings import Settings
from specviz.web.hosting import cache, warmup

if TYPE_CHECKING:
    from specviz.jobs.queue import Ticket
    from specviz.models.pairs.loading import LoadedPair

POLL = 0.2  # seconds between two ticks of a job that waits
QUICK = 0.02  # seconds after which a load is shown

Key = tuple[str, str, str]  # pair, device, dtype

_lock = threading.Lock()
_loads: dict[Key, Future[LoadedPair]] = {}  # those that have not ended


def start_loading(settings: Settings) -> Future[LoadedPair]:
    """Start loading the pair of these settings in a thread, unless it is loading. The future also holds what the load raises."""
    key = settings.pair, settings.device, settings.dtype

    def load() -> LoadedPair:
        try:
            return cache.load_weights(*key)
        finally:
            with _lock:
                del _loads[key]

    with _lock:
        if key not in _loads:
            _loads[key] = run_in_thread(load, name="models")
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


def wait_for_pair(ticket: Ticket, settings: Settings) -> LoadedPair:
    """Wait for the libraries, then for the pair of these settings. Raises ModelError, and as ``wait_for_libraries``."""
    wait_for_libraries(ticket)
    future = start_loading(settings)
    if not wait([future], QUICK).done:
        ticket.tick(doing=f"Loading the pair {settings.pair}")
    while not wait([future], POLL).done:
        ticket.tick()
    return future.result()
