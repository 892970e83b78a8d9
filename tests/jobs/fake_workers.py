"""Workers without processes: jobs run in the thread of their worker, and some are lost on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from specviz.jobs.workers import WorkerDiedError


class FaultPlan:
    """What goes wrong in several workers, and what they did.

    deaths         text of an item -> how often its worker dies
    held           items that run until they are cancelled
    failed_starts  how many starts fail, from the first
    max_jobs       jobs after which a worker is replaced
    """

    def __init__(
        self, deaths: dict[str, int] | None = None, held: set[str] = frozenset(), failed_starts: int = 0, max_jobs: int = 10**6
    ):
        self.deaths, self.held, self.failed_starts, self.max_jobs = dict(deaths or {}), held, failed_starts, max_jobs
        self.done: list[str] = []
        self.prepared: list[Any] = []
        self.numbers = itertools.count(1)


class FakeWorker:
    def __init__(self, plan: FaultPlan):
        self.plan = plan
        self.pid: int | None = None
        self.result: Callable[[], Any] | None = None
        self.task, self.item, self.cancels, self.kills, self.jobs_sent = None, "", 0, 0, 0

    @property
    def is_worn_out(self) -> bool:
        return self.jobs_sent >= self.plan.max_jobs

    def start(self) -> None:
        number, self.jobs_sent = next(self.plan.numbers), 0
        self.task, self.item, self.result = None, "", (lambda: number) if number > self.plan.failed_starts else _die

    def send(self, task: Any, item: Any, urgent: bool = False) -> None:
        self.jobs_sent += 1
        if task != self.task:
            self.plan.prepared.append(task)
            self.task, self.function = task, task.prepare()
        self.item, self.result = str(item), lambda: self.function(item, lambda share: None)
        if str(item) in self.plan.held:
            self.result = None
        if self.plan.deaths.get(str(item), 0):
            self.plan.deaths[str(item)] -= 1
            self.result = _die

    def wait(self, seconds: float) -> bool:
        return self.result is not None

    def receive(self) -> Any:
        result = self.result()
        if self.item:
            self.plan.done.append(self.item)
        return result

    def read_share(self) -> float:
        return 0.5

    def cancel(self) -> None:
        self.cancels += 1
        self.result = lambda: None

    def kill(self) -> None:
        self.pid, self.kills = None, self.kills + 1


def _die() -> Any:
    raise WorkerDiedError


def list_pids(pool) -> list[int]:
    """Process ids of the workers of a pool that are ready."""
    return [worker.pid for worker in pool.workers if worker.pid is not None]
