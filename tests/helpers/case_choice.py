"""``@pytest.mark.fast_cases(8)``: eight cases of a parametrized test belong to the fast lane, the others are marked slow.

The eight are the same in every process. Each value of each argument is in one of them if eight cases can do that.
"""

from __future__ import annotations

import pytest


def choose_cases(cases: list[dict[str, object]], count: int) -> set[int]:
    """Places of ``count`` cases that have as many different values of each argument as possible, spread over the list.

    ``cases``: the value of each argument. Greedy: the next case is the one with the most values that no chosen one has; of several,
    the one that is farthest from the chosen ones.
    """
    values = [{(name, repr(value)) for name, value in case.items()} for case in cases]
    chosen: list[int] = []
    seen: set[tuple[str, str]] = set()
    while len(chosen) < min(count, len(cases)):
        left = (place for place in range(len(cases)) if place not in chosen)
        best = max(left, key=lambda place: (len(values[place] - seen), min((abs(place - one) for one in chosen), default=0)))
        chosen.append(best)
        seen |= values[best]
    return set(chosen)


def mark_cases_slow(items: list[pytest.Item]) -> None:
    """Mark the cases slow that are not chosen; those that are slow already are no cases here."""
    tests: dict[tuple[object, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("fast_cases") and not item.get_closest_marker("slow"):
            tests.setdefault((item.parent, item.originalname), []).append(item)
    for cases in tests.values():
        count = cases[0].get_closest_marker("fast_cases").args[0]
        chosen = choose_cases([case.callspec.params for case in cases], count)
        for place, case in enumerate(cases):
            if place not in chosen:
                case.add_marker("slow")
