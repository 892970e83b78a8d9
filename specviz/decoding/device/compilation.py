"""Compiling rounds beside the requests: one thread of the process compiles, while requests run their recorded rounds.

Compiling takes seconds, and only long or repeated work gets them back. So nobody waits for it: the next request of the same kind
takes the compiled round if it is ready by then.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from specviz.decoding.device.capture import RoundProgram

QUEUE_MAX = 2  # compilations that may wait for the one that runs; more are left to a later request
_STOP_SECONDS = 10.0  # that the end of the process may wait for the part that is being compiled
_stopping = threading.Event()
_log = logging.getLogger(__name__)


class CompilationStoppedError(Exception):
    """The process ends while a round is being compiled."""


def compile_part(module: Any, inputs: Any) -> Any:
    """Inductor, as a backend of torch.compile. A round has some ten parts; after the end of the process has begun no further one starts."""
    if _stopping.is_set():
        raise CompilationStoppedError
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, inputs)


COMPILER: dict[str, Any] = {"backend": compile_part}


class Compilation:
    """One round that is compiled in the background.

    Attributes:
        error: Why it failed; empty if it did not.
    """

    def __init__(self, build: Callable[[], RoundProgram]):
        self._build, self._done, self.error = build, threading.Event(), ""
        self._program: RoundProgram | None = None

    def run(self) -> None:
        """Build the program and call it once."""
        try:
            program = self._build()
            program.warm_up()
            self._program = program
        except Exception as error:  # whatever it is, the recorded round goes on
            self.error = str(error) or type(error).__name__
            if not _stopping.is_set():
                _log.warning("A round could not be compiled, so the recorded one stays in use: %s", self.error)
        finally:
            del self._build  # with the models of its request
            self._done.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is done. Returns whether it is."""
        return self._done.wait(seconds)

    def take_program(self) -> RoundProgram | None:
        """The compiled program, at the first call after it is done; otherwise None."""
        program, self._program = (self._program, None) if self._done.is_set() else (None, self._program)
        return program


class CompilerThread:
    """The thread that compiles, started with the first compilation."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Compilation] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, build: Callable[[], RoundProgram]) -> Compilation | None:
        """Compile what ``build`` builds. None: too many wait already, or the process ends."""
        with self._lock:
            if self._waiting.qsize() >= QUEUE_MAX or _stopping.is_set():
                return None
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="compile", daemon=True)
                self._thread.start()
                atexit.register(self._stop)
            compilation = Compilation(build)
            self._waiting.put(compilation)
            return compilation

    def _work(self) -> None:
        while not _stopping.is_set():
            try:
                compilation = self._waiting.get(timeout=1.0)
            except queue.Empty:
                continue
            compilation.run()

    def _stop(self) -> None:
        """A thread inside a compiler must not outlive the interpreter."""
        _stopping.set()
        if self._thread:
            self._thread.join(_STOP_SECONDS)


compiler_thread = CompilerThread()
