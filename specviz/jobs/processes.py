"""Worker processes of this machine, without Ray: a seat each, connected by a pipe, and by two numbers in memory that both see."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from specviz import process
from specviz.errors import ClusterError
from specviz.jobs.task_runner import Stopped, TaskRunner
from specviz.jobs.tasks import Task
from specviz.jobs.workers import WorkerDiedError

LIBRARIES = "specviz.jobs.processes"  # with it come all libraries that a worker needs
LIFE = 1000  # pieces that a worker does; what libraries leave behind in its memory goes with it
GRACE = 5.0  # seconds in which a worker leaves what is no longer wanted; then its process ends

_starting = threading.Lock()


class SharedStatus:
    """As worker.Board, seen by both processes. Each number has one that writes it."""

    def __init__(self, done: Any, unwanted: Any):
        self._done, self._unwanted = done, unwanted

    done = property(lambda self: self._done.value, lambda self, share: setattr(self._done, "value", share))
    unwanted = property(lambda self: self._unwanted.value, lambda self, number: setattr(self._unwanted, "value", number))


class ProcessWorker:
    """As dispatch.Seat.

    nice     by how much the worker stands back for other processes, 0 to 19, unless a piece goes first
    threads  of PyTorch in the worker
    """

    def __init__(self, nice: int = 0, threads: int = 1):
        self.nice, self.threads = nice, threads
        self.process: int | None = None
        self.worker: BaseProcess | None = None
        self.connection: Connection | None = None
        self.given, self.asked_to_leave = 0, None

    @property
    def spent(self) -> bool:
        return self.given >= LIFE

    def start(self) -> None:
        self.end()
        context = workers()
        self.connection, theirs = context.Pipe()
        self.board = SharedStatus(context.RawValue("d", 0.0), context.RawValue("q", 0))
        self.given, self.asked_to_leave = 0, None
        self.worker = context.Process(target=_serve, args=(theirs, os.getcwd(), self.board, self.nice, self.threads), daemon=True)
        with _without_main():
            self.worker.start()
        theirs.close()

    def give(self, task: Task, piece: Any, first: bool = False) -> None:
        self.given, self.asked_to_leave = self.given + 1, None
        with suppress(OSError):  # it has died; ``answer`` says so
            self.connection.send((task, piece, first))

    def ready(self, seconds: float) -> bool:
        return self.connection.poll(seconds)

    def answer(self) -> Any:
        try:
            result, error = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerDiedError from None
        if error is not None:
            raise error
        return result

    def share(self) -> float:
        return self.board.done

    def stop(self) -> None:
        now = time.monotonic()
        if self.asked_to_leave is None:
            self.board.unwanted, self.asked_to_leave = self.given, now
        elif now - self.asked_to_leave > GRACE:
            self.worker.kill()

    def end(self) -> None:
        self.process = None
        if self.worker is not None:
            self.worker.kill()
            self.worker.join()
            self.connection.close()


def workers() -> BaseContext:
    """How a worker process comes to be. A fork of this process would copy the locks of its threads.

    On Linux it is forked from a process that has only imported the libraries: so workers share them in memory, and are there at once.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([LIBRARIES])
    return context


@contextmanager
def _without_main() -> Iterator[None]:
    """A new process imports the program that was started, such as the command streamlit, unless it does not find its file."""
    main = vars(sys.modules["__main__"])
    with _starting:
        file = main.pop("__file__", None)
        try:
            yield
        finally:
            if file is not None:
                main["__file__"] = file


def _serve(connection: Connection, folder: str, board: SharedStatus, nice: int, threads: int) -> None:
    """The worker process: answers what comes through the pipe, until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    process.configure_process()
    worker = TaskRunner(board)
    connection.send((worker.begin(folder, threads), None))
    number, aside = 0, ThreadPoolExecutor(1, initializer=_stand_back, initargs=(nice, threads))
    while True:
        task, piece, first = connection.recv()
        number += 1
        try:
            answer = (
                worker.do(number, task, piece) if first or not nice else aside.submit(worker.do, number, task, piece).result(),
                None,
            )
        except (ClusterError, Stopped) as error:
            answer = None, error
        except Exception:  # as text, because not every error can be sent
            answer = None, RuntimeError(traceback.format_exc())
        connection.send(answer)
        del answer
        process.trim_memory()


def _stand_back(nice: int, threads: int) -> None:
    """For this thread alone: no process may take back by how much it stands back. Elsewhere than on Linux it is the whole process."""
    torch.set_num_threads(threads)  # oneDNN asks this thread, not the process
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id() if sys.platform == "linux" else 0, nice)


def _end_with(parent: BaseProcess) -> None:
    """End this worker process when its parent is gone, even if it was killed."""
    parent.join()
    os._exit(1)
