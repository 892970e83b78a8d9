"""Workers on a fake Ray: how many there are, which errors mean that a worker died, and how a job is cancelled."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.errors import CancelledError, ClusterError
from specviz.jobs import workers
from specviz.jobs.ray import CONTROL_GROUP, RayWorker, create_ray_workers
from specviz.jobs.task_runner import TaskRunner
from specviz.jobs.workers import WorkerDiedError, WorkerPool


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        self.cause = cause


class ActorDiedError(RayError):
    pass


class FakeRay:
    """A reference is a list with what ``get`` does: what an actor does beside its work is done at once, its work when it is got."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, **resources: float):
        self.resources, self.options, self.killed, self.dead = resources, {}, [], False

    def cluster_resources(self):
        return self.resources

    def remote(self, **options):
        self.options = options
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
    def __init__(self, ray: FakeRay, worker: TaskRunner):
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
    def prepare(self):
        def halve(item, on_progress):
            on_progress(0.5)
            return item // 2

        return halve


class Refused:
    def prepare(self):
        raise ClusterError("it has another pair")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "WORKER_POLL", 0.01)
    monkeypatch.setattr("specviz.jobs.task_runner.gc.freeze", lambda: None)
    monkeypatch.setattr("specviz.jobs.task_runner.limit_threads", lambda count: None)


@pytest.mark.parametrize(("device", "count", "needs"), [("cpu", 3, {"num_cpus": 1}), ("cuda", 2, {"num_cpus": 0, "num_gpus": 1})])
def test_each_cpu_has_a_worker_or_each_gpu_for_a_pair_on_one(device, count, needs):
    ray = FakeRay(CPU=3.0, GPU=2.0)
    assert len(create_ray_workers(ray, device)) == count
    assert needs.items() <= ray.options.items() and ray.options["max_restarts"] == ray.options["max_task_retries"] == 0


def test_a_cluster_without_what_the_pair_needs_is_a_sentence():
    with pytest.raises(ClusterError, match="The cluster has no GPU, and the pair is on cuda"):
        create_ray_workers(FakeRay(CPU=3.0), "cuda")


def test_a_pool_of_actors_runs_jobs_and_passes_on_their_errors():
    ray = FakeRay(CPU=2.0)
    with closing(WorkerPool(create_ray_workers(ray, "cpu"))) as pool:
        assert dict(pool.run_all(Halving(), range(9))) == {n: n // 2 for n in range(9)}
        with pytest.raises(ClusterError, match="A worker stopped: it has another pair"):
            pool.run(Refused(), 1)
        with pytest.raises(TypeError):
            pool.run(Halving(), "text")
    assert len(ray.killed) == len(pool.threads) == 2, "actors end with the pool"


def test_any_other_error_of_ray_means_that_the_worker_died():
    ray = FakeRay(CPU=1.0)
    (worker,) = create_ray_workers(ray, "cpu")
    worker.start()
    assert worker.receive() > 0
    worker.send(Halving(), 8)
    ray.dead = True
    assert worker.read_share() == 0.0
    with pytest.raises(WorkerDiedError):
        worker.receive()


def test_a_job_is_cancelled_by_its_number_while_it_runs_and_the_next_one_runs():
    ray = FakeRay(CPU=1.0)
    worker: RayWorker = create_ray_workers(ray, "cpu")[0]
    worker.start()
    worker.receive()
    worker.send(Halving(), 8)
    worker.cancel()
    with pytest.raises(CancelledError):
        worker.receive()
    worker.send(Halving(), 10)
    assert worker.receive() == 5 and worker.read_share() == 0.5
    assert set(worker.actor.groups) == {CONTROL_GROUP}
