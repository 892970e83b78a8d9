"""The text of ``plan``: the answer comes first, and each number stands beside its gamma. On the plans that the pages show."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from specviz.cli.plan import format_plan
from specviz.records import ASSETS
from specviz.speed.records.plan import SpeedPlan, load_plans

PLANS = load_plans((ASSETS / "traces" / "plans.json").read_text())


@pytest.mark.parametrize("name", PLANS)
def test_the_verdict_comes_before_the_numbers_it_rests_on(name):
    plan = PLANS[name]
    text = format_plan(plan)
    first, rest = text.split("\n\n", 1)
    assert " ".join(first.split()) == plan.in_words and plan.in_words not in " ".join(rest.split())


def test_the_time_of_a_round_stands_in_the_row_of_its_gamma():
    plan = next(iter(PLANS.values()))
    assert plan.costs is not None
    lines = format_plan(plan).splitlines()
    (head,) = (at for at, line in enumerate(lines) if line.endswith("ms a round"))
    for row, line in zip(plan.rows, lines[head + 1 :], strict=False):
        assert line.split()[0] == str(row.gamma)
        assert line.split()[-1] == f"{1e3 * median(run[row.gamma] for run in plan.costs.rounds):.2f}"


def test_lines_for_servers_of_a_plan_without_a_verdict_say_so(monkeypatch):
    plan = next(one for one in PLANS.values() if one.verdict == "speculate" and one.server_commands)
    assert "not known" not in format_plan(plan)
    monkeypatch.setattr(SpeedPlan, "busy", property(lambda self: "another program runs."))
    text = format_plan(replace(plan))
    assert text.startswith("No verdict: another program runs.")
    assert f"To start servers with gamma {plan.best.value:g} (whether it pays is not known):" in text
