"""Workers on a Ray cluster: an actor each, with a CPU, or with a GPU for a pair that is on one."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from specviz.errors import ClusterError
from specviz.jobs.task_runner import TaskRunner
from specviz.jobs.tasks import Task
from specviz.jobs.workers import MOMENT, WorkerDiedError

ASIDE = "aside"  # thread of an actor that answers while another one works


class RayWorker:
    """As dispatch.Seat.

    kind  the class of the actor, as Ray wants it
    """

    spent = False  # Ray's own affair

    def __init__(self, ray: Any, kind: Any):
        self.ray, self.kind = ray, kind
        self.process: int | None = None
        self.actor: Any = None
        self.reference: Any = None
        self.given = 0

    def start(self) -> None:
        self.end()
        self.actor, self.given = self.kind.remote(), 0
        self.reference = self.actor.begin.remote(os.getcwd())

    def give(self, task: Task, piece: Any, first: bool = False) -> None:
        self.given += 1
        self.reference = self.actor.do.remote(self.given, task, piece)

    def ready(self, seconds: float) -> bool:
        return bool(self.ray.wait([self.reference], timeout=seconds)[0])

    def answer(self) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(self.reference)
        except errors.RayTaskError as error:
            raise error.cause or error from None
        except errors.RayError:  # the actor died, or the machine that held the answer
            raise WorkerDiedError from None

    def share(self) -> float:
        with suppress(self.ray.exceptions.RayError):  # it has died, or is too busy to say
            return self.ray.get(self.actor.share.options(concurrency_group=ASIDE).remote(), timeout=MOMENT)
        return 0.0

    def stop(self) -> None:
        self.actor.stop.options(concurrency_group=ASIDE).remote(self.given)

    def end(self) -> None:
        self.process = None
        if self.actor is not None:
            with suppress(self.ray.exceptions.RayError):  # Ray has ended, and the actor with it
                self.ray.kill(self.actor)
            self.actor = None


def create_ray_workers(ray: Any, device: str) -> list[RayWorker]:
    """A seat for each CPU of the cluster, or for each GPU if the pair is on one. Raises ClusterError if there is none."""
    resource = "GPU" if device == "cuda" else "CPU"
    width = int(ray.cluster_resources().get(resource, 0))
    if not width:
        raise ClusterError(f"The cluster has no {resource}, and the pair is on {device}.")
    needs = {"num_cpus": 0, "num_gpus": 1} if resource == "GPU" else {"num_cpus": 1}
    kind = ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={ASIDE: 1}, **needs)(TaskRunner)
    return [RayWorker(ray, kind) for _ in range(width)]
