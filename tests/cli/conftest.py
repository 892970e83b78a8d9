"""Commands of these tests read a pair of models once for all of them: tests/models has what reading does."""

from __future__ import annotations

from functools import cache

import pytest

from specviz.models.pairs import loading
from specviz.speed.benchmarks import bench
from specviz.speed.measurement import timed_decoding

LOADED = cache(loading.load_pair)


@pytest.fixture(autouse=True)
def pairs_are_read_once(monkeypatch):
    monkeypatch.setattr(loading, "load_pair", LOADED)


@pytest.fixture
def one_bench_prompt(monkeypatch):
    """The bench decodes after one prompt."""
    for module in (bench, timed_decoding):
        monkeypatch.setattr(module, "PROMPTS", {"one": "Once upon a time"})
