"""What tests of certificates share: the file that verify writes on the tiny pair, and what a check says of one."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from specviz.__main__ import main
from specviz.evidence.sampling.certificate import ALTERED, check_certificate

Record = dict[str, Any]


def write_report(pair_folders: tuple[Path, Path], folder: Path) -> Path:
    """Shared distributions and engine, 3,000 draws of two tokens. The files that --out writes beside report.json take longer than the draws."""
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
    with redirect_stdout(io.StringIO()) as said:
        main(asked)
    path = folder / "report.json"
    path.write_text(said.getvalue(), encoding="utf-8")
    return path


def list_states(record: Record) -> dict[str, str]:
    """By field: what a check says of it."""
    return {line.field: line.state for line in check_certificate(record)}


def alter_record(record: Record) -> list[str]:
    return [name for name, state in list_states(record).items() if state == ALTERED]


def first_answer(record: Record) -> Record:
    return record["answers"][0]


def first_test(record: Record, name: str) -> Record:
    return next(test for test in first_answer(record)["tests"] if test["name"] == name)
