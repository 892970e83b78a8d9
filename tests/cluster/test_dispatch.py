"""'A lost shard is drawn again': whatever workers lose, repeat or reorder, the samples are those of this process, each once."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.cluster.dispatch import MOST_LOST, drawn
from specviz.errors import ClusterError
from specviz.evidence import saved as file
from specviz.evidence import shards, sources
from specviz.evidence.saved import SavedSamples
from specviz.evidence.shards import Cut, Work
from specviz.settings import Settings

SETTINGS = Settings(prompt="Once upon", length=3, gamma=2, top_k=40)
SAMPLES = 200


class Unreliable:
    """Two workers without a cluster: the oldest and the latest shard come back in turn, some are lost, and some of
    those come back after all."""

    width = 2

    def __init__(self, pair, lost: dict[int, int], until: int | None = None):
        self.pair, self.lost, self.until = pair, dict(lost), until
        self.given: list[tuple[Work, Cut]] = []
        self.late: list[tuple[Work, Cut]] = []
        self.seen: list[int] = []
        self.most = 0

    def drawn(self, work, cuts):
        return drawn(self, work, cuts)

    def room(self):
        return len(self.given) < 4

    def give(self, work, cut):
        self.given.append((work, cut))
        self.most = max(self.most, len(self.given))

    def back(self):
        if len(self.seen) == self.until:
            raise KeyboardInterrupt
        work, cut = self.given.pop(-(len(self.seen) % 2))
        self.seen.append(cut.first)
        if self.lost.get(cut.first, 0):
            self.lost[cut.first] -= 1
            if not self.lost[cut.first]:
                self.late.append((work, cut))
            yield cut, None
            return
        yield cut, self._samples(work, cut)
        for work, cut in self.late:
            yield cut, self._samples(work, cut)

    def _samples(self, work, cut):
        return sources.draw(work.name, work.mode, self.pair, work.settings, work.ids, cut.first, cut.count)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(shards, "SHARD", {sources.ENGINE: 24, sources.SHARED: 30})
    monkeypatch.setattr(shards, "PILOT", 8)
    monkeypatch.setattr(file, "EVERY", 0.0)
    monkeypatch.setattr(file, "REST", 0.0)


def tokens(pair, mode, elsewhere=None, path=None, watch=lambda share: None):
    saved = SavedSamples.open(path, {"mode": mode})
    ids = pair.encode(SETTINGS.prompt)
    return shards.draw_all(saved, "speculative", mode, pair, SETTINGS, ids, SAMPLES, 1e6, watch, elsewhere).tokens


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mode", [sources.ENGINE, sources.SHARED])
def test_lost_late_and_reordered_shards_change_no_bit(pair, mode):
    first = 8 if mode == sources.ENGINE else 0  # the pilot is drawn here
    pool = Unreliable(pair, {first: 3, first + 24 * 2: 1, first + 30 * 2: MOST_LOST})
    assert np.array_equal(tokens(pair, mode, pool), tokens(pair, mode))
    assert pool.seen != sorted(pool.seen), "the shards came back in another order"
    assert pool.most == 4, "no more shards than there is room for"


@pytest.mark.usefixtures("small")
def test_a_run_stopped_on_the_cluster_resumes_on_it_or_here_from_the_same_file(pair, tmp_path):
    whole, path = tokens(pair, sources.ENGINE), tmp_path / "draws"
    with pytest.raises(KeyboardInterrupt):
        tokens(pair, sources.ENGINE, Unreliable(pair, {}, until=5), path)
    kept = SavedSamples.open(path, {"mode": sources.ENGINE}).parts[sources.ENGINE]
    assert 8 < len(kept.tokens) < SAMPLES and np.array_equal(kept.tokens, whole[: len(kept.tokens)])
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    pool = Unreliable(pair, {})
    assert np.array_equal(tokens(pair, sources.ENGINE, pool, path), whole)
    assert min(pool.seen) == len(kept.tokens), "what was saved is not drawn again"
    assert np.array_equal(tokens(pair, sources.ENGINE, None, copy), whole)


@pytest.mark.usefixtures("small")
def test_a_single_shard_is_drawn_here(pair, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", {sources.SHARED: SAMPLES})
    pool = Unreliable(pair, {})
    assert len(tokens(pair, sources.SHARED, pool)) == SAMPLES and pool.seen == []


@pytest.mark.usefixtures("small")
def test_the_share_that_is_told_grows_to_one(pair):
    told: list[float] = []
    tokens(pair, sources.ENGINE, Unreliable(pair, {}), watch=told.append)
    assert told == sorted(told) and told[-1] == 1.0 and len(told) > 4


@pytest.mark.usefixtures("small")
def test_a_shard_that_is_always_lost_ends_the_run_with_its_numbers(pair):
    with pytest.raises(ClusterError, match=rf"Samples 30 to 59 were lost {MOST_LOST + 1} times"):
        tokens(pair, sources.SHARED, Unreliable(pair, {30: 10**6}))
