"""How a pair of one's own is named: ``target|draft``, or ``target|draft|8bit``. No torch here; settings, links and commands read it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_ROUNDED = "8bit"


class Places(NamedTuple):
    """Where the two models of a pair are, each a folder or a hub name.

    rounded  whether the draft's weights are rounded to 8 bits once they are read (models/rounded.py)
    """

    target: str
    draft: str
    rounded: bool = False

    @property
    def name(self) -> str:
        return "|".join((self.target, self.draft, *([_ROUNDED] if self.rounded else [])))


def places_of(name: str) -> Places | None:
    """The places that a pair's name holds; None for the name of a pair of the catalogue, and for what names no pair at all."""
    parts = [part.strip() for part in name.split("|")]
    if (len(parts) == 3 and parts.pop() != _ROUNDED) or len(parts) != 2 or not all(parts):
        return None
    return Places(*parts, rounded=name.count("|") == 2)


def as_path(place: str) -> Path:
    """Where a place is on this machine, if it is a folder: ``~`` and ``~user`` written out.

    Everything that looks at a folder of models asks here, so that what is checked is what is read. Names of pairs, in settings
    and records, keep the ``~`` that was asked for.
    """
    path = Path(place)
    try:
        return path.expanduser()
    except RuntimeError:  # a user that is not known here: a folder that is not there
        return path


def as_options(name: str) -> list[str]:
    """What a command is given for this pair."""
    if (places := places_of(name)) is None:
        return ["--pair", name]
    return ["--target", places.target, "--draft", places.draft, *(["--draft-bits", "8"] if places.rounded else [])]
