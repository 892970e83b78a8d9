"""A function of a pair, called in a worker: what the pages have done outside their process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specviz.errors import SpecvizError
from specviz.jobs.tasks import PairRef
from specviz.jobs.workers import WorkerPool
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings

Function = Callable[..., Any]  # (pair, *arguments, watch) -> anything that can be sent; of a module, and pure


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """The calls of a function, as a task. A worker reads no files that settings name: a link could name them."""

    pair: PairRef
    function: Function

    def begin(self) -> Callable[[FunctionArguments, ProgressCallback], tuple[Any, SpecvizError | None]]:
        pair = self.pair.read()

        def call(given: FunctionArguments, on_progress: ProgressCallback) -> tuple[Any, SpecvizError | None]:
            try:
                return self.function(pair, *given.all, on_progress), None
            except SpecvizError as error:  # goes back as it is: the caller knows what to do with it
                return None, error

        return call


@dataclass(frozen=True, slots=True)
class FunctionArguments:
    """Of one call. words: what it is for, for a sentence about it."""

    words: str
    all: tuple[Any, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.words


class RemoteCaller:
    """Calls functions in the workers of a crew, for any number of threads at once.

    pair_of  settings -> the pair as this process has it; a worker with another one is refused
    """

    def __init__(self, crew: WorkerPool, pair_of: Callable[[Settings], LoadedPair]):
        self.crew, self.pair_of = crew, pair_of
        self.started = False
        self.known: dict[tuple[str, str, str], PairRef] = {}

    @property
    def ready(self) -> bool:
        """Whether a worker is there. None may be: they start, or have come to an end that they do not come back from."""
        return self.started and self.crew.ready > 0 and self.crew.broken is None

    def do(
        self,
        function: Function,
        settings: Settings,
        given: tuple[Any, ...],
        on_progress: ProgressCallback = ignore_progress,
        words: str = "work",
        first: bool = False,
    ) -> Any:
        """What ``function(pair, *given, watch)`` returns. on_progress: called with the share that is done; what it raises stops the call.

        settings  name the pair; first  whether it goes before all others that wait for a worker. Raises the function's
                  SpecvizError, and ClusterError if there are no workers, or the call is lost again and again.
        """
        found, error = self.crew.do(
            FunctionTask(self._there(settings), function), FunctionArguments(words, given), on_progress, first
        )
        if error is not None:
            raise error
        return found

    def start(self, function: Function, settings: Settings, given: tuple[Any, ...]) -> None:
        """Call a function once for each worker, which starts them all and has them read the pair. Only then they are ready."""
        for _ in self.crew.done(
            FunctionTask(self._there(settings), function), [FunctionArguments("a first call", given)] * self.crew.width
        ):
            pass
        self.started = True

    def _there(self, settings: Settings) -> PairRef:
        key = settings.pair, settings.device, settings.dtype
        if key not in self.known:  # two threads may find the same out: hashing the weights takes a moment
            self.known[key] = PairRef.of(self.pair_of(settings), settings)
        return self.known[key]
