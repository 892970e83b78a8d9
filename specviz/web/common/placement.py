"""Where the samples of Is it exact? are drawn: in this process, or by the workers of a cluster if the server was given one."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specviz.settings import Settings
from specviz.web.common import cache
from specviz.web.hosting.options import options

if TYPE_CHECKING:
    from specviz.cluster.sampler import ClusterSampler
    from specviz.decoding.sampler import Watch
    from specviz.decoding.samples import Samples
    from specviz.models.pairs.loading import Pair

_sampler: ClusterSampler | None = None


def check() -> None:
    """Raises SpecvizError for a cluster that cannot be used. Fast."""
    if options().cluster:
        from specviz.cluster import joining

        joining.check(options().cluster)


@contextmanager
def joined() -> Iterator[None]:
    """While the server runs: in the cluster, if it was given one. To be entered in the main thread, as Ray wants it."""
    global _sampler
    if not options().cluster:
        yield
        return
    from specviz.cluster.crews import crew
    from specviz.cluster.sampler import ClusterSampler
    from specviz.models.pairs.loading import pick_device

    at_sigterm = signal.getsignal(signal.SIGTERM)
    with crew(options().cluster, pick_device("auto", "auto")[0].type) as workers:
        signal.signal(signal.SIGTERM, at_sigterm)  # Ray takes it for itself
        _sampler = ClusterSampler(workers, lambda settings: cache.weights(settings.pair, settings.device, settings.dtype))
        try:
            yield
        finally:
            _sampler = None


def draw(
    name: str, mode: str, pair: Pair, settings: Settings, ids: Sequence[int], first: int, count: int, watch: Watch
) -> Samples:
    """As ``evidence.sources.draw``, wherever it happens: the samples are the same. Without workers it is this process again."""
    from specviz.evidence import shards, sources

    if _sampler is None or _sampler.broken:
        return sources.draw(name, mode, pair, settings, ids, first, count, watch)
    return _sampler.draw(shards.Work(name, mode, settings, tuple(ids)), shards.Cut(first, count), watch)
