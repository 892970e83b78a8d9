"""Give pieces of work to workers, one at a time to each, and have done again what was lost. Nothing here knows where the workers are.

Each worker has a thread of this process, which brings it pieces and waits for it. So any number of threads may ask for work at once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, PriorityQueue, SimpleQueue
from typing import Any, Protocol, TypeVar

from specviz.errors import ClusterError
from specviz.jobs.tasks import Task
from specviz.progress import ProgressCallback, ignore_progress

MOMENT = 0.25  # seconds between two looks at what a worker does
LOOK = 0.05  # seconds between two looks of whoever waits for a piece: then it says whether it still wants it
MOST_LOST = 5  # how often the same piece may be lost before the run ends: it may be what kills its workers
MOST_STARTS = 10  # workers that may die before they are ready, in a row
PATIENCE = 180.0  # seconds without a single worker after which a run ends

P = TypeVar("P")


class WorkerDiedError(Exception):
    """The worker died, or its machine, with what it was doing."""


class Worker(Protocol):
    """A place for one worker. Only its own thread calls it."""

    process: int | None  # number of the worker's process on its machine; None: there is none
    spent: bool  # whether the worker has done so much that a fresh one should take its place

    def start(self) -> None:
        """Begin to start a worker here, in place of an earlier one. Its answer is the number of its process."""

    def give(self, task: Task, piece: Any, first: bool = False) -> None:
        """Have the worker begin a piece. Its answer is the piece's result. first: somebody waits for it who should not notice."""

    def ready(self, seconds: float) -> bool:
        """Whether there is an answer. Waits for it so long."""

    def answer(self) -> Any:
        """The answer. Raises Lost, or what the piece raised."""

    def share(self) -> float:
        """How much of the piece is done, in [0, 1], as far as is known."""

    def stop(self) -> None:
        """The piece is no longer wanted: leave it soon."""

    def end(self) -> None:
        """End the worker at once."""


@dataclass(order=True, slots=True)
class Job:
    """A piece that was asked for. Of those that do not go before others, the earliest one goes first, also when it was lost.

    back    where it comes when it has a result or an error
    wanted  False once nobody waits for it
    """

    later: bool  # False: it goes before those that may be later
    number: int
    task: Task = field(compare=False)
    piece: Any = field(compare=False)
    back: SimpleQueue = field(compare=False)
    result: Any = field(default=None, compare=False)
    error: Exception | None = field(default=None, compare=False)
    share: float = field(default=0.0, compare=False)
    lost: int = field(default=0, compare=False)
    wanted: bool = field(default=True, compare=False)


class WorkerPool:
    """Workers at their seats. They start when the first pieces come, and no more of them than there are pieces.

    started  called whenever a worker was started, before it is given anything
    """

    def __init__(self, seats: Sequence[Worker], started: Callable[[], None] = lambda: None):
        self.seats, self.started, self.width = seats, started, len(seats)
        self.calls: PriorityQueue[Job] = PriorityQueue()
        self.numbers, self.lock = itertools.count(), threading.Lock()
        self.threads: list[threading.Thread] = []
        self.open = self.ready = self.failed = 0  # pieces asked for; workers that are ready; starts that failed in a row
        self.alive, self.ended, self.broken = time.monotonic(), False, None

    @property
    def processes(self) -> list[int]:
        """The numbers of the workers' processes."""
        return [seat.process for seat in self.seats if seat.process is not None]

    def do(self, task: Task, piece: Any, on_progress: ProgressCallback = ignore_progress, first: bool = False) -> Any:
        """The result of one piece. on_progress: called with the share of it that is done; what it raises stops the piece.

        first  whether it goes before all others that wait
        """
        calls = self._asked(task, [piece], first)
        for call in self._back(calls, lambda: on_progress(calls[0].share)):
            return call.result

    def done(self, task: Task, pieces: Sequence[P]) -> Iterator[tuple[P, Any]]:
        """Every piece with its result, each once, in any order. Closing the iterator stops those that are left."""
        for call in self._back(self._asked(task, pieces)):
            yield call.piece, call.result

    def close(self) -> None:
        """End all workers, at once."""
        self.ended = True
        for thread in self.threads:
            thread.join()

    def _asked(self, task: Task, pieces: Sequence[Any], first: bool = False) -> list[Job]:
        back: SimpleQueue[Job] = SimpleQueue()
        with self.lock:
            calls = [Job(not first, next(self.numbers), task, piece, back) for piece in pieces]
            if not self.open:
                self.alive = time.monotonic()
            self.open += len(calls)
            for call in calls:
                self.calls.put(call)
            for seat in self.seats[len(self.threads) : self.open]:
                self.threads.append(threading.Thread(target=self._serve, args=(seat,), daemon=True))
                self.threads[-1].start()
        return calls

    def _back(self, calls: Sequence[Job], look: Callable[[], None] = lambda: None) -> Iterator[Job]:
        """The calls as they come back. Raises the error of one, and ClusterError where there are no workers."""
        try:
            for _ in calls:
                while True:
                    with suppress(Empty):
                        call = calls[0].back.get(timeout=LOOK)
                        break
                    self._check()
                    look()
                if call.error is not None:
                    raise call.error
                yield call
        finally:
            for call in calls:
                call.wanted = False
            with self.lock:
                self.open -= len(calls)

    def _check(self) -> None:
        if self.broken is not None:
            raise ClusterError(f"The workers cannot go on: {self.broken}") from self.broken
        if self.ended:
            raise ClusterError("The workers were ended.")
        if self.ready:
            self.alive = time.monotonic()
        elif time.monotonic() - self.alive > PATIENCE:
            raise ClusterError(f"No worker was ready within {PATIENCE:.0f} s. Are the machines busy with other work?")

    def _serve(self, seat: Worker) -> None:
        """The thread of a seat: starts a worker, brings it pieces, and starts another when it dies."""
        try:
            while not self.ended:
                with suppress(WorkerDiedError):
                    if self._begun(seat):
                        self._pieces(seat)
        except Exception as error:  # told to whoever waits for a piece
            self.broken = error
        finally:
            seat.end()

    def _begun(self, seat: Worker) -> bool:
        """Whether a worker is ready here; False once all shall end."""
        seat.start()
        while not seat.ready(MOMENT):
            if self.ended:
                return False
        try:
            seat.process = seat.answer()
        except WorkerDiedError:
            with self.lock:
                self.failed += 1
            if self.failed > MOST_STARTS:
                raise ClusterError(
                    f"More than {MOST_STARTS} workers died while they started, one after the other. Is there enough memory on each core?"
                ) from None
            raise
        self.started()
        self.failed = 0
        return True

    def _pieces(self, seat: Worker) -> None:
        with self.lock:
            self.ready += 1
        try:
            while not self.ended and not seat.spent:
                with suppress(Empty):
                    call = self.calls.get(timeout=MOMENT)
                    if call.wanted:
                        self._do(seat, call)
        except WorkerDiedError:
            seat.process = None
            raise
        finally:
            with self.lock:
                self.ready -= 1
                self.alive = time.monotonic()

    def _do(self, seat: Worker, call: Job) -> None:
        try:
            seat.give(call.task, call.piece, not call.later)
            while not seat.ready(MOMENT):
                if self.ended:
                    return
                if not call.wanted:
                    seat.stop()
                call.share = seat.share()
            call.result = seat.answer()
        except WorkerDiedError:
            call.lost += 1
            if call.lost <= MOST_LOST:
                self.calls.put(call)
                raise
            call.error = ClusterError(
                f"{str(call.piece).capitalize()}: lost {call.lost} times with the workers that did it. The usual reason is too little "
                "memory for the models, or a machine that is switched off."
            )
            call.back.put(call)
            raise
        except Exception as error:
            call.error = error
        call.back.put(call)
