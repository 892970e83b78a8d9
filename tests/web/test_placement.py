"""Samples are drawn in this process, unless the server was given a cluster; then its workers draw them, and they are the same."""

from __future__ import annotations

import pytest

from specviz.decoding.sampler import Watch
from specviz.errors import SpecvizError
from specviz.evidence import sources
from specviz.evidence.shards import Cut, Work
from specviz.settings import Settings
from specviz.web.common import placement


class Elsewhere:
    """As ClusterSampler, on workers that hold a pair of the same weights."""

    broken = False

    def __init__(self, pair):
        self.pair = pair
        self.asked: list[tuple[Work, Cut]] = []

    def draw(self, work: Work, cut: Cut, watch: Watch):
        self.asked.append((work, cut))
        watch(0.5)
        return sources.draw(work.name, work.mode, self.pair, work.settings, work.ids, *cut)


def test_a_cluster_draws_the_same_samples_and_says_how_far_it_is(monkeypatch, pair):
    settings, shares = Settings(prompt="a", length=2, gamma=2), []
    asked = "speculative", sources.SHARED, pair, settings, pair.encode("a"), 30, 40
    here, elsewhere = placement.draw(*asked, shares.append), Elsewhere(pair)
    monkeypatch.setattr(placement, "_sampler", elsewhere)
    shares.clear()
    there = placement.draw(*asked, shares.append)
    assert elsewhere.asked == [(Work("speculative", sources.SHARED, settings, tuple(pair.encode("a"))), Cut(30, 40))]
    assert (here.tokens == there.tokens).all() and here.first == there.first == 30 and shares == [0.5]


def test_a_cluster_that_cannot_be_used_is_a_sentence_before_anything_is_served(serve):
    serve(cluster="127.0.0.1")
    with pytest.raises(SpecvizError, match=r"cluster must be auto, .*got '127\.0\.0\.1'"):
        placement.check()


def test_without_a_cluster_nothing_is_joined(serve, monkeypatch):
    serve()
    monkeypatch.setattr("specviz.cluster.joining.check", lambda where: pytest.fail("asked"))
    placement.check()
    with placement.joined():
        assert placement._sampler is None


def test_without_workers_this_process_draws_again(monkeypatch, pair):
    gone = Elsewhere(pair)
    gone.broken = True
    monkeypatch.setattr(placement, "_sampler", gone)
    settings = Settings(prompt="a", length=1, gamma=1)
    asked = "target", sources.SHARED, pair, settings, pair.encode("a"), 0, 20
    assert len(placement.draw(*asked, lambda share: None)) == 20 and gone.asked == []
