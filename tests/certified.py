"""What tests of certificates share: the file that verify writes on the tiny pair, and what a check says of one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from specviz.__main__ import main
from specviz.evidence.sampling.certificate import ALTERED, check_certificate
from specviz.evidence.testing import hypothesis_tests
from specviz.statistics.finding import Finding

Record = dict[str, Any]


def write_report(pair_folders: tuple[Path, Path], folder: Path) -> Path:
    """Shared distributions and engine, 3,000 draws of two tokens. What --out writes beside report.json takes longer than the draws."""
    arguments = [
        "--target",
        str(pair_folders[0]),
        "--draft",
        str(pair_folders[1]),
        "--prompt",
        "Once upon",
        "--max-new-tokens",
        "2",
    ]
    asked = ["verify", *arguments, "--samples", "3000", "--min-tv", "0.3", "--seconds", "0.5", "--gamma", "2", "--format", "json"]
    with redirect_stdout(io.StringIO()) as said, remember_permutations():
        main(asked)
    path = folder / "report.json"
    path.write_text(said.getvalue(), encoding="utf-8")
    return path


_PERMUTED: dict[tuple, Finding] = {}


@contextmanager
def remember_permutations() -> Iterator[None]:
    """The 12,000 permutations of a certificate are most of its making: here the same samples are put to that test once.

    The test is a function of what is in the key, so that every redraw finds what it would have found.
    """
    tested = hypothesis_tests.compute_permutation_test

    def remembered(first, second, *, on_progress=None, **options):
        key = (tuple(first), tuple(second), tuple(sorted(options.items())))
        if key not in _PERMUTED:
            _PERMUTED[key] = tested(first, second, **options)
        return _PERMUTED[key]

    hypothesis_tests.compute_permutation_test = remembered
    try:
        yield
    finally:
        hypothesis_tests.compute_permutation_test = tested


def list_states(record: Record) -> dict[str, str]:
    """By field: what a check says of it."""
    return {line.field: line.state for line in check_certificate(record)}


def alter_record(record: Record) -> list[str]:
    return [name for name, state in list_states(record).items() if state == ALTERED]


def first_answer(record: Record) -> Record:
    return record["answers"][0]


def first_test(record: Record, name: str) -> Record:
    return next(test for test in first_answer(record)["tests"] if test["name"] == name)
