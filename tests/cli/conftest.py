"""Commands of these tests read a pair of models once for all of them: tests/models has what reading does."""

from __future__ import annotations

from functools import cache

import pytest

from specviz.models.pairs import loading

LOADED = cache(loading.load_pair)


@pytest.fixture(autouse=True)
def pairs_are_read_once(monkeypatch):
    monkeypatch.setattr(loading, "load_pair", LOADED)
