"""Functions in daemon threads, with concurrent.futures' ``Future`` for their results.

``ThreadPoolExecutor`` waits for its threads when the program ends, so one request to a silent server would keep it running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


def run_in_thread(function: Callable[..., Any], *arguments: Any, name: str) -> Future:
    """Call a function in a new daemon thread. name: of the thread. Raises RuntimeError if the system has no thread left."""
    future: Future = Future()
    threading.Thread(target=_fulfil, args=(future, function, arguments), name=name, daemon=True).start()
    return future


class DaemonThreadPool:
    """Calls functions in ``size`` daemon threads, in the order in which they were submitted."""

    def __init__(self, size: int, name: str):
        self.size = size
        self._calls: SimpleQueue[tuple[Future, Callable[..., Any], tuple] | None] = SimpleQueue()
        self._is_closed = threading.Event()
        for number in range(size):
            threading.Thread(target=self._serve, name=f"{name} {number}", daemon=True).start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Call a function as soon as a thread is free."""
        future: Future = Future()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Start no further call, and end each thread after its present one. Does not wait for them."""
        self._is_closed.set()
        for _ in range(self.size):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None and not self._is_closed.is_set():
            _fulfil(*call)


def _fulfil(future: Future, function: Callable[..., Any], arguments: tuple) -> None:
    try:
        result = function(*arguments)
    except BaseException as error:  # raised again where the result is used
        future.set_exception(error)
    else:
        future.set_result(result)
