"""What runs in a worker process, local or of Ray: it prepares a task once, then runs its items one after the other."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import Any

from specviz.errors import CancelledError, ClusterError, SpecvizError
from specviz.jobs.tasks import Task
from specviz.threads import limit_threads


class JobStatus:
    """Exchanged while a job runs: the share that is done, from the worker, and the number of a job to leave, from the pool."""

    share, cancelled = 0.0, 0


class TaskRunner:
    """Runs jobs on one core, with one thread of PyTorch unless ``start`` sets more."""

    def __init__(self, status: Any = None):
        self.status = status or JobStatus()

    def start(self, folder: str, threads: int = 1) -> int:
        """Set up this process. folder: for relative paths, that of the command. Returns the process id."""
        gc.freeze()  # the libraries stay, so the collector need not scan them again and again
        limit_threads(threads)
        with suppress(OSError):  # another machine may not have it; a folder with a relative name is then not found
            os.chdir(folder)
        self.prepared: tuple[Task, Any] | None = None
        self.number = 0
        return os.getpid()

    def run(self, number: int, task: Task, item: Any) -> Any:
        """Run a job and return its result. number: counted up from 1.

        Raises CancelledError, and ClusterError instead of every other SpecvizError.
        """
        self.number, self.status.share = number, 0.0
        try:
            if self.prepared is None or self.prepared[0] != task:
                self.prepared = None  # its memory is needed for the next task
                self.prepared = task, task.prepare()
            return self.prepared[1](item, self._report)
        except SpecvizError as error:
            raise ClusterError(f"A worker stopped: {error}") from None

    def read_share(self) -> float:
        """Share of the running job that is done, in [0, 1]. Called from another thread than ``run``."""
        return self.status.share

    def cancel(self, number: int) -> None:
        """Cancel a job at its next report of progress, if it is still the running one. Called from another thread than ``run``."""
        self.status.cancelled = number

    def _report(self, share: float, *_: str) -> None:
        self.status.share = share
        if self.status.cancelled == self.number:
            raise CancelledError
