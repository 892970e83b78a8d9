"""Nothing that waits or counts seconds reads the clock of the wall, which jumps when it is set."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "specviz"
WALL = {"time", "time_ns", "ctime", "now", "utcnow", "today"}
NAMED = re.compile(rf"\b(?:{'|'.join(WALL)})\b")  # a file without any of these words needs no syntax tree
DATES = {
    "speed/measurement/machine.py", "audit/collection/collect.py",  # the day of a measurement or a collection, to be read
    "web/classroom/room/store.py",  # the day on which a room ends, also after the server was started again
}  # fmt: skip


def list_clock_calls(source: str) -> list[str]:
    """Calls in a file that ask what time it is: time.time(), datetime.now(), and the same names imported alone."""
    found = []
    if not NAMED.search(source):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in WALL and isinstance(node.value, ast.Name):
            found += [f"{node.value.id}.{node.attr}"] if node.value.id in ("time", "datetime", "date") else []
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [alias.name for alias in node.names if alias.name in WALL]
    return found


def test_only_dates_of_measurements_come_from_the_clock_of_the_wall():
    found = {str(path.relative_to(PACKAGE)): list_clock_calls(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {name for name, calls in found.items() if calls} == DATES


def test_the_search_finds_each_way_to_ask():
    asked = (
        "import time\nfrom time import time_ns\nfrom datetime import datetime\nx = time.time(), datetime.now(), time.monotonic()"
    )
    assert sorted(list_clock_calls(asked)) == ["datetime.now", "time.time", "time_ns"]
