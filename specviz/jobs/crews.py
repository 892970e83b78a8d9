"""The workers that a command asks for: those of a cluster, processes of this machine, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from specviz.jobs.actors import create_ray_workers
from specviz.jobs.joining import AUTO, find_listeners, join_cluster, refuse_listeners
from specviz.jobs.processes import ProcessWorker
from specviz.jobs.workers import WorkerPool


@contextmanager
def open_pool(where: str | None, device: str, processes: int = 1) -> Iterator[WorkerPool | None]:
    """Workers for a pair on ``device``; they end with the context. None: this process does everything.

    where      AUTO or HOST:PORT of a cluster; None: no cluster
    processes  without a cluster, how many worker processes of this machine, if more than one
    """
    with ExitStack() as opened:
        if where is not None:
            before = find_listeners()
            ray = opened.enter_context(join_cluster(where, before))
            made = WorkerPool(
                create_ray_workers(ray, device), partial(refuse_listeners, before) if where == AUTO else lambda: None
            )
        elif processes > 1:
            made = WorkerPool([ProcessWorker() for _ in range(processes)])
        else:
            yield None
            return
        yield opened.enter_context(closing(made))
