"""Numbers are written so that they say something: never rounded to a lie, told apart, and divisible by hand."""

from __future__ import annotations

import pytest

from specviz.figures.numbers import format_apart, format_probability, format_quotient


def test_a_uniform_close_to_its_threshold_is_written_with_digits_that_tell_them_apart():
    assert format_apart(0.4841, 0.4839) == ("0.4841", "0.4839")
    assert format_apart(0.5, 0.5) == ("0.50", "0.50")


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.62, "0.62"),
        (0.3, "0.30"),
        (0.0349, "0.035"),
        (0.0042, "0.0042"),
        (0.00054, "0.00054"),
        (0.000054, "5.4×10⁻⁵"),
        (3e-12, "3.0×10⁻¹²"),
        (0.99999, ">0.999"),
        (0.9961, "0.996"),
    ],
)
def test_numbers_have_their_leading_zero_and_never_round_to_a_lie(x, written):
    assert format_probability(x) == written


def test_p_and_q_are_written_with_the_digits_that_their_quotient_needs():
    assert format_quotient(0.466, 0.4926, 0.466 / 0.4926) == ("0.466", "0.493", "0.95")
    assert format_quotient(0.24, 0.40, 0.60) == ("0.24", "0.40", "0.60")
    assert format_quotient(0.3, 0.62, 1.0) == ("0.30", "0.62", "1")
    assert format_quotient(0.3, 0.62, 0.4) == ("0.30", "0.62", "0.40"), "another rule's probability is no quotient"
