"""Samples are counted as sets of rows are, and a part of them is a shard of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from specviz.decoding.samples import NONE, Samples, find_distinct_rows, group_rows, join_samples


def draw_rows(n: int, length: int, vocabulary: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, vocabulary, (n, length)).astype(np.int32)
    tokens[np.arange(length) >= rng.integers(1, length + 2, (n, 1))] = NONE
    return tokens


@pytest.mark.parametrize(("n", "length", "vocabulary"), [(500, 3, 4), (500, 2, 50_000), (1, 4, 3), (200, 1, 5)])
def test_distinct_rows_are_those_that_numpy_finds(n, length, vocabulary):
    tokens = draw_rows(n, length, vocabulary)
    texts, group = find_distinct_rows(tokens)
    wanted, numbers = np.unique(tokens, axis=0, return_inverse=True)
    assert np.array_equal(texts, wanted) and np.array_equal(group, numbers.reshape(-1))


def test_no_rows_and_rows_without_tokens():
    texts, group = find_distinct_rows(np.zeros((0, 3), dtype=np.int32))
    assert texts.shape == (0, 3) and len(group) == 0
    texts, group = find_distinct_rows(np.zeros((4, 0), dtype=np.int32))
    assert texts.shape == (1, 0) and group.tolist() == [0] * 4


def test_parts_joined_are_the_whole():
    whole = Samples(draw_rows(30, 3, 5), {"seed": 1}, "x", first=100)
    parts = [whole.slice_samples(0, 7), whole.slice_samples(7, 30)]
    assert [(part.first, len(part)) for part in parts] == [(100, 7), (107, 23)]
    again = join_samples(parts[::-1])
    assert again.first == 100 and np.array_equal(again.tokens, whole.tokens)


@pytest.mark.parametrize("vocabulary", [7, 2**31 - 2])
def test_rows_are_grouped_in_the_order_of_their_ids(vocabulary):
    """With the larger ids three columns exceed 64 bits."""
    random = np.random.default_rng(0)
    tokens = random.choice(random.integers(NONE, vocabulary, 4), (60, 3)).astype(np.int32)
    distinct, order, bounds = group_rows(tokens)
    assert list(map(tuple, distinct.tolist())) == sorted(set(map(tuple, tokens.tolist())))
    for row, (begin, end) in enumerate(pairwise(bounds)):
        assert order[begin:end].tolist() == [number for number, one in enumerate(tokens) if (one == distinct[row]).all()]
