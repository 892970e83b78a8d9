"""Do the fast tests notice small breaks in the code? Breaks it in one place at a time and says which breaks a test finds.

``make mutants`` runs every row of code_mutants.toml; ``python tools/code_mutants.py --help`` lists the ways to run fewer. Each row
replaces one piece of text, which must stand exactly once in its file, in a copy of the tree in a temporary folder; then the tests
that concern it run there until the first one fails. The tree itself is never written to.

Exit codes: 0 at least 95 of 100 breaks were found; 1 fewer; 2 the table does not fit the code, or its tests fail without any break.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("code_mutants.toml")
MIN_SHARE = 0.95  # of the breaks, that must be found
TEST_TIMEOUT = 300  # for the tests of one break; a break that makes them hang is found
BASELINE_TIMEOUT = 3600  # for all of these tests on the code as it is
FAST_TESTS = ("-m", "not slow and not gpu", "--ignore=tests/browser")
IGNORED = (".git", ".venv", "__pycache__", ".pytest_cache", ".ruff_cache", "models")  # models: linked, not copied
FOUND, SURVIVED, BROKEN = "found", "SURVIVED", "NO ANSWER"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small break.

    Attributes:
        name: What it does, in a few words.
        area: What it belongs to, such as rule, cache or statistics.
        file: From the top of the tree.
        old: Text that stands there exactly once.
        new: What is put in its place.
        tests: Files or ids of tests, as pytest takes them.
    """

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def break_text(self, tree: Path) -> str:
        """The file's text with the break in it. Raises ValueError where the old text does not stand there exactly once."""
        path = tree / self.file
        if not path.is_file():
            raise ValueError(f"{self.name}: there is no file {self.file}")
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the text to be replaced stands {count} times in {self.file}, not once: {self.old!r}")
        return text.replace(self.old, self.new)


def load_mutants() -> list[Mutant]:
    """The table. Raises ValueError for names that are not unique, and for tests that are not there."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutant"]
    found = [Mutant(**row | {"tests": tuple(row["tests"])}) for row in rows]
    if twice := [name for name, count in Counter(one.name for one in found).items() if count > 1]:
        raise ValueError(f"names must be unique, these are not: {', '.join(twice)}")
    for one in found:
        if missing := [test for test in one.tests if not (ROOT / test.partition("::")[0]).is_file()]:
            raise ValueError(f"{one.name}: there is no {', '.join(missing)}")
        if not one.tests or one.old == one.new:
            raise ValueError(f"{one.name}: it needs tests, and a new text that differs from the old one")
    return found


def copy_tree(folder: Path) -> Path:
    """A copy of the tree to break things in; weights are linked, since nothing here changes them."""
    tree = folder / "tree"
    shutil.copytree(
        ROOT, tree, ignore=lambda at, names: {n for n in names if n in IGNORED and (n != "models" or at.endswith("assets"))}
    )
    (tree / "assets" / "models").symlink_to(ROOT / "assets" / "models")
    return tree


def run_tests(tree: Path, tests: Sequence[str], timeout: float = TEST_TIMEOUT) -> tuple[int, str]:
    """(pytest's exit code, the first test that failed or the end of what pytest said); code 1 for tests that do not end."""
    # without files of bytecode: one that was made within the same second would hide the break
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    options = ["-x", "-q", "-p", "no:cacheprovider", "--durations=0", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options, *FAST_TESTS, *tests]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return 1, f"no end within {timeout} s"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = next((line.split()[1] for line in lines if line.startswith("FAILED")), None)
    broken = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else done.stderr[-300:])
    return done.returncode, failed or broken


def judge_mutant(tree: Path, one: Mutant, tests: Sequence[str]) -> tuple[str, str]:
    """(FOUND, SURVIVED or BROKEN, what was seen). A test must fail: code that cannot even be imported says nothing about the tests."""
    path = tree / one.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(one.break_text(tree), encoding="utf-8")
    try:
        code, said = run_tests(tree, tests)
    finally:
        path.write_text(whole, encoding="utf-8")
    return {0: SURVIVED, 1: FOUND}.get(code, BROKEN), said


def main(arguments: Sequence[str] | None = None) -> int:
    """Break what the options choose; return the exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description="Break the code in one place at a time; say which breaks the fast tests find."
    )
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows whose name or area contains one of these words")
    parser.add_argument("--full", action="store_true", help="run all fast tests for each row, not only those that concern it")
    parser.add_argument("--list", action="store_true", help="print the table, break nothing")
    parser.add_argument("--no-baseline", action="store_true", help="do not first run the tests on the code as it is")
    options = parser.parse_args(arguments)
    try:
        chosen = [one for one in load_mutants() if not options.only or any(w in f"{one.name} {one.area}" for w in options.only)]
        for one in chosen:
            one.break_text(ROOT)
    except (ValueError, KeyError, TypeError) as error:
        print(f"code_mutants: {error}", file=sys.stderr)
        return 2
    if options.list or not chosen:
        print("\n".join(f"{one.area:<13} {one.name}" for one in chosen) or "no row has such a name or area")
        return 0 if chosen else 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return _judge_all(copy_tree(Path(folder)), chosen, options)


def _judge_all(tree: Path, chosen: Sequence[Mutant], options: argparse.Namespace) -> int:
    if not options.no_baseline:
        every = ["tests"] if options.full else sorted({test for one in chosen for test in one.tests})
        code, said = run_tests(tree, every, BASELINE_TIMEOUT)
        if code:
            print(f"code_mutants: without any break the tests do not pass: {said}", file=sys.stderr)
            return 2
    answers: list[tuple[Mutant, str]] = []
    for one in chosen:
        began = time.monotonic()
        answer, said = judge_mutant(tree, one, ["tests"] if options.full else one.tests)
        answers.append((one, answer))
        print(f"{answer:<9} {time.monotonic() - began:5.1f} s  {one.area:<13} {one.name:<58} {said}", flush=True)
    found = sum(answer == FOUND for _, answer in answers)
    print(f"\n{found} of {len(answers)} breaks were found.")
    for one, answer in answers:
        if answer != FOUND:
            print(f"{answer}: {one.name} ({one.file})")
    return 0 if found >= MIN_SHARE * len(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
