"""What a long examination has drawn so far, in a file: stopped at any moment, it goes on from there to the same result.

One line of JSON (what was asked of which models and versions, and what follows), then the numbers themselves. The file is
always whole: it is made beside its place and put there by one renaming.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specviz.decoding.sampler import Half
from specviz.errors import EvidenceError
from specviz.evidence.certificate.seal import canonical
from specviz.records import Schema, write

SCHEMA = Schema("draws", 2, "The file of draws")
EVERY = 3.0  # seconds between two times that the file is written
REST = 20.0  # times as long as writing took: a large file is written less often
HEAD = 1 << 20  # bytes that the line of JSON may take


@dataclass(slots=True)
class ModeSamples:
    """The draws of one mode: how many it will be, those that are complete from the first on, and a shard that is half done."""

    n: int
    source: str
    tokens: np.ndarray
    half: Half | None = None

    @property
    def arrays(self) -> list[np.ndarray]:
        half = self.half
        return [self.tokens, *([half.tokens, half.start, half.open] if half else [])]


@dataclass(slots=True)
class SavedSamples:
    """The file and what it holds; ``path`` None keeps nothing.

    asked  what draws follow from, JSON-ready: a file of other draws is refused
    parts  by mode
    """

    path: Path | None
    asked: dict[str, Any]
    parts: dict[str, ModeSamples] = field(default_factory=dict)
    _written: float = 0.0
    _due: float = 0.0

    @classmethod
    def open(cls, path: Path | None, asked: dict[str, Any]) -> SavedSamples:
        """What is there already, or nothing yet. Raises EvidenceError for a file that is damaged or of another run, and
        SettingsError where no file can be written."""
        kept = cls(path, json.loads(canonical(asked)))
        if path is not None:
            if os.path.exists(path):  # unlike Path.exists, false where nobody may look
                kept.parts = _read(path, kept.asked)
            kept.write()
        return kept

    @property
    def age(self) -> float:
        """Seconds since the file was written."""
        return time.monotonic() - self._written

    def tick(self) -> None:
        """Write the file if it is time to."""
        if self.path is not None and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Put the file in its place, whole. Raises SettingsError where that cannot be done; the earlier one then stays."""
        if self.path is None:
            return
        began = time.monotonic()
        write(self.path, _content(self.asked, self.parts), over=True, name="resume")
        self._written = time.monotonic()
        self._due = self._written + max(EVERY, REST * (self._written - began))

    def forget(self) -> None:
        """The work is done: the file goes."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def _content(asked: dict[str, Any], parts: dict[str, ModeSamples]) -> Iterator[bytes]:
    arrays = [np.ascontiguousarray(array) for part in parts.values() for array in part.arrays]
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.data)
    described = [
        {"mode": mode, "n": part.n, "source": part.source, "half": part.half and [part.half.place, part.half.done],
         "shapes": [array.shape for array in part.arrays]}
        for mode, part in parts.items()
    ]  # fmt: skip
    head = {"schema": SCHEMA.tag, "asked": asked, "parts": described, "sha256": total.hexdigest()}
    line = canonical(head | {"digest": hashlib.sha256(canonical(head).encode()).hexdigest()})
    yield line.encode() + b"\n"
    yield from (array.data for array in arrays)


def _read(path: Path, asked: dict[str, Any]) -> dict[str, ModeSamples]:
    """The parts of a file. Raises EvidenceError with a sentence."""
    try:
        with path.open("rb") as source:
            head = _head(source.readline(HEAD), path)
            if other := first_difference(head["asked"], asked):
                raise EvidenceError(
                    f"'{path}' keeps draws of another run: {other}. Repeat that run's command to go on with it, or name another file."
                )
            total = hashlib.sha256()
            parts = {one["mode"]: _part(one, source, path.stat().st_size, total) for one in head["parts"]}
            if source.read(1) or total.hexdigest() != head["sha256"]:
                raise ValueError("its numbers are not those that were written")
    except OSError as error:
        raise EvidenceError(f"'{path}' could not be read ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EvidenceError(
            f"'{path}' is damaged, or keeps no draws of this program ({error}); remove it to begin anew."
        ) from error
    return parts


def _head(line: bytes, path: Path) -> dict[str, Any]:
    head = json.loads(line)
    if head.get("schema") != SCHEMA.tag:
        raise EvidenceError(
            f"'{path}' keeps no draws that this version reads: its schema is {head.get('schema')!r}, {SCHEMA.tag!r} can be read."
        )
    if (
        hashlib.sha256(canonical({key: value for key, value in head.items() if key != "digest"}).encode()).hexdigest()
        != head["digest"]
    ):
        raise ValueError("its first line is not what was written")
    return head


def _part(one: dict[str, Any], source, size: int, total) -> ModeSamples:
    kinds, arrays = (np.int32, np.int32, np.int16, np.bool_), []
    for shape, kind in zip(one["shapes"], kinds, strict=False):
        length = int(np.prod(shape)) * np.dtype(kind).itemsize
        raw = source.read(length) if length <= size else b""
        if len(raw) != length:
            raise ValueError("its end is missing")
        total.update(raw)
        arrays.append(np.frombuffer(raw, dtype=kind).reshape(shape).copy())
    return ModeSamples(one["n"], one["source"], arrays[0], Half(*one["half"], *arrays[1:]) if one["half"] else None)


def first_difference(stored: Any, wanted: Any, name: str = "") -> str:
    """The first thing that was asked otherwise, in words, or ''."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        names = {**wanted, **stored}
        return next((why for key in names if (why := first_difference(stored.get(key), wanted.get(key), key))), "")
    return "" if stored == wanted else f"{name.replace('_', '-')} was {str(stored)[:80]}, now {str(wanted)[:80]}"
