"""The numbers that a decoder takes one by one: each part of the address counts, for every purpose, however large it is.

Every test asks ``take``, the way the decoder does, and compares with whole streams made by numpy's own Philox.
"""

import pytest

from specviz.randomness import PhiloxRandomness, Prefix, Purpose

BASE = {"seed": 5, "purpose": Purpose.RESIDUAL, "start": 3, "node": 2, "draw": 6}


def take_number(seed: int, purpose: Purpose, start: int, node: int, draw: int) -> float:
    return PhiloxRandomness(seed).take(purpose, [Prefix((0,), start, 9, draw)], node, 0)[0]


@pytest.mark.parametrize("part", BASE)
def test_each_part_of_the_address_matters_for_a_single_number(part):
    """Eight values of one part, the others fixed: eight different numbers."""
    values = list(Purpose) if part == "purpose" else [0, 1, 2, 3, 4, 5, 2**32, 2**62]
    assert len({take_number(**(BASE | {part: value})) for value in values}) == len(values)


def test_parts_of_the_address_do_not_stand_in_for_each_other():
    """Start, node and draw exchanged, or one raised as another is lowered: still different numbers."""
    places = [(start, node, draw) for start in range(5) for node in range(5) for draw in range(9)]
    numbers = {take_number(1, purpose, *place) for purpose in Purpose for place in places}
    assert len(numbers) == len(places) * len(Purpose)


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("draw", (0, 3, 4, 2**32 - 1, 2**32, 2**53 + 1, 2**62 + 3))
def test_a_single_number_is_that_of_the_stream_however_far_out(purpose, draw):
    for seed, start, node in ((0, 0, 0), (2**63 - 1, 4096, 255), (7, 1, 0)):
        expected = PhiloxRandomness(seed).stream(purpose, start, node, draw, 1)[0]
        assert take_number(seed, purpose, start, node, draw) == expected
