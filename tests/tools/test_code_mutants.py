"""The table of small breaks fits the code, and the tool that applies it tells breaks that are found from breaks that are not.

A run of the breaks themselves takes minutes: ``make mutants``. Here the tool judges a tree of two files.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools import code_mutants
from tools.code_mutants import BROKEN, FOUND, ROOT, SURVIVED, Mutant, judge_mutant, load_mutants, main

AREAS = {
    "audit",
    "rule",
    "warp",
    "cache",
    "masks",
    "batches",
    "randomness",
    "statistics",
    "certificate",
    "export",
    "queue",
    "links",
    "classroom",
    "hub",
    "JS",
    "device",
}
SUM = Mutant("takes away", "rule", "sums.py", "a + b", "a - b", ("test_sums.py",))


@pytest.mark.parametrize("one", load_mutants(), ids=lambda one: one.name)
def test_every_break_fits_the_code(one):
    """Whoever moves code moves its row in tools/code_mutants.toml."""
    assert one.new in one.break_text(ROOT) and one.area in AREAS


def test_there_are_forty_breaks_or_more_over_all_areas():
    assert len(load_mutants()) >= 40 and {one.area for one in load_mutants()} == AREAS


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "sums.py").write_text("def total(a, b):\n    return a + b\n")
    (tmp_path / "test_sums.py").write_text("from sums import total\n\n\ndef test_total():\n    assert total(2, 2) == 4\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: s\n    gpu: g\n")
    return tmp_path


@pytest.mark.parametrize(
    ("new", "answer", "said"),
    [("a - b", FOUND, "test_sums.py::test_total"), ("a * b", SURVIVED, "1 passed"), ("a +* b", BROKEN, "test_sums.py")],
)
def test_a_break_is_found_only_where_a_test_fails(tree, new, answer, said):
    """Code that does not even load makes no test fail, and the file is whole again afterward."""
    before = (tree / "sums.py").read_text()
    found, seen = judge_mutant(tree, replace(SUM, new=new), SUM.tests)
    assert found == answer and said in seen
    assert (tree / "sums.py").read_text() == before


@pytest.mark.parametrize(("old", "count"), [("b + a", 0), ("a", 3)])
def test_a_text_that_does_not_stand_there_exactly_once_is_named(tree, old, count):
    with pytest.raises(ValueError, match=rf"takes away: the text to be replaced stands {count} times in sums\.py"):
        replace(SUM, old=old).break_text(tree)
    with pytest.raises(ValueError, match=r"there is no file gone\.py"):
        replace(SUM, file="gone.py").break_text(tree)


def test_a_table_that_does_not_fit_is_exit_code_2_and_breaks_nothing(tmp_path, monkeypatch, capsys):
    row = '[[mutant]]\nname = "x"\narea = "rule"\nfile = "specviz/decoding/engine.py"\nold = "no such text"\nnew = "y"\ntests = ["tests/decoding/test_engine.py"]\n'
    for text, said in (
        (row, "stands 0 times"),
        (row + row, "names must be unique"),
        (row.replace("test_engine", "gone"), "there is no tests/decoding/gone.py"),
    ):
        (tmp_path / "table.toml").write_text(text)
        monkeypatch.setattr(code_mutants, "TABLE", tmp_path / "table.toml")
        assert main([]) == 2
        assert said in capsys.readouterr().err
