"""Sentences that depend on a room, of the teacher's desk, the wall and the phones; the fixed ones are in assets/texts/classroom.toml."""

from __future__ import annotations

from specviz.records import load_toml
from specviz.settings import Settings
from specviz.web.classroom.room.records import Room

TEXTS = load_toml("texts/classroom")
TASKS = TEXTS["tasks"]


def describe_status(room: Room, answered: int | None) -> str:
    """How many students are in, and how many of them have answered the current task; None: there is no task."""
    students = "1 student" if room.students == 1 else f"{room.students:,} students"
    if room.has_ended:
        return f"The room has ended. {students} came."
    if answered is None:
        return f"{students} in. No task yet."
    return f"{students} in, {answered:,} {'has' if answered == 1 else 'have'} answered."


def describe_settings(settings: Settings) -> str:
    """Settings of a room in a line."""
    cuts = [f"{name.replace('_', '-')} {value:g}" for name, value in settings.cuts.items()]
    tokens = "1 token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    return ", ".join([f"{tokens} per sample", f"temperature {settings.temperature:g}", f"gamma {settings.gamma}", *cuts])
