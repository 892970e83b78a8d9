"""A p-value that underflows is said to be small, never to be 0."""

import pytest

from specviz.statistics.finding import SMALLEST, format_p_for_table, format_p_value


@pytest.mark.parametrize(
    ("p_value", "words", "cell"),
    ((0.0, "p < 1e-300", "< 1e-300"), (SMALLEST, "p = 1e-300", "1e-300"), (0.01234, "p = 0.012", "0.0123")),
)
def test_a_p_value_is_never_said_to_be_nothing(p_value, words, cell):
    assert (format_p_value(p_value), format_p_for_table(p_value)) == (words, cell)
