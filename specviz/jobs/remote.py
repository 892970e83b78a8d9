"""Open a pool of workers, and call functions in it: functions of a pair, as the pages need them, or the whole work of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from specviz.errors import SpecvizError
from specviz.jobs import ray
from specviz.jobs.processes import ProcessWorker
from specviz.jobs.tasks import PairRef, allow_paths
from specviz.jobs.workers import WorkerPool
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings

PairFunction = Callable[..., Any]  # (pair, *arguments, on_progress) -> anything that can be sent; defined in a module, and pure


@contextmanager
def open_pool(where: str | None, device: str, processes: int = 1) -> Iterator[WorkerPool | None]:
    """Open a pool of workers for a pair on ``device``; they end with the context. None: this process does all work.

    ``where`` is ray.AUTO or HOST:PORT of a cluster; without one ``processes`` workers of this machine are started, if more than
    one.
    """
    with ExitStack() as stack:
        if where is not None:
            before = ray.find_listeners()
            cluster = stack.enter_context(ray.join_cluster(where, before))
            check = partial(ray.refuse_new_listeners, before) if where == ray.AUTO else lambda: None
            pool = WorkerPool(ray.create_ray_workers(cluster, device), check)
        elif processes > 1:
            pool = WorkerPool([ProcessWorker() for _ in range(processes)])
        else:
            yield None
            return
        yield stack.enter_context(closing(pool))


@dataclass(frozen=True, slots=True)
class CommandTask:
    """A task with one item: the further arguments of ``function``, which a module defines."""

    function: Callable[..., Any]
    settings: Settings

    def prepare(self) -> Callable[[tuple, ProgressCallback], Any]:
        allow_paths(self.settings)
        return lambda arguments, on_progress: self.function(self.settings, *arguments)


def run_remote(where: str | None, function: Callable[..., Any], settings: Settings, *arguments: Any) -> Any:
    """Call ``function(settings, *arguments)`` on one worker of a cluster; without one (None), in this process.

    The worker loads the pair itself, on the device of the settings.
    """
    if where is None:
        return function(settings, *arguments)
    with open_pool(where, settings.device) as pool:
        assert pool is not None, "a cluster has workers"
        return pool.run(CommandTask(function, settings), arguments)


@dataclass(frozen=True, slots=True)
class PairFunctionTask:
    """Calls of a function of a pair. A worker reads no files that the settings name: a link could name them."""

    pair: PairRef
    function: PairFunction

    def prepare(self) -> Callable[[Arguments, ProgressCallback], tuple[Any, SpecvizError | None]]:
        pair = self.pair.load()

        def call(arguments: Arguments, on_progress: ProgressCallback) -> tuple[Any, SpecvizError | None]:
            try:
                return self.function(pair, *arguments.values, on_progress), None
            except SpecvizError as error:  # returned, so that the caller gets it unchanged
                return None, error

        return call


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call. description: what the call is for, in messages."""

    description: str
    values: tuple[Any, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.description


class RemoteCaller:
    """Calls functions of a pair in the workers of a pool. ``load_pair`` gives the pair of this process. Thread-safe."""

    def __init__(self, pool: WorkerPool, load_pair: Callable[[Settings], LoadedPair]):
        self.pool, self.load_pair = pool, load_pair
        self.is_warm = False
        self.pair_refs: dict[tuple[str, str, str], PairRef] = {}

    @property
    def is_ready(self) -> bool:
        """Whether a worker is ready. None is while they start, or after a failure of the pool."""
        return self.is_warm and self.pool.ready_workers > 0 and self.pool.failure is None

    def call(
        self,
        function: PairFunction,
        settings: Settings,
        arguments: tuple[Any, ...],
        on_progress: ProgressCallback = ignore_progress,
        description: str = "work",
        urgent: bool = False,
    ) -> Any:
        """Call ``function(pair, *arguments, on_progress)`` in a worker and return the result. Urgent calls go first.

        ``settings`` names the pair. What ``on_progress`` raises cancels the call. Raises the function's SpecvizError, and
        ClusterError if there are no workers, or they died again and again.
        """
        task = PairFunctionTask(self._find_pair_ref(settings), function)
        result, error = self.pool.run(task, Arguments(description, arguments), on_progress, urgent)
        if error is not None:
            raise error
        return result

    def warm_up(self, function: PairFunction, settings: Settings, arguments: tuple[Any, ...]) -> None:
        """Start all workers and have each load the pair, by one call of the function for each worker."""
        task = PairFunctionTask(self._find_pair_ref(settings), function)
        for _ in self.pool.run_all(task, [Arguments("a first call", arguments)] * self.pool.size):
            pass
        self.is_warm = True

    def _find_pair_ref(self, settings: Settings) -> PairRef:
        key = settings.pair, settings.device, settings.dtype
        if key not in self.pair_refs:  # two threads may compute the same; hashing the weights takes a moment
            self.pair_refs[key] = PairRef.from_pair(self.load_pair(settings), settings)
        return self.pair_refs[key]
