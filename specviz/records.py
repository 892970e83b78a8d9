"""Records as JSON files: the name and version of a schema, strict reading, and atomic writing.

Reading raises one sentence for anything that is not such a record. Dataclasses are read back by their type hints, so a field that
is missing, unknown or of another type is rejected. Writing goes to a temporary file in the same folder, which is flushed and
renamed.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import tempfile
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from specviz import __version__
from specviz.errors import SettingsError, SpecvizError, TraceError

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
ASSETS = next(place for place in (HERE / "assets", HERE.parent / "assets") if place.is_dir())  # installed; in a checkout
RECORDED_SEED = 9626  # of the records that pages share: samples, games
PASSAGE_SEED = (
    9628  # of the recorded text: the first from that one on whose words are fit for a class, see speed/records/passage.py
)
PACKAGES = ("torch", "transformers", "numpy", "scipy")  # only their versions are read here
PLAIN: dict[Any, set[type]] = {int: {int}, float: {float, int}, str: {str}, bool: {bool}}  # JSON does not tell 1 from 1.0
LARGEST = 100 * 2**20  # bytes of a file that is read as JSON
# what reading a damaged record may raise; JSON's own error is a ValueError
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, SettingsError)


@dataclass(frozen=True, slots=True)
class Schema:
    """Name and version of a kind of record. ``version`` rises with every change that older code, or this one, cannot read."""

    name: str  # in a file, such as "methods"
    version: int
    noun: str  # in a sentence, such as "The record of drafting methods"

    @property
    def tag(self) -> str:
        """The value of a record's field ``schema``."""
        return f"specviz-{self.name}-{self.version}"

    def format_record(self, record: Mapping[str, Any], indent: int | None = None) -> str:
        """A JSON-ready record under its schema, as JSON without NaN."""
        return json.dumps({"schema": self.tag} | dict(record), ensure_ascii=False, allow_nan=False, indent=indent)

    def read(self, text: str, construct: Callable[[dict[str, Any]], T]) -> T:
        """What ``made`` makes of a record without its schema.

        Raises TraceError for another schema, and if ``made`` fails on the record.
        """
        return self.build(parse_record(text, self.noun), construct)

    def build(self, record: Any, construct: Callable[[dict[str, Any]], T]) -> T:
        """The same for a record that was parsed already."""
        try:
            if (found := record.get("schema")) != self.tag:
                raise TraceError(f"{self.noun} has schema {str(found)[:60]!r}; this version reads {self.tag!r}.")
            return construct({key: value for key, value in record.items() if key != "schema"})
        except DAMAGE as error:
            raise TraceError(f"{self.noun} is damaged: {type(error).__name__} {str(error)[:200]}.") from error

    def refuse_other(self, path: Path, name: str = "out") -> None:
        """Raises SettingsError if the file exists and is no record of this name. Call it before hours of work, not after."""
        try:
            found = read_json(path, self.noun).get("schema") if os.path.exists(path) else self.tag
        except (SpecvizError, AttributeError):
            found = None
        if not str(found).startswith(f"specviz-{self.name}-"):
            allowed = f"a new file, or an earlier record of the same kind ({self.name})"
            raise SettingsError(name, str(path), allowed, f"'{path}' is something else already. Give {allowed}.")

    def save(self, path: Path, text: str, name: str = "out") -> Path:
        """Write a record of this schema; only an earlier one is replaced. Missing folders are made. Raises SettingsError."""
        self.refuse_other(path, name)
        with suppress(OSError):  # ``write`` then raises the sentence
            path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text + "\n", over=True, name=name)
        return path


class Record:
    """A dataclass whose JSON is a file."""

    __slots__ = ()
    schema: ClassVar[Schema]
    indent: ClassVar[int | None] = 1

    def to_json(self) -> str:
        return self.schema.format_record(to_json_value(self), self.indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What ``to_json`` wrote. Raises TraceError for anything else."""
        return cls.schema.read(text, lambda record: build(cls, record))


def parse_record(text: str, noun: str) -> Any:
    """Parse JSON. Raises TraceError with a sentence for anything else, also for NaN and infinities."""
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{noun} is damaged, or no JSON ({str(error)[:200]}).") from error


def read_json(path: Path, noun: str) -> Any:
    """A file of JSON. Raises TraceError with a sentence for one that cannot be read, is too large, or holds something else."""
    return parse_record(read_text(path, noun), noun)


def read_text(path: Path, noun: str) -> str:
    """A file of UTF-8, LARGEST bytes at most. Raises TraceError with a sentence."""
    try:
        if path.stat().st_size > LARGEST:
            raise TraceError(f"'{path}' is too large: {LARGEST >> 20} MB are read at most.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"'{path}' could not be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{noun} is damaged, or no JSON ({error}).") from error


def refuse_constant(text: str) -> Any:
    """For ``parse_constant`` of json: NaN and infinities are no JSON."""
    raise ValueError(f"{text} is no number of JSON")


def write(path: Path, content: str | bytes | Iterable[bytes | memoryview], over: bool = False, name: str = "out") -> None:
    """Write a whole file, or leave everything as it was. ``over`` allows replacing a file.

    ``name`` is the setting that named the path. Raises SettingsError where something else is there, or where nothing can be
    written.
    """
    pieces = (content.encode(),) if isinstance(content, str) else (content,) if isinstance(content, bytes) else content
    beside = None
    try:
        if not over and path.exists():
            raise FileExistsError(17, "there is something else already")
        handle, beside = tempfile.mkstemp(prefix=".specviz-", dir=path.absolute().parent)
        os.close(handle)
        write_flushed(Path(beside), pieces)
        os.chmod(beside, 0o666 & ~_read_umask())
        if over:
            os.replace(beside, path)
            beside = None
        else:
            os.link(beside, path)  # unlike a rename, it fails if a file has appeared meanwhile
    except OSError as error:
        sentence = f"'{path}' could not be written ({error.strerror})."
        raise SettingsError(name, str(path), "a file that can be written", sentence) from error
    finally:
        if beside is not None:
            with suppress(OSError):
                os.unlink(beside)


def write_flushed(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file and flush it to disk, before it or its folder is renamed. Raises OSError."""
    with path.open("wb") as target:
        for piece in pieces:
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())


@lru_cache(maxsize=1)
def _read_umask() -> int:
    """The umask. Temporary files are readable by their owner only; a record should have the rights of any other file."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def declare_decimal_places(count: int) -> dict[str, int]:
    """Metadata of a dataclass field: how many decimal places a record keeps of its numbers."""
    return {"digits": count}


def record_key(name: str) -> dict[str, str]:
    """Metadata of a dataclass field: its name in records, where that is another one."""
    return {"key": name}


def to_json_value(value: Any, places: int | None = None) -> Any:
    """JSON-ready, from dataclasses, mappings, sequences and plain values; a ``to_record`` method is used where there is one."""
    if is_dataclass(value):
        return value.to_record() if hasattr(value, "to_record") else to_json_fields(value, places)
    if isinstance(value, Mapping):
        return {str(key): to_json_value(one, places) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(one, places) for one in value]
    return round(value, places) if places is not None and isinstance(value, float) else value


def to_json_fields(value: Any, places: int | None = None) -> dict[str, Any]:
    """The same for a dataclass, field by field, whether or not it has a ``to_record`` of its own."""
    return {
        f.metadata.get("key", f.name): to_json_value(getattr(value, f.name), f.metadata.get("digits", places))
        for f in fields(value)
    }


def format_canonical_json(value: Any) -> str:
    """JSON with sorted names and no spaces, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def find_difference(stored: Any, expected: Any, name: str = "") -> str:
    """Describe the first difference between two JSON-ready records; '' if they are equal."""
    if isinstance(stored, dict) and isinstance(expected, dict):
        names = {**expected, **stored}
        return next((why for key in names if (why := find_difference(stored.get(key), expected.get(key), key))), "")
    return "" if stored == expected else f"{name.replace('_', '-')} was {str(stored)[:80]}, now {str(expected)[:80]}"


def build(kind: Any, value: Any, where: str = "it") -> Any:
    """Read what ``to_json_value`` returned back as ``kind``: a dataclass, or a type hint of its fields.

    Raises ValueError naming the place of a field that is missing, unknown or of another type, and what a dataclass raises itself.
    """
    if kind is Any:
        return value
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in inside:
            return None
        (one,) = (each for each in inside if each is not type(None))
        return build(one, value, where)
    if origin is tuple:
        items = _require_type(list, value, where)
        if inside[1:] == (...,) and set(map(type, items)) <= PLAIN.get(inside[0], set()):
            return tuple(items)  # the long columns of a record, at once
        each = [inside[0]] * len(items) if inside[1:] == (...,) else inside
        if len(each) != len(items):
            raise ValueError(f"{where} must have {len(each)} entries, got {len(items)}")
        return tuple(build(one, item, f"{where}[{place}]") for place, (one, item) in enumerate(zip(each, items, strict=True)))
    if origin in (dict, Mapping):
        key, one = inside
        if set(map(type, _require_type(dict, value, where).values())) <= PLAIN.get(one, set()):
            return {_parse_key(key, name, where): item for name, item in value.items()}
        return {
            _parse_key(key, name, where): build(one, item, f"{where}.{name}")
            for name, item in _require_type(dict, value, where).items()
        }
    if hasattr(kind, "from_record"):
        return kind.from_record(value)
    if isinstance(kind, type) and is_dataclass(kind):
        return build_fields(kind, value, where)
    return value if type(value) in PLAIN.get(kind, ()) else _require_type(kind, value, where)


def build_fields(kind: type[Any], value: Any, where: str = "it") -> Any:
    """The same for a dataclass, field by field, whether or not it has a ``from_record`` of its own."""
    record, hints = _require_type(dict, value, where), _list_hints(typing.cast(typing.Hashable, kind))
    if missing := sorted(hints.keys() - record.keys()):
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(record.keys() - hints.keys()):
        raise ValueError(f"{where} has {', '.join(unknown)}, which is not known")
    return kind(**{name: build(hint, record[key], f"{where}.{key}") for key, (name, hint) in hints.items()})


@lru_cache(maxsize=128)
def _list_hints(kind: Any) -> dict[str, tuple[str, Any]]:
    """Name in records -> name and type of a dataclass's fields."""
    known = typing.get_type_hints(kind)
    return {f.metadata.get("key", f.name): (f.name, known[f.name]) for f in fields(kind)}


def _parse_key(kind: type, name: str, where: str) -> Any:
    try:
        return kind(name)
    except ValueError as error:
        raise ValueError(f"{where} has the key {name!r}, which is no {kind.__name__}") from error


def _require_type(kind: Any, value: Any, where: str) -> Any:
    """The value itself if it is of exactly that type: a bool is no int."""
    if type(value) is not kind:
        raise ValueError(f"{where} must be of type {kind.__name__}, got {str(value)[:60]!r}")
    return value


def read_file(path: Path, parse: Callable[[str], T]) -> T:
    """The content of a file that comes with the project. Raises TraceError where it is missing or damaged."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"The record {path.name} cannot be read ({error.strerror}).") from error


def read_file_or(path: Path, parse: Callable[[str], T], nothing: T) -> T:
    """The content of a file that comes with the project; ``nothing``, and a line in the log, where it is missing or damaged."""
    try:
        return read_file(path, parse)
    except SpecvizError:
        logging.getLogger(__name__).exception("there is no record %s", path.name)
        return nothing


def load_toml(name: str) -> dict[str, Any]:
    """Tables of a file in assets/ by its path without ``.toml``, such as "pages" or "texts/questions"."""
    return tomllib.loads((ASSETS / f"{name}.toml").read_text(encoding="utf-8"))


def list_versions() -> dict[str, str]:
    """Name -> version of the packages that the numbers come from, of Python and of this package."""
    return _versions() | {"python": platform.python_version(), "specviz": __version__}


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}
