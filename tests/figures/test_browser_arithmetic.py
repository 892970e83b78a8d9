"""The pages' own arithmetic, run by node without a browser: the same numbers as Python's on one table of cases, random numbers read as typed.

The browser tests hold the same table (tests/e2e/test_token.py); node makes it a matter of a second. Nothing here is left to chance.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.common.components import arithmetic_js
from specviz.figures.one_token.token import GRID
from tests import token_cases

ASSETS = Path(__file__).resolve().parents[2] / "assets"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="no node on the path")


def run(code: str, ask: str, given: Any) -> Any:
    """What the expression ``ask`` gives for ``given`` after this script."""
    script = f"{code}\nconst given = JSON.parse(require('fs').readFileSync(0)); console.log(JSON.stringify({ask}));"
    done = subprocess.run([NODE, "-e", script], input=json.dumps(given), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_arithmetic_of_one_token_is_pythons():
    cases = json.loads(token_cases.FILE.read_text(encoding="utf-8"))
    ask = "given.map(({p, q}) => ({...account(p.map((x, i) => ({p: x, q: q[i]}))), rules: fourRules(p, q)}))"
    for case, got in zip(cases, run(arithmetic_js(), ask, cases), strict=True):
        assert got["beta"] == pytest.approx(case["beta"], abs=1e-15)
        for key in ("kept", "share", "replaced"):
            assert [row[key] for row in got["rows"]] == pytest.approx(case[key], abs=1e-15)
        assert [row["sum"] for row in got["rows"]] == pytest.approx(case["p"], abs=1e-15)
        for one in got["rules"]:
            assert [one["first"], one["both"]] == pytest.approx(case["rules"][one["rule"]], abs=1e-15)
            assert one["error"] < 1e-15


def test_a_moved_bar_leaves_a_distribution_of_whole_ten_thousandths():
    asked = [
        (p, i, v)
        for p, _ in token_cases.distributions()[::3]
        for i in range(len(p))
        for v in (0.0, 0.013, 0.5, 0.9999, 1.0, 1.7, -1)
    ]
    for (before, i, wanted), after in zip(
        asked, run(arithmetic_js(), "given.map(([p, i, v]) => withEntry(p, i, v))", asked), strict=True
    ):
        assert sum(round(x * GRID) for x in after) == GRID
        assert after[i] == pytest.approx(min(1.0, max(0.0, wanted)), abs=5e-5)
        assert len(after) == len(before)


@pytest.mark.parametrize(
    ("typed", "u"),
    [("0", 0.0), ("0.71", 0.71), (".5", 0.5), (" 0,25 ", 0.25), ("1", None), ("1.0", None), ("-0.1", None), ("", None), ("0.5x", None),
     ("0.999999999", 0.999999999), ("1e-3", None)],
)  # fmt: skip
def test_a_typed_number_is_read_from_0_to_below_1(typed, u):
    code = (ASSETS / "stage" / "50-coin.js").read_text(encoding="utf-8")
    assert run(code, "readCoin(given)", typed) == u
