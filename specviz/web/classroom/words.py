"""Sentences of the teacher's page, the wall and the phones that depend on a room; the fixed ones are in assets/texts/classroom.toml."""

from __future__ import annotations

import re

from specviz.classroom.records import KINDS, Room
from specviz.records import HERE, load_toml
from specviz.settings import Settings

TEXTS = load_toml("texts/classroom")
TASKS = TEXTS["tasks"]
PLANS = next(
    folder for folder in (HERE / "lessons", HERE.parent / "docs" / "how-to") if folder.is_dir()
)  # installed; in a checkout
MINUTES = (20, 45, 90)
DOCS_ADDRESS = "http://localhost:8501/"  # of the app in the docs
DOCS_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # to another page of the docs


def list_kinds() -> str:
    """The kinds of tasks as a list, as markdown."""
    titles = [TASKS[kind]["title"] for kind in KINDS]
    rows = [
        f"1. **{title}{'' if title.endswith('?') else '.'}** {TASKS[kind]['about']}"
        for kind, title in zip(KINDS, titles, strict=True)
    ]
    return "\n".join([TEXTS["kinds"], "", *rows])


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


def read_lesson_plan(minutes: int, root: str) -> str:
    """A plan as markdown. root: address of this server with its last slash; links to other pages of the docs become plain words."""
    text = (PLANS / f"lesson-{minutes}.md").read_text(encoding="utf-8")
    below = re.sub(r"^#", "##", text, flags=re.M)  # the page has a title of its own
    return DOCS_LINK.sub(r"\1", below.replace(DOCS_ADDRESS, root))
