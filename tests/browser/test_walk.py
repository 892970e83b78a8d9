"""The walk of ``tools/load`` finds what it measures on every page."""

from __future__ import annotations

import pytest

from tools.load import walk


@pytest.mark.slow
def test_a_walk_measures_every_goal():
    seen = walk.run_walk(1, 1, set(walk.PARTS), print)
    goals = {one for one in vars(walk).values() if isinstance(one, walk.WalkGoal)}
    assert goals == {*seen.seconds, *seen.bytes, *seen.rates} and all(seen.seconds.values())
    assert all(5 < rate < 250 for rates in seen.rates.values() for rate in rates)
    assert all(size > 0 for size in seen.bytes.values())
