"""The workers of this server: none, worker processes, or those of a cluster. Pages call heavy functions through ``run_in_worker``.

A computation in this process shares the GIL with the pages that are drawn at the same time, and both wait for each other. Worker
processes have their own. The functions are pure, so the result is the same everywhere.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.errors import ClusterError
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.web.hosting import cache
from specviz.web.hosting.server_options import load_options
from specviz.web.hosting.server_queue import count_threads_per_job, get_server_queue

if TYPE_CHECKING:
    from specviz.jobs.remote import RemoteCaller
    from specviz.models.pairs.loading import LoadedPair

NICE = 5  # niceness of worker processes, so that the process that draws pages goes first
FIRST_SAMPLES, FIRST_TOKENS = 100, 2  # of a worker's first call: enough to read all weights, and done within a moment

_caller: RemoteCaller | None = None


def check_cluster() -> None:
    """Check the cluster of the server's options, within seconds. Raises SpecvizError if it cannot be used."""
    if load_options().cluster:
        from specviz.jobs import ray

        ray.check_cluster(load_options().cluster)


@contextmanager
def open_workers() -> Iterator[None]:
    """Join the cluster, if the server has one, and end all workers with the context. Enter it in the main thread, which Ray needs."""
    global _caller
    with _open_cluster() if load_options().cluster else nullcontext():
        try:
            yield
        finally:
            caller, _caller = _caller, None
            if caller is not None:
                caller.pool.close()


@contextmanager
def _open_cluster() -> Iterator[None]:
    global _caller
    from specviz.jobs.remote import RemoteCaller, open_pool
    from specviz.models.pairs.loading import pick_device

    at_sigterm = signal.getsignal(signal.SIGTERM)
    with open_pool(load_options().cluster, pick_device("auto", "auto")[0].type) as pool:
        signal.signal(signal.SIGTERM, at_sigterm)  # Ray replaces the handler
        assert pool is not None, "a cluster was named"
        _caller = RemoteCaller(pool, _load_pair)
        yield


def start_workers(settings: Settings) -> None:
    """Start the server's workers, if it has any, and load the pair that the settings name in each. Returns when they are ready.

    A worker is ready once it has drawn a few short samples, however long the texts of the settings are.
    """
    global _caller
    if load_options().worker_processes and not load_options().cluster:
        from specviz.jobs.processes import ProcessWorker
        from specviz.jobs.remote import RemoteCaller
        from specviz.jobs.workers import WorkerPool

        _caller = RemoteCaller(
            WorkerPool([ProcessWorker(NICE, count_threads_per_job()) for _ in range(get_server_queue().places)]), _load_pair
        )
    if _caller is None:
        return
    from specviz.evidence.decoder import SHARED
    from specviz.evidence.sampling.session import SamplingSpec, ShardRange, draw_shard

    short = replace(settings, max_new_tokens=min(FIRST_TOKENS, settings.max_new_tokens))
    first = SamplingSpec("speculative", SHARED, short, tuple(_load_pair(settings).encode(settings.prompt)))
    try:
        _caller.warm_up(draw_shard, settings, (first, ShardRange(0, FIRST_SAMPLES)))
    except ClusterError as error:
        logging.getLogger(__name__).warning("there are no workers, so this process does their work: %s", error)


def count_ready_workers() -> int:
    """Number of workers that are ready; 0 on a server without workers."""
    return _caller.pool.ready_workers if _caller is not None and _caller.is_ready else 0


def _load_pair(settings: Settings) -> LoadedPair:
    return cache.load_weights(settings.pair, settings.device, settings.dtype)


def run_in_worker(
    function: Callable[..., Any],
    pair: LoadedPair,
    settings: Settings,
    arguments: tuple,
    on_progress: ProgressCallback,
    description: str,
    urgent: bool = False,
) -> Any:
    """Call ``function(pair, *arguments, on_progress)`` in a worker; without workers, in this process. The result is the same.

    function     pure, of a module that does not import Streamlit
    settings     name the pair
    on_progress  called with the share that is done; what it raises cancels the call
    description  what the call is for, in messages
    urgent       whether it goes before all calls that wait
    """
    is_local = urgent and load_options().cluster  # a round takes less time than the way to a cluster
    if _caller is None or not _caller.is_ready or is_local:
        return function(pair, *arguments, on_progress)
    return _caller.call(function, settings, arguments, on_progress, description, urgent)
