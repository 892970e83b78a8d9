"""Worker processes of this machine, without Ray: a seat each, connected by a pipe."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from specviz.cluster.dispatch import Lost
from specviz.cluster.worker import Worker
from specviz.errors import ClusterError
from specviz.evidence.pieces import Task


class ProcessSeat:
    """As dispatch.Seat. Nothing is known of how far a piece is, and to leave one its process ends."""

    def __init__(self):
        self.process: int | None = None
        self.worker: BaseProcess | None = None
        self.connection: Connection | None = None

    def start(self) -> None:
        self.end()
        spawn = get_context("spawn")  # a fork would copy the locks of this process's threads
        self.connection, theirs = spawn.Pipe()
        self.worker = spawn.Process(target=_serve, args=(theirs, os.getcwd()), daemon=True)
        self.worker.start()
        theirs.close()

    def give(self, task: Task, piece: Any) -> None:
        with suppress(OSError):  # it has died; ``answer`` says so
            self.connection.send((task, piece))

    def ready(self, seconds: float) -> bool:
        return self.connection.poll(seconds)

    def answer(self) -> Any:
        try:
            result, error = self.connection.recv()
        except (EOFError, OSError):
            raise Lost from None
        if error is not None:
            raise error
        return result

    def share(self) -> float:
        return 0.0

    def stop(self) -> None:
        self.worker.kill()

    def end(self) -> None:
        self.process = None
        if self.worker is not None:
            self.worker.kill()
            self.worker.join()
            self.connection.close()


def _serve(connection: Connection, folder: str) -> None:
    """The worker process: answers what comes through the pipe, until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    worker = Worker()
    connection.send((worker.begin(folder), None))
    number = 0
    while True:
        task, piece = connection.recv()
        number += 1
        try:
            answer = worker.do(number, task, piece), None
        except ClusterError as error:
            answer = None, error
        except Exception:  # as text, because not every error can be sent
            answer = None, RuntimeError(traceback.format_exc())
        connection.send(answer)


def _end_with(parent: BaseProcess) -> None:
    """End this worker process when its parent is gone, even if it was killed."""
    parent.join()
    os._exit(1)
