"""Seats without workers: pieces are done in the seat's own thread, and some are lost on purpose."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from specviz.jobs.workers import WorkerDiedError


class Plan:
    """What goes wrong at several seats.

    lost    text of a piece -> how often it is lost
    held    pieces that are under way until they are no longer wanted
    starts  how many starts fail, from the first
    life    pieces after which a worker is replaced
    """

    def __init__(self, lost: dict[str, int] | None = None, held: set[str] = frozenset(), starts: int = 0, life: int = 10**6):
        self.lost, self.held, self.starts, self.life = dict(lost or {}), held, starts, life
        self.done: list[str] = []
        self.begun: list[Any] = []
        self.numbers = itertools.count(1)


class PretendSeat:
    @property
    def spent(self) -> bool:
        return self.given >= self.plan.life

    def __init__(self, plan: Plan):
        self.plan = plan
        self.process: int | None = None
        self.result: Callable[[], Any] | None = None
        self.task, self.doing, self.stopped, self.ends, self.given = None, "", 0, 0, 0

    def start(self) -> None:
        number, self.given = next(self.plan.numbers), 0
        self.task, self.doing, self.result = None, "", (lambda: number) if number > self.plan.starts else _lost

    def give(self, task: Any, piece: Any, first: bool = False) -> None:
        self.given += 1
        if task != self.task:
            self.plan.begun.append(task)
            self.task, self.doer = task, task.begin()
        self.doing, self.result = str(piece), lambda: self.doer(piece, lambda share: None)
        if str(piece) in self.plan.held:
            self.result = None
        if self.plan.lost.get(str(piece), 0):
            self.plan.lost[str(piece)] -= 1
            self.result = _lost

    def ready(self, seconds: float) -> bool:
        return self.result is not None

    def answer(self) -> Any:
        result = self.result()
        if self.doing:
            self.plan.done.append(self.doing)
        return result

    def share(self) -> float:
        return 0.5

    def stop(self) -> None:
        self.stopped += 1
        self.result = lambda: None

    def end(self) -> None:
        self.process, self.ends = None, self.ends + 1


def _lost() -> Any:
    raise WorkerDiedError
