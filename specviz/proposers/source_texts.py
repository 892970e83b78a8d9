"""Texts that proposers may read. A link can only name one of these; paths are admitted on the command line."""

from __future__ import annotations

from pathlib import Path

from specviz.errors import SettingsError
from specviz.records import ASSETS

TEXTS_FOLDER = ASSETS / "texts"
TEXTS = {"dorothy": TEXTS_FOLDER / "dorothy-and-the-wizard-in-oz.txt"}
SIZE_MAX = 8 * 2**20  # bytes


def allow_path(name: str) -> str:
    """Allow a path to be read in this process, for the command line only. Returns the name; a bundled name is always allowed.

    Raises SettingsError if it is neither, and for a file that is empty, too large or not UTF-8 text.
    """
    if name not in TEXTS:
        read_source_text(name, Path(name))
        TEXTS[name] = Path(name)
    return name


def read_source_text(name: str, path: Path) -> str:
    """The text of a file. Raises SettingsError for a file that is missing, empty, too large or not UTF-8 text."""
    known = ", ".join(TEXTS)
    if not name or not path.is_file():
        allowed = f"one of {known}, or on the command line the path of a text file"
        raise SettingsError("source-text", name, allowed, f"There is no text '{name[:60]}'. It must be {allowed}.")
    if path.stat().st_size > SIZE_MAX:
        allowed = f"a file of at most {SIZE_MAX >> 20} MB"
        raise SettingsError("source-text", name, allowed, f"The text file '{name}' is too large; give {allowed}.")
    try:
        text = path.read_text(encoding="utf-8-sig")  # a byte order mark is no part of the text
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise SettingsError(
            "source-text", name, "a file of UTF-8 text", f"The text file '{name}' could not be read ({reason})."
        ) from error
    if not text.strip():
        raise SettingsError(
            "source-text", name, "a text with words in it", f"The text file '{name}' is empty; give a text with words in it."
        )
    return text
