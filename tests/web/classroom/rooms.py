"""What tests of rooms share: a clock that they set, a room, and tasks as a teacher would open them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specviz.evidence.sampling.sampling_plan import make_cells
from specviz.settings import Settings
from specviz.web.classroom.room.records import PHASES, Assignment
from specviz.web.classroom.room.store import RoomStore

SETTINGS = Settings(prompt="Once upon a time", gamma=2, max_new_tokens=2)


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def open_store(folder: Path, clock: Clock | None = None) -> RoomStore:
    return RoomStore(folder, clock or Clock())


def build_task(kind: str, number: int = 1, **content: object) -> Assignment:
    return Assignment(number, kind, PHASES[kind][0], content)


def build_sample_task(pair, settings: Settings = SETTINGS, number: int = 1) -> Assignment:
    """A sample task with its cells, as JSON keeps it."""
    ids = tuple(pair.encode(settings.prompt))
    cells = make_cells(pair, settings, 8, 0.01)
    cells = replace(cells, tests=cells.tests[:2])
    labels = [f"cell {place}" for place in range(len(cells.shown.names))]
    return build_task("sample", number, ids=list(ids), labels=labels, cells=cells.to_record())
