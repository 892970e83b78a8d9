"""Which cases of a parametrized test are fast: tests/helpers/case_choice.py."""

from __future__ import annotations

from itertools import product

import pytest

from tests.helpers.case_choice import choose_cases


def test_each_value_of_each_argument_is_in_a_chosen_case():
    cases = [{"rule": rule, "form": form} for rule, form in product("abcd", (1, 2, 3))]
    chosen = choose_cases(cases, 4)
    assert len(chosen) == 4
    assert {cases[place]["rule"] for place in chosen} == {*"abcd"} and {cases[place]["form"] for place in chosen} == {1, 2, 3}


def test_cases_of_one_argument_are_spread_over_the_list():
    assert choose_cases([{"n": n} for n in range(9)], 3) == {0, 4, 8}
    assert choose_cases([{"n": n} for n in range(2)], 3) == {0, 1}, "fewer cases than are asked for are all fast"


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("n", (0, pytest.param(1, marks=pytest.mark.slow), 2, 3, 4))
def test_the_others_are_slow_and_a_slow_case_stays_slow(request, n):
    assert (request.node.get_closest_marker("slow") is None) is (n in (0, 4))
