"""The finished cells of a study that is still being made, in a file beside its record: a study that was stopped goes on from there.

JSON: what was asked of which models, texts and versions, then the cells with all their digits, and a digest of both. The file is always
complete, because it is written under another name and then renamed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from specviz.errors import TraceError
from specviz.evidence.certificate.seal import digest
from specviz.records import Schema, build, canonical_json, find_difference, read_text, write
from specviz.speed.prediction.study import StudyCell

CHECKPOINT_SCHEMA = Schema("study-cells", 2, "The file of a study's cells")
Key = tuple[str, float, float | None, str]


@dataclass(slots=True)
class StudyCheckpoint:
    """The file and its content.

    path   None: nothing is saved
    asked  everything that determines the cells, JSON-ready; a file with another value is refused
    cells  by kind, temperature, top-p and draft
    """

    path: Path | None
    asked: dict[str, Any]
    cells: dict[Key, StudyCell] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, asked: dict[str, Any]) -> StudyCheckpoint:
        """What is there already, or nothing yet. Raises TraceError for a file that is damaged or of another study, and SettingsError
        where no file can be written."""
        saved = cls(path, json.loads(canonical_json(asked)))
        if path is not None and os.path.exists(path):  # unlike Path.exists, false where nobody may look
            saved.add(*_read_cells(path, saved.asked))
        else:
            saved.add()
        return saved

    def add(self, *cells: StudyCell) -> None:
        """Save finished cells. Raises SettingsError if the file cannot be written; the earlier one then stays."""
        self.cells |= {(cell.kind, cell.temperature, cell.top_p, cell.draft): cell for cell in cells}
        if self.path is not None:
            body = {"asked": self.asked, "cells": [json.loads(json.dumps(asdict(cell))) for cell in self.cells.values()]}
            write(self.path, CHECKPOINT_SCHEMA.text(body | {"digest": digest(body)}), over=True, name="resume")


def _read_cells(path: Path, asked: dict[str, Any]) -> list[StudyCell]:
    """The cells of a file. Raises TraceError with a sentence."""
    what = f"The file '{path}' of a study's cells"
    stored, cells = replace(CHECKPOINT_SCHEMA, what=what).read(read_text(path, what), _check_digest)
    if other := find_difference(stored, asked):
        raise TraceError(
            f"'{path}' keeps cells of another study: {other}. Repeat that study's command to go on with it, or name another file."
        )
    return cells


def _check_digest(record: dict[str, Any]) -> tuple[dict[str, Any], list[StudyCell]]:
    if record.pop("digest") != digest(record):
        raise ValueError("its cells are not those that were written; remove it to begin anew")
    return record["asked"], [build(StudyCell, cell) for cell in record["cells"]]
