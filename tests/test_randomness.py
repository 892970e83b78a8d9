"""Random numbers are arguments: each has an address, none depends on other requests, and a person may replace those at a position."""

from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.randomness import CachedRandomness, EditedRandomness, PhiloxRandomness, Prefix, Purpose


def row(start: int, draw: int = 0) -> Prefix:
    return Prefix((1,) * (start + 1), start, 99, draw)


def test_a_slice_of_a_stream_is_the_numbers_one_by_one():
    """Every beginning and length around the four numbers that one counter value makes, and one far out."""
    randomness = PhiloxRandomness(7)
    whole = randomness.stream(Purpose.ACCEPT, 3, 2, 0, 40)
    for first in (*range(9), 21):
        for count in (1, 2, 5, 8):
            assert randomness.stream(Purpose.ACCEPT, 3, 2, first, count).tolist() == whole[first : first + count].tolist()
    far = 10**9 + 3
    assert randomness.stream(Purpose.DRAFT, 0, 0, far - 2, 6)[2] == randomness.stream(Purpose.DRAFT, 0, 0, far, 1)[0]


def test_a_row_of_a_batch_takes_the_number_of_its_draw():
    randomness = PhiloxRandomness(7)
    rows = [row(0, 5), row(4, 0), row(0, 1), row(4, 1000)]
    together = randomness.take(Purpose.DRAFT, rows, 1, 1)
    assert together.dtype == np.float64
    assert together.tolist() == [randomness.take(Purpose.DRAFT, [one], 1, 1)[0] for one in rows]
    assert together.tolist() == [randomness.stream(Purpose.DRAFT, one.start, 1, one.draw, 1)[0] for one in rows]


def test_cached_streams_hold_the_numbers_of_their_samples():
    randomness, cached = PhiloxRandomness(3), CachedRandomness(PhiloxRandomness(3), 10, 6)
    rows = [row(0, 12), row(1, 10), row(0, 15)]
    for purpose in (Purpose.DRAFT, Purpose.ACCEPT):
        assert cached.take(purpose, rows, 2, 1).tolist() == randomness.take(purpose, rows, 2, 1).tolist()
        assert cached.take(purpose, rows[:1], 2, 1).tolist() == randomness.take(purpose, rows[:1], 2, 1).tolist()


def test_neighbors_in_a_batch_change_nothing():
    randomness = PhiloxRandomness(3)
    mine = randomness.take(Purpose.BONUS, [row(2, 9)], 4, 4)[0]
    for others in ([row(0)], [row(2), row(2, 8)], [row(5, 9)] * 3):
        assert randomness.take(Purpose.BONUS, [*others, row(2, 9), *others], 4, 4)[len(others)] == mine


def test_different_addresses_hold_different_numbers():
    """5 seeds x 5 purposes x 6 starts x 6 nodes x 8 draws = 7,200 numbers of 53 bits: two equal ones by chance in 1 of 3e8 runs."""
    numbers = [
        u
        for seed in (0, 1, 2, 2**32, 2**63 - 1)
        for purpose in Purpose
        for start in range(6)
        for node in range(6)
        for u in PhiloxRandomness(seed).stream(purpose, start, node, 0, 8).tolist()
    ]
    assert len(set(numbers)) == len(numbers) == 7200
    assert all(0.0 <= u < 1.0 for u in numbers)


def test_random_numbers_are_uniform():
    """n = 40,000 in 50 cells, chi-square with 49 degrees: above 104 by chance less than once in 100,000 (Wilson-Hilferty)."""
    counts = np.histogram(PhiloxRandomness(0).stream(Purpose.ACCEPT, 0, 0, 0, 40_000), bins=50, range=(0, 1))[0]
    assert ((counts - 800) ** 2 / 800).sum() < 104


def test_the_same_seed_gives_the_same_numbers_on_every_machine():
    """Values of the published generator (Philox 4x64-10), written down once: a recorded trace must replay for ever."""
    assert PhiloxRandomness(7).stream(Purpose.DRAFT, 0, 0, 0, 3).tolist() == KNOWN


KNOWN = [0.8720734548204873, 0.29536538151378355, 0.4200976785072422]


def test_an_edit_hits_the_position_it_names_and_no_other():
    randomness = PhiloxRandomness(1)
    edited = EditedRandomness(randomness, {(5, Purpose.ACCEPT): 0.25})
    for start in range(8):
        for depth in range(4):
            for purpose in Purpose:
                plain = randomness.take(purpose, [row(start)], depth, depth)
                got = edited.take(purpose, [row(start)], depth, depth)
                hit = purpose is Purpose.ACCEPT and start + depth == 5
                assert got.tolist() == ([0.25] if hit else plain.tolist())


def test_an_edit_hits_its_position_in_each_row_of_a_batch():
    edited = EditedRandomness(PhiloxRandomness(1), {(5, Purpose.DRAFT): 0.5})
    got = edited.take(Purpose.DRAFT, [row(5), row(4), row(3)], 1, 1)
    assert (got == 0.5).tolist() == [False, True, False]


@pytest.mark.parametrize("u", (1.0, 1.5, -0.1, float("nan"), float("inf")))
def test_a_random_number_outside_its_range_is_refused_with_a_sentence(u):
    with pytest.raises(SettingsError, match="random number must be at least 0 and below 1, got"):
        EditedRandomness(PhiloxRandomness(0), {(0, Purpose.ACCEPT): u})


def test_a_random_number_before_the_text_is_refused_with_a_sentence():
    with pytest.raises(SettingsError, match=r"random number position must be 0 .* or more, got -1"):
        EditedRandomness(PhiloxRandomness(0), {(-1, Purpose.ACCEPT): 0.5})


def test_zero_and_the_largest_number_below_one_are_allowed():
    edited = EditedRandomness(PhiloxRandomness(0), {(0, Purpose.ACCEPT): 0.0, (1, Purpose.ACCEPT): 1 - 2**-53})
    assert [edited.take(Purpose.ACCEPT, [row(start)], 0, 0)[0] for start in (0, 1)] == [0.0, 1 - 2**-53]


def test_a_row_with_draft_tokens_appended_is_the_same_row():
    row = Prefix((3, 4), 1, 5, 8, ((2, 1),))
    assert row.with_draft_tokens((6, 7)) == replace(row, ids=(3, 4, 6, 7))
