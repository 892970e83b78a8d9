"""Processor seconds of the tests, a row per folder, beside what each folder may take: printed after a lane, and never a failure.

Seconds of processor time, children that have ended included, hang on the machine but little on what else runs there.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

LEAST = 30.0  # seconds of a lane; a few files need no table
COLLECTION = "imports and collection"  # in every process
# The aim on two quiet cores, in seconds. A budget is raised with a reason in the commit that raises it.
BUDGETS = {
    COLLECTION: 28,
    "tests": 20,
    "tests/audit": 60,
    "tests/browser": 400,
    "tests/cli": 18,
    "tests/decoding": 28,
    "tests/deploy": 1,
    "tests/docs": 3,
    "tests/evidence": 56,
    "tests/export": 16,
    "tests/faults": 2,
    "tests/figures": 1,
    "tests/helpers": 1,
    "tests/jobs": 5,
    "tests/models": 30,
    "tests/proposers": 16,
    "tests/speed": 25,
    "tests/static_site": 3,
    "tests/statistics": 11,
    "tests/tools": 2,
    "tests/training": 2,
    "tests/verification": 11,
    "tests/web": 64,
}

_spent = {"so far": 0.0}
_collection: list[float] = []  # by process


def read_cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_collection_finish(session):
    _spent["so far"] = read_cpu_seconds()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["collection_seconds"] = _spent["so far"]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    _collection.append(getattr(node, "workeroutput", {}).get("collection_seconds", 0.0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Setup, call and teardown each have a report; what lies between two reports belongs to the later one."""
    report = yield
    now = read_cpu_seconds()
    report.cpu_seconds, _spent["so far"] = now - _spent["so far"], now
    return report


def sum_by_folder(reports) -> Counter:
    """Seconds by the first folder below tests/; the files that lie there themselves are "tests"."""
    seconds = Counter()
    for report in reports:
        parts = report.nodeid.split("::")[0].split("/")
        seconds["/".join(parts[:2]) if len(parts) > 2 else parts[0]] += report.cpu_seconds
    return seconds


def format_budgets(seconds: Counter) -> list[str]:
    rows = [f"{'processor seconds':<24}{'used':>7}{'budget':>8}"]
    for name, used in seconds.most_common():
        budget = BUDGETS.get(name, 0)
        rows.append(f"{name:<24}{used:7.0f}{budget:8.0f}{'  over budget' if used > budget else ''}")
    return [*rows, f"{'in all':<24}{sum(seconds.values()):7.0f}{sum(BUDGETS.get(name, 0) for name in seconds):8.0f}"]


def pytest_terminal_summary(terminalreporter):
    reports = [one for kind in terminalreporter.stats.values() for one in kind if hasattr(one, "cpu_seconds")]
    seconds = sum_by_folder(reports) + Counter({COLLECTION: sum(_collection)})
    if sum(seconds.values()) >= LEAST:
        terminalreporter.section("budgets")
        terminalreporter.write_line("\n".join(format_budgets(seconds)))
