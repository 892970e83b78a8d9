"""The workers that a command asks for: those of a cluster, processes of this machine, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from specviz.jobs.actors import seats
from specviz.jobs.dispatch import Crew
from specviz.jobs.joining import AUTO, joined, listeners, refuse_listeners
from specviz.jobs.processes import ProcessSeat


@contextmanager
def crew(where: str | None, device: str, processes: int = 1) -> Iterator[Crew | None]:
    """Workers for a pair on ``device``; they end with the context. None: this process does everything.

    where      AUTO or HOST:PORT of a cluster; None: no cluster
    processes  without a cluster, how many worker processes of this machine, if more than one
    """
    with ExitStack() as opened:
        if where is not None:
            before = listeners()
            ray = opened.enter_context(joined(where, before))
            made = Crew(seats(ray, device), partial(refuse_listeners, before) if where == AUTO else lambda: None)
        elif processes > 1:
            made = Crew([ProcessSeat() for _ in range(processes)])
        else:
            yield None
            return
        yield opened.enter_context(closing(made))
