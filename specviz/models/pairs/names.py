"""Names of user-supplied pairs: ``target|draft``, or ``target|draft|8bit``. No torch here: settings, links and commands use it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_ROUNDED = "8bit"


class Places(NamedTuple):
    """Where the two models of a pair are, each a folder or a hub name.

    rounded  whether the draft's weights are rounded to 8 bits after reading (models/fast_llama/draft_8bit.py)
    """

    target: str
    draft: str
    rounded: bool = False

    @property
    def name(self) -> str:
        return "|".join((self.target, self.draft, *([_ROUNDED] if self.rounded else [])))


def places_of(name: str) -> Places | None:
    """The places in a pair's name; None for a name of the catalog, and for anything that does not name a pair."""
    parts = [part.strip() for part in name.split("|")]
    if (len(parts) == 3 and parts.pop() != _ROUNDED) or len(parts) != 2 or not all(parts):
        return None
    return Places(*parts, rounded=name.count("|") == 2)


def as_path(place: str) -> Path:
    """A place as a path on this machine, with ``~`` and ``~user`` expanded.

    All code that looks at a folder of models calls this, so that the folder that is checked is the folder that is read. Names of
    pairs in settings and records keep the ``~``.
    """
    path = Path(place)
    try:
        return path.expanduser()
    except RuntimeError:  # unknown user: the folder does not exist
        return path


def as_options(name: str) -> list[str]:
    """Command-line options that choose this pair."""
    if (places := places_of(name)) is None:
        return ["--pair", name]
    return ["--target", places.target, "--draft", places.draft, *(["--draft-bits", "8"] if places.rounded else [])]
