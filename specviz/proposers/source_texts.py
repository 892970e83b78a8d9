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
        raise SettingsError("text", name, f"one of {known}, or on the command line the path of a text file")
    if path.stat().st_size > SIZE_MAX:
        raise SettingsError("text", name, f"a file of at most {SIZE_MAX >> 20} MB")
    try:
        text = path.read_text(encoding="utf-8-sig")  # a byte order mark is no part of the text
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("text", name, f"a file of UTF-8 text that can be read ({type(error).__name__})") from error
    if not text.strip():
        raise SettingsError("text", name, "a text with words in it: this file is empty")
    return text
