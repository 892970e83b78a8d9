"""Worker processes of this machine, each connected to the pool by a pipe and by two numbers in shared memory."""

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
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

from specviz import process
from specviz.errors import CancelledError, ClusterError
from specviz.jobs.task_runner import TaskRunner
from specviz.jobs.tasks import Task
from specviz.jobs.workers import WorkerDiedError
from specviz.threads import limit_threads

PRELOADED = ("specviz.jobs.processes", "specviz.decoding.sampler")  # modules that workers share in memory, with all they import
MAX_JOBS = 1000  # jobs of a worker process; a new process frees what libraries leave behind in memory
CANCEL_TIMEOUT = 5.0  # seconds in which a worker has to leave a cancelled job; then its process is killed

_starting = threading.Lock()


class SharedJobStatus:
    """A JobStatus in memory that both processes see. Each number has one writer."""

    def __init__(self, share_value: Any, cancelled_value: Any):
        self._share, self._cancelled = share_value, cancelled_value

    share = property(lambda self: self._share.value, lambda self, share: setattr(self._share, "value", share))
    cancelled = property(lambda self: self._cancelled.value, lambda self, number: setattr(self._cancelled, "value", number))


class ProcessWorker:
    """A workers.Worker in a process of this machine.

    Args:
        nice: Niceness of the worker while it runs jobs that are not urgent, 0 to 19.
        threads: Threads of PyTorch in the worker.
    """

    def __init__(self, nice: int = 0, threads: int = 1):
        self.nice, self.threads = nice, threads
        self.pid: int | None = None
        self.process: BaseProcess | None = None
        self.connection: Connection  # set by ``start``
        self.jobs_sent = 0
        self.cancelled_at: float | None = None

    @property
    def is_worn_out(self) -> bool:
        return self.jobs_sent >= MAX_JOBS

    def start(self) -> None:
        self.kill()
        context = create_worker_context()
        self.connection, theirs = context.Pipe()
        self.status = SharedJobStatus(context.RawValue("d", 0.0), context.RawValue("q", 0))
        self.jobs_sent, self.cancelled_at = 0, None
        self.process = context.Process(
            target=_run_worker, args=(theirs, os.getcwd(), self.status, self.nice, self.threads), daemon=True
        )
        with _hide_main_file():
            self.process.start()
        theirs.close()

    def send(self, task: Task, item: Any, urgent: bool = False) -> None:
        self.jobs_sent, self.cancelled_at = self.jobs_sent + 1, None
        with suppress(OSError):  # it died, and ``receive`` raises
            self.connection.send((task, item, urgent))

    def wait(self, seconds: float) -> bool:
        return self.connection.poll(seconds)

    def receive(self) -> Any:
        try:
            result, error = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerDiedError from None
        if error is not None:
            raise error
        return result

    def read_share(self) -> float:
        return self.status.share

    def cancel(self) -> None:
        now = time.monotonic()
        if self.cancelled_at is None:
            self.status.cancelled, self.cancelled_at = self.jobs_sent, now
        elif now - self.cancelled_at > CANCEL_TIMEOUT and self.process is not None:
            self.process.kill()

    def kill(self) -> None:
        self.pid = None
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()


def create_worker_context() -> SpawnContext | ForkServerContext:
    """How worker processes are started. A fork of this process would copy the locks of its threads.

    On Linux they are forked from a process that has only imported the libraries, so they share them in memory and start at once.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


@contextmanager
def _hide_main_file() -> Iterator[None]:
    """Keep a new process from importing the program that was started, such as the command streamlit, by hiding the name of its file."""
    main = vars(sys.modules["__main__"])
    with _starting:
        file = main.pop("__file__", None)
        try:
            yield
        finally:
            if file is not None:
                main["__file__"] = file


def _run_worker(connection: Connection, folder: str, status: SharedJobStatus, nice: int, threads: int) -> None:
    """The worker process: runs the jobs that come through the pipe, until its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    threading.Thread(target=_exit_with_parent, args=(parent_process(),), daemon=True).start()
    process.configure_process()
    runner = TaskRunner(status)
    connection.send((runner.start(folder, threads), None))
    number, nice_thread = 0, ThreadPoolExecutor(1, initializer=_lower_priority, initargs=(nice, threads))
    while True:
        task, item, urgent = connection.recv()
        number += 1
        result: Any = None
        failure: Exception | None = None
        try:
            is_quick = urgent or not nice
            result = runner.run(number, task, item) if is_quick else nice_thread.submit(runner.run, number, task, item).result()
        except (CancelledError, ClusterError) as error:
            failure = error
        except Exception:  # as text, because not every error can be sent
            failure = RuntimeError(traceback.format_exc())
        connection.send((result, failure))
        del result
        process.trim_memory()


def _lower_priority(nice: int, threads: int) -> None:
    """Set the niceness of this thread alone: no process may lower its own again. Elsewhere than on Linux it is the whole process."""
    limit_threads(threads)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id() if sys.platform == "linux" else 0, nice)


def _exit_with_parent(parent: BaseProcess) -> None:
    """End this worker process when its parent ends, even if that was killed."""
    parent.join()
    os._exit(1)
