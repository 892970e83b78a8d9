"""The finished cells of a study that is still being made, in a file beside its record: stopped at any moment, it goes on from there.

JSON: what was asked of which models, texts and versions, then the cells with all their digits, and a digest of both. The file is always
whole: it is made beside its place and put there by one renaming.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from specviz.errors import TraceError
from specviz.evidence.certificate.seal import canonical, digest
from specviz.evidence.saved import first_difference
from specviz.prediction.study import StudyCell
from specviz.records import Schema, build, read_text, write

SCHEMA = Schema("study-cells", 2, "The file of a study's cells")
Key = tuple[str, float, float | None, str]


@dataclass(slots=True)
class KeptCells:
    """The file and what it holds; ``path`` None keeps nothing.

    asked  what cells follow from, JSON-ready: a file of another study is refused
    cells  by kind, temperature, top-p and draft
    """

    path: Path | None
    asked: dict[str, Any]
    cells: dict[Key, StudyCell] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, asked: dict[str, Any]) -> KeptCells:
        """What is there already, or nothing yet. Raises TraceError for a file that is damaged or of another study, and SettingsError
        where no file can be written."""
        kept = cls(path, json.loads(canonical(asked)))
        if path is not None:
            if os.path.exists(path):  # unlike Path.exists, false where nobody may look
                kept.cells = {key(cell): cell for cell in _read(path, kept.asked)}
            kept.write()
        return kept

    def add(self, cell: StudyCell) -> None:
        """A cell is finished: the file holds it from now on."""
        self.cells[key(cell)] = cell
        self.write()

    def write(self) -> None:
        """Put the file in its place, whole. Raises SettingsError where that cannot be done; the earlier one then stays."""
        if self.path is not None:
            body = {"asked": self.asked, "cells": [cell_record(cell) for cell in self.cells.values()]}
            write(self.path, SCHEMA.text(body | {"digest": digest(body)}), over=True, name="resume")


def key(cell: StudyCell) -> Key:
    return cell.kind, cell.temperature, cell.top_p, cell.draft


def cell_record(cell: StudyCell) -> dict[str, Any]:
    """JSON-ready, with all digits: what a study rounds for its record may not depend on whether it was interrupted."""
    return json.loads(json.dumps(asdict(cell)))


def _read(path: Path, asked: dict[str, Any]) -> list[StudyCell]:
    """The cells of a file. Raises TraceError with a sentence."""
    what = f"The file '{path}' of a study's cells"
    stored, cells = replace(SCHEMA, what=what).read(read_text(path, what), _made)
    if other := first_difference(stored, asked):
        raise TraceError(
            f"'{path}' keeps cells of another study: {other}. Repeat that study's command to go on with it, or name another file."
        )
    return cells


def _made(record: dict[str, Any]) -> tuple[dict[str, Any], list[StudyCell]]:
    if record.pop("digest") != digest(record):
        raise ValueError("its cells are not those that were written; remove it to begin anew")
    return record["asked"], [build(StudyCell, cell) for cell in record["cells"]]
