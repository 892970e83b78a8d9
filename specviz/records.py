"""Reading back what was recorded: JSON with the name of its schema, and one sentence for everything that is no such record."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from specviz import __version__
from specviz.errors import SettingsError, SpecvizError, TraceError

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
ASSETS = next(place for place in (HERE / "assets", HERE.parent / "assets") if place.is_dir())  # installed; in a checkout
PACKAGES = ("torch", "transformers", "numpy", "scipy")  # asked for their versions, imported by nobody here


def from_record(text: str, schema: str, what: str, made: Callable[[dict[str, Any]], T]) -> T:
    """What ``made`` makes of a record without its schema. what: its name in a sentence, such as "The gallery".

    Raises TraceError for another schema, and for anything that ``made`` stumbles over.
    """
    try:
        record = json.loads(text)
        if (found := record.pop("schema")) != schema:
            raise TraceError(f"{what} has schema {found!r}; this version reads {schema!r}.")
        return made(record)
    except (
        RecursionError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        SettingsError,
    ) as error:  # JSON's own is a ValueError
        raise TraceError(f"{what} is damaged: {type(error).__name__} {str(error)[:200]}.") from error


def to_text(schema: str, record: Mapping[str, Any], indent: int | None = None) -> str:
    """A record under its schema, as JSON without NaN."""
    return json.dumps({"schema": schema} | dict(record), ensure_ascii=False, allow_nan=False, indent=indent)


def of_file(path: Path, read: Callable[[str], T], nothing: T) -> T:
    """What a file that comes with the project holds; ``nothing``, and a line in the log, where it is missing or damaged."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, SpecvizError):
        logging.getLogger(__name__).exception("there is no record %s", path.name)
        return nothing


def versions() -> dict[str, str]:
    """Name -> version of the packages that the numbers come from, of Python and of this package."""
    return _versions() | {"python": platform.python_version(), "specviz": __version__}


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}
