"""Texts that proposers may read. A link can only name one of these; paths are admitted on the command line."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakKeyDictionary

from specviz.errors import SettingsError
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.retrieval import SuffixIndex
from specviz.records import ASSETS

TEXTS_FOLDER = ASSETS / "texts"
TEXTS = {"dorothy": TEXTS_FOLDER / "dorothy-and-the-wizard-in-oz.txt"}
SIZE_MAX = 8 * 2**20  # bytes

_indices: WeakKeyDictionary = WeakKeyDictionary()  # tokenizer -> {name: SuffixIndex}; never changed once built


def admit(name: str) -> str:
    """Allow a path to be read in this process, for the command line only. Returns the name; a bundled name is always allowed.

    Raises SettingsError if it is neither, and for a file that is empty, too large or not UTF-8 text.
    """
    if name not in TEXTS:
        read(name, Path(name))
        TEXTS[name] = Path(name)
    return name


def read(name: str, path: Path) -> str:
    """The text of a file. Raises SettingsError for a file that is missing, empty, too large or not UTF-8 text."""
    known = ", ".join(TEXTS)
    if not name or not path.is_file():
        raise SettingsError("text", name, f"one of {known}, or on the command line the path of a text file")
    if path.stat().st_size > SIZE_MAX:
        raise SettingsError("text", name, f"a file of at most {SIZE_MAX >> 20} MB")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("text", name, f"a file of UTF-8 text that can be read ({type(error).__name__})") from error
    if not text.strip():
        raise SettingsError("text", name, "a text with words in it: this file is empty")
    return text


def index_of(pair: LoadedPair, name: str) -> SuffixIndex:
    """The suffix index of a named text in a pair's tokens, built once per tokenizer; "" is the first bundled text.

    Raises SettingsError for an unknown name, and for a text too short for lookups.
    """
    name = name or next(iter(TEXTS))
    if name not in TEXTS:
        raise SettingsError("text", name[:60], f"one of {', '.join(TEXTS)}")
    known = _indices.setdefault(pair.tokenizer, {})
    if name not in known:
        known[name] = SuffixIndex(pair.tokenizer.encode(read(name, TEXTS[name])), name)
    return known[name]
