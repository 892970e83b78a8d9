"""Seats on a pretended Ray: who gets a seat, which errors mean that a worker died, and how a piece is left."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.errors import ClusterError
from specviz.jobs import workers
from specviz.jobs.actors import ASIDE, RayWorker, create_ray_workers
from specviz.jobs.task_runner import Stopped, TaskRunner
from specviz.jobs.workers import WorkerDiedError, WorkerPool


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        self.cause = cause


class ActorDiedError(RayError):
    pass


class PretendedRay:
    """A reference is a list with what ``get`` does: what an actor does beside its work is done at once, its work when it is got."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, **resources: float):
        self.resources, self.asked, self.killed, self.dead = resources, {}, [], False

    def cluster_resources(self):
        return self.resources

    def remote(self, **asked):
        self.asked = asked
        return lambda kind: SimpleNamespace(remote=lambda: Actor(self, kind()))

    def wait(self, references, timeout):
        return references, []

    def get(self, reference, timeout=None):
        if self.dead:
            raise ActorDiedError
        try:
            return reference[0]()
        except Exception as error:
            raise RayTaskError(error) from None

    def kill(self, actor):
        self.killed.append(actor)


class Actor:
    def __init__(self, ray: PretendedRay, worker: TaskRunner):
        self.ray, self.worker, self.groups = ray, worker, []

    def __getattr__(self, name: str) -> Any:
        def options(concurrency_group):
            self.groups.append(concurrency_group)
            return SimpleNamespace(remote=beside)

        def beside(*given):
            answer = getattr(self.worker, name)(*given)
            return [lambda: answer]

        return SimpleNamespace(remote=lambda *given: [lambda: getattr(self.worker, name)(*given)], options=options)


class Halving:
    def begin(self):
        def halve(piece, on_progress):
            on_progress(0.5)
            return piece // 2

        return halve


class Refused:
    def begin(self):
        raise ClusterError("it has another pair")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "MOMENT", 0.01)
    monkeypatch.setattr("specviz.jobs.task_runner.gc.freeze", lambda: None)
    monkeypatch.setattr("specviz.jobs.task_runner.torch.set_num_threads", lambda number: None)


@pytest.mark.parametrize(("device", "width", "needs"), [("cpu", 3, {"num_cpus": 1}), ("cuda", 2, {"num_cpus": 0, "num_gpus": 1})])
def test_each_cpu_has_a_seat_or_each_gpu_for_a_pair_on_one(device, width, needs):
    ray = PretendedRay(CPU=3.0, GPU=2.0)
    assert len(create_ray_workers(ray, device)) == width
    assert needs.items() <= ray.asked.items() and ray.asked["max_restarts"] == ray.asked["max_task_retries"] == 0


def test_a_cluster_without_what_the_pair_needs_is_a_sentence():
    with pytest.raises(ClusterError, match="The cluster has no GPU, and the pair is on cuda"):
        create_ray_workers(PretendedRay(CPU=3.0), "cuda")


def test_a_crew_of_actors_does_pieces_and_passes_on_what_has_a_sentence():
    ray = PretendedRay(CPU=2.0)
    with closing(WorkerPool(create_ray_workers(ray, "cpu"))) as crew:
        assert dict(crew.done(Halving(), range(9))) == {n: n // 2 for n in range(9)}
        with pytest.raises(ClusterError, match="A worker stopped: it has another pair"):
            crew.do(Refused(), 1)
        with pytest.raises(TypeError):
            crew.do(Halving(), "text")
    assert len(ray.killed) == len(crew.threads) == 2, "actors end with the crew"


def test_any_other_error_of_ray_means_that_the_worker_is_lost():
    ray = PretendedRay(CPU=1.0)
    (seat,) = create_ray_workers(ray, "cpu")
    seat.start()
    assert seat.answer() > 0
    seat.give(Halving(), 8)
    ray.dead = True
    assert seat.share() == 0.0
    with pytest.raises(WorkerDiedError):
        seat.answer()


def test_a_piece_is_left_by_its_number_beside_the_work_and_the_next_is_done():
    ray = PretendedRay(CPU=1.0)
    seat: RayWorker = create_ray_workers(ray, "cpu")[0]
    seat.start()
    seat.answer()
    seat.give(Halving(), 8)
    seat.stop()
    with pytest.raises(Stopped):
        seat.answer()
    seat.give(Halving(), 10)
    assert seat.answer() == 5 and seat.share() == 0.5
    assert set(seat.actor.groups) == {ASIDE}
