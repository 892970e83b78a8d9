"""The queue of this server, and the threads that each of its jobs may use."""

from __future__ import annotations

from specviz.jobs.queue import FairQueue
from specviz.process import SharedInstance, count_usable_cores
from specviz.web.hosting import metrics
from specviz.web.hosting.server_options import load_options

EXTRA_PLACES = 2  # places for brief jobs where worker processes compute


@SharedInstance
def get_server_queue() -> FairQueue:
    """The queue of this server, made at the first call."""
    extra = EXTRA_PLACES if load_options().worker_processes else 0
    return FairQueue(load_options().places, each=load_options().places_per_visitor, extra=extra, on_end=metrics.count_ended_work)


def count_threads_per_job() -> int:
    """Most PyTorch threads of each job: with two places on two cores, more would only take turns (docs/explanation/architecture.md)."""
    return max(1, count_usable_cores() // get_server_queue().places)
