"""What tests of certificates share: the file that verify writes on the tiny pair, and what a check says of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specviz.__main__ import main
from specviz.evidence.certificate.check import ALTERED, check

Record = dict[str, Any]


def write_report(pair_folders: tuple[Path, Path], folder: Path) -> Path:
    """Shared distributions and engine, 3,000 draws of two tokens."""
    arguments = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--prompt", "Once upon", "--length", "2"]
    main(["verify", *arguments, "--samples", "3000", "--tv", "0.3", "--seconds", "1", "--gamma", "2", "--out", str(folder)])
    return folder / "report.json"


def states(record: Record) -> dict[str, str]:
    """By field: what a check says of it."""
    return {line.field: line.state for line in check(record)}


def altered(record: Record) -> list[str]:
    return [name for name, state in states(record).items() if state == ALTERED]


def first_answer(record: Record) -> Record:
    return record["answers"][0]


def first_test(record: Record, name: str) -> Record:
    return next(test for test in first_answer(record)["tests"] if test["name"] == name)
