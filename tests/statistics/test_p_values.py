"""A p-value that underflows is said to be small, never to be 0."""

import pytest

from specviz.statistics.finding import SMALLEST, p_in_a_table, p_in_words


@pytest.mark.parametrize(
    ("p_value", "words", "cell"),
    ((0.0, "p < 1e-300", "< 1e-300"), (SMALLEST, "p = 1e-300", "1e-300"), (0.01234, "p = 0.012", "0.0123")),
)
def test_a_p_value_is_never_said_to_be_nothing(p_value, words, cell):
    assert (p_in_words(p_value), p_in_a_table(p_value)) == (words, cell)
