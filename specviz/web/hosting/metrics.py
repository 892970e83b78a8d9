"""Prometheus metrics at /metrics: counts and times, no text and no id of a visitor."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)  # memory and processor time, as every exporter names them

VISITORS = Gauge("specviz_open_pages", "Pages that are open, by their sockets", registry=REGISTRY)
WAITING = Gauge("specviz_queue_waiting", "Pieces of work in the line", registry=REGISTRY)
WORKING = Gauge("specviz_queue_working", "Pieces of work at a place", registry=REGISTRY)
WORKERS = Gauge("specviz_workers", "Worker processes, or workers of a cluster, that are ready", registry=REGISTRY)
RUNS = Counter("specviz_page_runs", "Times a page was drawn", ["page"], registry=REGISTRY)
ERRORS = Counter("specviz_page_errors", "Errors that no page expects", registry=REGISTRY)
WORK = Counter("specviz_work", "Pieces of work that ended, by how: done, stopped or failed", ["page", "end"], registry=REGISTRY)
WAIT = Histogram(
    "specviz_work_wait_seconds", "Time until a piece of work got its first place", ["page"], buckets=SECONDS, registry=REGISTRY
)
TOOK = Histogram("specviz_work_seconds", "Time of a piece of work at its place", ["page"], buckets=SECONDS, registry=REGISTRY)
ROUNDS = Counter("specviz_rounds", "Rounds that were decoded for visitors", ["page"], registry=REGISTRY)
SAMPLES = Counter("specviz_samples", "Samples that were drawn, of each decoder", ["page"], registry=REGISTRY)


def count_ended_work(ticket: Any) -> None:
    """Count a ticket of the queue that has ended."""
    WORK.labels(ticket.page, ticket.state).inc()
    if ticket.waited is not None:
        WAIT.labels(ticket.page).observe(ticket.waited)
        TOOK.labels(ticket.page).observe(ticket.seconds_worked)
