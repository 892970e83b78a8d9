"""The shards of the pages on a cluster. Several pieces of queued work draw at once, each in its own thread."""

from __future__ import annotations

from collections.abc import Callable

from specviz.cluster.dispatch import Crew
from specviz.decoding.sampler import Watch
from specviz.decoding.samples import Samples
from specviz.evidence.pieces import PairThere
from specviz.evidence.shards import Cut, Drawing, Work
from specviz.models.pairs.loading import Pair
from specviz.settings import Settings


class ClusterSampler:
    """Draws shards with the workers of a crew. A worker reads no files that settings name: a link could name them.

    pair_of  settings -> the pair as this process has it; a worker with another one is refused
    """

    def __init__(self, crew: Crew, pair_of: Callable[[Settings], Pair]):
        self.crew, self.pair_of = crew, pair_of
        self.known: dict[tuple[str, str, str], PairThere] = {}

    @property
    def broken(self) -> bool:
        """Whether the workers have come to an end that they do not come back from."""
        return self.crew.broken is not None

    def draw(self, work: Work, cut: Cut, watch: Watch = lambda share: None) -> Samples:
        """The samples of a shard. watch: told the share of it that is done; what it raises stops the shard.

        Raises ClusterError if there are no workers, or the shard is lost again and again.
        """
        return self.crew.do(Drawing(self._there(work.settings), work, named=False), cut, watch)

    def _there(self, settings: Settings) -> PairThere:
        key = settings.pair, settings.device, settings.dtype
        if key not in self.known:  # two threads may find the same out: hashing the weights takes a moment
            self.known[key] = PairThere.of(self.pair_of(settings), settings)
        return self.known[key]
