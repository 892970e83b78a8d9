"""Workers on a Ray cluster: an actor per CPU, or per GPU, each with the pair in memory. A dead one is replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from specviz.cluster.dispatch import drawn
from specviz.cluster.joining import AUTO, joined, refuse_listeners
from specviz.decoding.samples import Samples
from specviz.errors import ClusterError, SpecvizError
from specviz.evidence import sources
from specviz.evidence.saved import first_difference
from specviz.evidence.shards import Cut, Work, described
from specviz.models.pairs.loading import Pair, load_pair
from specviz.settings import Settings

AHEAD = 2  # shards that a worker has been given: it draws one while the other waits
MOMENT = 0.5  # seconds that ``back`` waits
PATIENCE = 180.0  # seconds without a single worker after which a run ends; reading large weights takes a while
MOST_STARTS = 10  # workers that may die before they are ready, in a row


class Worker:
    """What runs on the cluster: reads the pair once, then draws shards."""

    def begin(self, settings: Settings, device: str, folder: str) -> dict[str, Any]:
        """Read the pair, and say which models and versions these are.

        One thread, because each core has a worker.
        """
        torch.set_num_threads(1)
        with suppress(OSError):  # another machine may not have it; a folder with a relative name is then not found
            os.chdir(folder)
        self.pair = load_pair(settings.pair, device, settings.dtype)
        return described(self.pair) | {"process": os.getpid()}

    def draw(self, work: Work, cut: Cut) -> Samples:
        return sources.draw(work.name, work.mode, self.pair, work.settings, work.ids, cut.first, cut.count)


@dataclass(frozen=True, slots=True)
class Call:
    """What an actor was asked to do: a shard, or None while it reads the pair."""

    actor: Any
    cut: Cut | None


class RayPool:
    """The workers, as ``shards.draw_all`` and ``dispatch.drawn`` want them. They start when the first shards come.

    width   workers at most: the CPUs of the cluster, or its GPUs if the pair is on one
    ready   called whenever a worker has read the pair, before it is given anything
    """

    def __init__(self, ray: Any, pair: Pair, settings: Settings, ready: Callable[[], None] = lambda: None):
        self.ray, self.settings, self.ready = ray, settings, ready
        self.device, self.described = pair.target.device.type, described(pair)
        resource = "GPU" if self.device == "cuda" else "CPU"
        self.width = int(ray.cluster_resources().get(resource, 0))
        if not self.width:
            raise ClusterError(f"The cluster has no {resource}, and the pair is on {self.device}.")
        needs = {"num_cpus": 0, "num_gpus": 1} if resource == "GPU" else {"num_cpus": 1}
        self.kind = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Worker)
        self.calls: dict[Any, Call] = {}
        self.load: dict[Any, int] = {}  # shards of each worker that is ready
        self.processes: dict[Any, int] = {}  # number of its process, on its machine
        self.failed, self.alive = 0, time.monotonic()

    def drawn(self, work: Work, cuts: Sequence[Cut]) -> Iterator[Samples]:
        while len(self._workers()) < min(self.width, len(cuts)):
            self._start()
        return drawn(self, work, cuts)

    def room(self) -> bool:
        return min(self.load.values(), default=AHEAD) < AHEAD

    def give(self, work: Work, cut: Cut) -> None:
        actor = min(self.load, key=self.load.__getitem__)
        self.load[actor] += 1
        self.calls[actor.draw.remote(work, cut)] = Call(actor, cut)

    def back(self) -> Iterator[tuple[Cut, Samples | None]]:
        found, _ = self.ray.wait(list(self.calls), num_returns=1, timeout=MOMENT)
        for reference in found:
            call = self.calls.pop(reference)
            answer = self._answer(reference, call)
            if call.cut is not None:
                yield call.cut, answer
            elif answer is not None:
                self._begun(call.actor, answer)
        if self.load:
            self.alive = time.monotonic()
        elif time.monotonic() - self.alive > PATIENCE:
            raise ClusterError(
                f"No worker of the cluster was ready within {PATIENCE:.0f} s. Are its machines busy with other work?"
            )

    def _answer(self, reference: Any, call: Call) -> Any:
        """What a call returned; None if its worker died."""
        errors = self.ray.exceptions
        try:
            answer = self.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, SpecvizError):
                raise ClusterError(f"A worker of the cluster stopped: {error.cause}") from None
            raise
        except errors.RayActorError:
            self.processes.pop(call.actor, None)
            if self.load.pop(call.actor, None) is not None or call.cut is None:
                self._start()
            self.failed += call.cut is None
            if self.failed > MOST_STARTS:
                raise ClusterError(
                    f"{self.failed} workers of the cluster died while they read the pair. Is there enough memory for it on each core?"
                ) from None
            return None
        except errors.RayError:  # the answer was lost with the machine that held it
            answer = None
        if call.cut is not None and call.actor in self.load:
            self.load[call.actor] -= 1
        return answer

    def _begun(self, actor: Any, theirs: dict[str, Any]) -> None:
        process = theirs.pop("process")
        if other := first_difference(self.described, theirs):
            raise ClusterError(f"A worker of the cluster has other models or versions than this machine: {other} there.")
        self.ready()
        self.load[actor], self.processes[actor], self.failed = 0, process, 0

    def _start(self) -> None:
        actor = self.kind.remote()
        self.calls[actor.begin.remote(self.settings, self.device, os.getcwd())] = Call(actor, None)

    def _workers(self) -> set[Any]:
        return {*self.load, *(call.actor for call in self.calls.values())}


@contextmanager
def pool(where: str | None, pair: Pair, settings: Settings) -> Iterator[RayPool | None]:
    """The workers of a cluster, AUTO or HOST:PORT; None for no cluster."""
    if where is None:
        yield None
        return
    with joined(where) as ray:
        yield RayPool(ray, pair, settings, refuse_listeners if where == AUTO else lambda: None)
