"""The lesson plans of the docs, for the page Classroom: their links lead to this server."""

from __future__ import annotations

import re

from specviz.records import HERE

FOLDER = next(
    place for place in (HERE / "lessons", HERE.parent / "docs" / "how-to") if place.is_dir()
)  # installed; in a checkout
MINUTES = (20, 45, 90)
WRITTEN = "http://localhost:8501/"  # where the docs say that the app is
_OF_DOCS = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # a link to another page of the docs


def plan(minutes: int, root: str) -> str:
    """A plan as markdown. root: address of this server with its last slash; links to other pages of the docs become their words."""
    text = (FOLDER / f"lesson-{minutes}.md").read_text(encoding="utf-8")
    lower = re.sub(r"^#", "##", text, flags=re.M)  # the page has a title of its own
    return _OF_DOCS.sub(r"\1", lower.replace(WRITTEN, root))
