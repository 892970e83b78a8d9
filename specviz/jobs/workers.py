"""A pool of workers, wherever they are. Each worker runs one job at a time; jobs of a worker that died run again.

A thread of this process serves each worker: it sends the jobs and waits for the results. So any number of threads may submit jobs.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, PriorityQueue, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from specviz.errors import ClusterError
from specviz.progress import ProgressCallback, ignore_progress

if TYPE_CHECKING:
    from specviz.jobs.tasks import Task

WORKER_POLL = 0.25  # seconds between two checks of a worker
RESULT_POLL = 0.05  # seconds between two checks while a thread waits for results; each is a chance to cancel
MAX_RETRIES = 5  # retries of a job whose worker died: the job may be what kills its workers
MAX_FAILED_STARTS = 10  # workers in a row that die before they are ready
NO_WORKER_TIMEOUT = 180.0  # seconds without a single ready worker after which a run fails
URGENT, NORMAL = 0, 1  # priorities of jobs

Item = TypeVar("Item")


class WorkerDiedError(Exception):
    """The worker, or its machine, died, and the job with it."""


class Worker(Protocol):
    """One worker, or the place where the next one starts. Only the thread that serves it calls these methods."""

    pid: int | None  # process id on the worker's machine; None: no worker is ready

    @property
    def is_worn_out(self) -> bool:
        """Whether it has run so many jobs that a new process should replace it."""

    def start(self) -> None:
        """Begin to start a worker process, in place of an earlier one. The first message it sends is its process id."""

    def send(self, task: Task, item: Any, urgent: bool = False) -> None:
        """Send a job. Its message is the job's result."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for a message. Returns whether there is one."""

    def receive(self) -> Any:
        """Return the message. Raises WorkerDiedError, or what the job raised."""

    def read_share(self) -> float:
        """Share of the job that is done, in [0, 1], as far as it is known."""

    def cancel(self) -> None:
        """Ask the worker to leave its job."""

    def kill(self) -> None:
        """End the worker process at once."""


@dataclass(order=True, slots=True)
class Job:
    """A task with one of its items. Urgent jobs go first; among equals the earliest submitted, also if it runs again."""

    priority: int
    number: int
    task: Task = field(compare=False)
    item: Any = field(compare=False)
    finished: SimpleQueue = field(compare=False)  # receives the job when it has a result or an error
    result: Any = field(default=None, compare=False)
    error: Exception | None = field(default=None, compare=False)
    share: float = field(default=0.0, compare=False)
    deaths: int = field(default=0, compare=False)
    is_cancelled: bool = field(default=False, compare=False)  # whether nobody waits for it any more


class WorkerPool:
    """Runs jobs on workers. Workers start with the first jobs, no more of them than there are jobs.

    Args:
        workers: One for each process of the pool.
        on_start: Called after each start of a worker, before it gets a job; what it raises fails the pool.
    """

    def __init__(self, workers: Sequence[Worker], on_start: Callable[[], None] = lambda: None):
        self.workers, self.on_start, self.size = workers, on_start, len(workers)
        self.jobs: PriorityQueue[Job] = PriorityQueue()
        self.numbers, self.lock = itertools.count(), threading.Lock()
        self.threads: list[threading.Thread] = []
        self.open_jobs = self.ready_workers = self.failed_starts = 0
        self.last_ready_at = time.monotonic()
        self.is_closed = False
        self.failure: Exception | None = None

    def run(self, task: Task, item: Any, on_progress: ProgressCallback = ignore_progress, urgent: bool = False) -> Any:
        """Run a task on one item, before all waiting jobs if ``urgent``, and return the result.

        What ``on_progress`` raises cancels the job. Raises what the job raised, and ClusterError where there are no workers, or
        the job's workers died again and again.
        """
        jobs = self._submit(task, [item], URGENT if urgent else NORMAL)
        for job in self._collect(jobs, lambda: on_progress(jobs[0].share)):
            return job.result

    def run_all(self, task: Task, items: Sequence[Item]) -> Iterator[tuple[Item, Any]]:
        """Run a task on all items. Yields each item once, with its result, in any order. Closing the iterator cancels the rest."""
        for job in self._collect(self._submit(task, items, NORMAL)):
            yield job.item, job.result

    def close(self) -> None:
        """Kill all workers."""
        self.is_closed = True
        for thread in self.threads:
            thread.join()

    def _submit(self, task: Task, items: Sequence[Any], priority: int) -> list[Job]:
        finished: SimpleQueue[Job] = SimpleQueue()
        with self.lock:
            jobs = [Job(priority, next(self.numbers), task, item, finished) for item in items]
            if not self.open_jobs:
                self.last_ready_at = time.monotonic()
            self.open_jobs += len(jobs)
            for job in jobs:
                self.jobs.put(job)
            for worker in self.workers[len(self.threads) : self.open_jobs]:
                self.threads.append(threading.Thread(target=self._serve, args=(worker,), daemon=True))
                self.threads[-1].start()
        return jobs

    def _collect(self, jobs: Sequence[Job], on_poll: Callable[[], None] = lambda: None) -> Iterator[Job]:
        """Yield the jobs as they finish. Raises the error of the first that fails, and ClusterError where there are no workers."""
        try:
            done = 0
            while done < len(jobs):
                try:
                    job = jobs[0].finished.get(timeout=RESULT_POLL)
                except Empty:
                    self._check()
                    on_poll()
                    continue
                if job.error is not None:
                    raise job.error
                done += 1
                yield job
        finally:
            for job in jobs:
                job.is_cancelled = True
            with self.lock:
                self.open_jobs -= len(jobs)

    def _check(self) -> None:
        if self.failure is not None:
            raise ClusterError(f"The workers cannot go on: {self.failure}") from self.failure
        if self.is_closed:
            raise ClusterError("The workers were ended.")
        if self.ready_workers:
            self.last_ready_at = time.monotonic()
        elif time.monotonic() - self.last_ready_at > NO_WORKER_TIMEOUT:
            raise ClusterError(f"No worker was ready within {NO_WORKER_TIMEOUT:.0f} s. Are the machines busy with other work?")

    def _serve(self, worker: Worker) -> None:
        """Start a worker and send it jobs; start another when it dies. Runs in the worker's thread."""
        try:
            while not self.is_closed:
                with suppress(WorkerDiedError):
                    if self._start(worker):
                        self._run_jobs(worker)
        except Exception as error:  # raised in the threads that wait for jobs
            self.failure = error
        finally:
            worker.kill()

    def _start(self, worker: Worker) -> bool:
        """Start a worker. Returns whether it is ready; False once the pool is closed."""
        worker.start()
        while not worker.wait(WORKER_POLL):
            if self.is_closed:
                return False
        try:
            worker.pid = worker.receive()
        except WorkerDiedError:
            with self.lock:
                self.failed_starts += 1
            if self.failed_starts > MAX_FAILED_STARTS:
                raise ClusterError(
                    f"More than {MAX_FAILED_STARTS} workers died while they started, one after the other. "
                    "Is there enough memory on each core?"
                ) from None
            raise
        self.on_start()
        self.failed_starts = 0
        return True

    def _run_jobs(self, worker: Worker) -> None:
        with self.lock:
            self.ready_workers += 1
        try:
            while not self.is_closed and not worker.is_worn_out:
                with suppress(Empty):
                    job = self.jobs.get(timeout=WORKER_POLL)
                    if not job.is_cancelled:
                        self._run_job(worker, job)
        except WorkerDiedError:
            worker.pid = None
            raise
        finally:
            with self.lock:
                self.ready_workers -= 1
                self.last_ready_at = time.monotonic()

    def _run_job(self, worker: Worker, job: Job) -> None:
        try:
            worker.send(job.task, job.item, job.priority == URGENT)
            while not worker.wait(WORKER_POLL):
                if self.is_closed:
                    return
                if job.is_cancelled:
                    worker.cancel()
                job.share = worker.read_share()
            job.result = worker.receive()
        except WorkerDiedError:
            job.deaths += 1
            if job.deaths <= MAX_RETRIES:
                self.jobs.put(job)
                raise
            job.error = ClusterError(
                f"{str(job.item).capitalize()}: lost {job.deaths} times with the workers that did it. The usual reason is too little "
                "memory for the models, or a machine that is switched off."
            )
            job.finished.put(job)
            raise
        except Exception as error:
            job.error = error
        job.finished.put(job)
