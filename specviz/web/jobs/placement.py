"""Where the heavy work of pages is done: in this process, in worker processes beside it, or by the workers of a cluster.

Work in this process shares Python's lock with the pages that are drawn at the same time, and both wait for each other. Workers have
locks of their own. What they are given is a pure function, so it does not matter where it is done.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from specviz.errors import ClusterError
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.web.hosting.options import load_options
from specviz.web.jobs import cache
from specviz.web.jobs.queue import shared, threads_of_a_place

if TYPE_CHECKING:
    from specviz.jobs.remote import RemoteCaller
    from specviz.models.pairs.loading import LoadedPair

NICE = 5  # by how much worker processes stand back for the one that draws pages

_calls: RemoteCaller | None = None


def check() -> None:
    """Raises SpecvizError for a cluster that cannot be used. Fast."""
    if load_options().cluster:
        from specviz.jobs import joining

        joining.check_cluster(load_options().cluster)


@contextmanager
def joined() -> Iterator[None]:
    """While the server runs: in the cluster, if it was given one. To be entered in the main thread, as Ray wants it. Ends all workers."""
    global _calls
    with _in_cluster() if load_options().cluster else nullcontext():
        try:
            yield
        finally:
            calls, _calls = _calls, None
            if calls is not None:
                calls.crew.close()


@contextmanager
def _in_cluster() -> Iterator[None]:
    global _calls
    from specviz.jobs.crews import open_pool
    from specviz.jobs.remote import RemoteCaller
    from specviz.models.pairs.loading import pick_device

    at_sigterm = signal.getsignal(signal.SIGTERM)
    with open_pool(load_options().cluster, pick_device("auto", "auto")[0].type) as workers:
        signal.signal(signal.SIGTERM, at_sigterm)  # Ray takes it for itself
        _calls = RemoteCaller(workers, _pair)
        yield


def start_workers(settings: Settings) -> None:
    """Start the server's workers, if it has any, with a first call on the pair that the settings name. Returns when they are there."""
    global _calls
    if load_options().worker_processes and not load_options().cluster:
        from specviz.jobs.processes import ProcessWorker
        from specviz.jobs.remote import RemoteCaller
        from specviz.jobs.workers import WorkerPool

        _calls = RemoteCaller(WorkerPool([ProcessWorker(NICE, threads_of_a_place()) for _ in range(shared().places)]), _pair)
    if _calls is None:
        return
    from specviz.evidence import decoders, shards

    first = shards.SamplingSpec("speculative", decoders.SHARED, settings, tuple(_pair(settings).encode(settings.prompt)))
    try:
        _calls.start(shards.draw_shard, settings, (first, shards.ShardRange(0, 100)))
    except ClusterError as error:
        logging.getLogger(__name__).warning("there are no workers, so this process does their work: %s", error)


def ready() -> int:
    """How many workers are ready."""
    return _calls.crew.ready if _calls is not None and _calls.ready else 0


def _pair(settings: Settings) -> LoadedPair:
    return cache.weights(settings.pair, settings.device, settings.dtype)


def do(
    function: Callable[..., Any],
    pair: LoadedPair,
    settings: Settings,
    given: tuple,
    on_progress: ProgressCallback,
    words: str,
    first: bool = False,
) -> Any:
    """``function(pair, *given, watch)``, wherever it is called: the result is the same. Without workers it is called here.

    function  of a module without Streamlit, and pure; settings  name the pair; words  what it is for
    on_progress  told the share that is done; what it raises stops the call; first  whether it goes before all others
    """
    if (
        _calls is None or not _calls.ready or (first and load_options().cluster)
    ):  # a round takes less time than the way to a cluster
        return function(pair, *given, on_progress)
    return _calls.do(function, settings, given, on_progress, words, first)
