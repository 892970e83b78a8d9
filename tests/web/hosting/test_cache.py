"""A result is computed once for all visitors, and the least recently used one is dropped."""

from __future__ import annotations

import pytest

from specviz.web.hosting.cache import ResultCache


def test_a_result_is_computed_once_for_all_with_the_same_key():
    cache, computed = ResultCache(2), []
    for key in ("a", "a", "b", "a"):
        assert cache.get_or_compute(key, lambda key=key: computed.append(key) or key.upper()) == key.upper()
    assert computed == ["a", "b"]


def test_the_least_recently_used_result_is_dropped_first():
    cache, computed = ResultCache(2), []
    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get_or_compute(key, lambda key=key: computed.append(key))
    assert computed == ["a", "b", "c", "b"]


def test_a_computation_that_raises_leaves_no_result():
    cache = ResultCache(2)
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_compute("a", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cache.get_or_compute("a", lambda: 1) == 1
