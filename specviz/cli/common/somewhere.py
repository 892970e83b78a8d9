"""The whole work of a command as a single piece: in this process, or on a worker of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class Whole:
    """A task with one piece: the further arguments of ``work``, a function of a module."""

    work: Callable[..., Any]
    settings: Settings

    def begin(self) -> Callable[[tuple, Any], Any]:
        from specviz.jobs.tasks import allow_paths

        allow_paths(self.settings)
        return lambda more, on_progress: self.work(self.settings, *more)


def somewhere(options: argparse.Namespace, work: Callable[..., Any], settings: Settings, *more: Any) -> Any:
    """``work(settings, *more)``, here or where ``--cluster`` says. The worker reads the pair itself, on the device of the settings."""
    if options.cluster is None:
        return work(settings, *more)
    from specviz.jobs.crews import open_pool

    with open_pool(options.cluster, settings.device) as elsewhere:
        return elsewhere.do(Whole(work, settings), more)
