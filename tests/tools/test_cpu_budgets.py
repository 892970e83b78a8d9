"""The table of processor seconds: every folder of tests has a row, and one above its budget is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from tests.helpers.cpu_budgets import BUDGETS, COLLECTION, format_budgets, sum_by_folder

TESTS = Path(__file__).resolve().parents[1]


def test_every_folder_with_tests_has_a_budget():
    folders = {f"tests/{path.relative_to(TESTS).parts[0]}" for path in TESTS.glob("*/**/test_*.py")}
    assert {*BUDGETS} == (folders | {"tests", COLLECTION}) - {"tests/real"}


def test_seconds_belong_to_the_folder_below_tests_and_what_is_above_its_budget_is_named():
    names = ("tests/cli/test_a.py::test_b[a/b]", "tests/web/speed/test_c.py::test_d", "tests/test_e.py::test_f")
    seconds = sum_by_folder(SimpleNamespace(nodeid=name, cpu_seconds=1.5) for name in (*names, names[0]))
    assert seconds == {"tests/cli": 3.0, "tests/web": 1.5, "tests": 1.5}
    above = Counter({"tests/cli": BUDGETS["tests/cli"] + 1.0, "tests/web": 1.0})
    marked = [line.split()[0] for line in format_budgets(above) if line.endswith("over budget")]
    assert marked == ["tests/cli"]
