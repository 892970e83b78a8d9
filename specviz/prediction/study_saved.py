"""The finished cells of a study that is still being made, in a file beside its record: stopped at any moment, it goes on from there.

JSON: what was asked of which models, texts and versions, then the cells with all their digits, and a digest of both. The file is always
whole: it is made beside its place and put there by one renaming.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from specviz.errors import SettingsError, TraceError
from specviz.evidence.certificate.seal import canonical, digest
from specviz.evidence.saved import first_difference
from specviz.prediction.study import Cell
from specviz.records import from_record, to_text

SCHEMA = "specviz-study-cells-1"
Key = tuple[str, float, float | None, str]


@dataclass(slots=True)
class KeptCells:
    """The file and what it holds; ``path`` None keeps nothing.

    asked  what cells follow from, JSON-ready: a file of another study is refused
    cells  by kind, temperature, top-p and draft
    """

    path: Path | None
    asked: dict[str, Any]
    cells: dict[Key, Cell] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, asked: dict[str, Any]) -> KeptCells:
        """What is there already, or nothing yet. Raises TraceError for a file that is damaged or of another study, and SettingsError
        where no file can be written."""
        kept = cls(path, json.loads(canonical(asked)))
        if path is not None:
            with suppress(FileNotFoundError):
                kept.cells = {key(cell): cell for cell in _read(path, kept.asked)}
            kept.write()
        return kept

    def add(self, cell: Cell) -> None:
        """A cell is finished: the file holds it from now on."""
        self.cells[key(cell)] = cell
        self.write()

    def write(self) -> None:
        """Put the file in its place, whole. Raises SettingsError where that cannot be done; the earlier one then stays."""
        if self.path is None:
            return
        beside, body = (
            None,
            {"asked": self.asked, "cells": json.loads(json.dumps([asdict(cell) for cell in self.cells.values()]))},
        )
        try:
            handle, beside = tempfile.mkstemp(prefix=".specviz-", dir=self.path.absolute().parent)
            with os.fdopen(handle, "w", encoding="utf-8") as target:
                target.write(to_text(SCHEMA, body | {"digest": digest(body)}))
            os.replace(beside, self.path)
        except OSError as error:
            if beside is not None:
                with suppress(OSError):
                    os.unlink(beside)
            raise SettingsError("resume", str(self.path), f"a file that can be written ({error.strerror})") from error


def key(cell: Cell) -> Key:
    return cell.kind, cell.temperature, cell.top_p, cell.draft


def _read(path: Path, asked: dict[str, Any]) -> list[Cell]:
    """The cells of a file. Raises TraceError with a sentence, FileNotFoundError where there is none."""
    what = f"The file '{path}' of a study's cells"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(f"{what} is damaged: it is no text.") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TraceError(f"'{path}' could not be read ({error.strerror}).") from error
    stored, cells = from_record(text, SCHEMA, what, _made)
    if other := first_difference(stored, asked):
        raise TraceError(
            f"'{path}' keeps cells of another study: {other}. Repeat that study's command to go on with it, or name another file."
        )
    return cells


def _made(record: dict[str, Any]) -> tuple[dict[str, Any], list[Cell]]:
    if record.pop("digest") != digest(record):
        raise ValueError("its cells are not those that were written; remove it to begin anew")
    return record["asked"], [Cell.of_record(cell) for cell in record["cells"]]
