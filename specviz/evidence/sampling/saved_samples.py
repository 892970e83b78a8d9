"""The samples drawn so far, in a file: a long verification can be stopped at any moment and resumed with the same result.

The file holds one line of JSON (settings, models, versions, and a description of the arrays), then the arrays. It is always
complete, because it is written under another name and then renamed.
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
from typing import Any, BinaryIO

import numpy as np

from specviz.decoding.sampler import ShardState
from specviz.decoding.samples import Coverage, Samples
from specviz.errors import EvidenceError
from specviz.records import Schema, find_difference, format_canonical_json, write

SCHEMA = Schema("draws", 2, "The file of samples")
EVERY = 3.0  # shortest time between two writes, in seconds
REST = 20.0  # shortest time between two writes, in units of the last write: a large file is written less often
HEAD = 1 << 20  # bytes that the line of JSON may take


def add_coverage(coverage: Coverage | None, other: Coverage | None) -> Coverage | None:
    """The sum; None where one is not known."""
    return None if coverage is None or other is None else coverage + other


@dataclass(slots=True)
class ModeSamples:
    """The samples of one mode: their final number, the complete ones from the first on, and a shard that is half done."""

    n: int
    source: str
    tokens: np.ndarray
    half: ShardState | None = None
    # what the complete ones exercised; None: not counted, in a file of an earlier version
    coverage: Coverage | None = field(default_factory=Coverage)

    @property
    def arrays(self) -> list[np.ndarray]:
        half = self.half
        return [self.tokens, *([half.tokens, half.start, half.open, half.events] if half else [])]

    def add(self, samples: Samples) -> None:
        """Add the next shard, whole."""
        self.tokens, self.half = np.concatenate([self.tokens.reshape(-1, samples.tokens.shape[1]), samples.tokens]), None
        self.source = samples.source
        self.coverage = add_coverage(self.coverage, samples.coverage)


@dataclass(slots=True)
class SavedSamples:
    """The file and its content."""

    path: Path | None  # None: nothing is saved
    fingerprint: dict[str, Any]  # everything that determines the samples, JSON-ready; a file with another value is rejected
    parts: dict[str, ModeSamples] = field(default_factory=dict)  # samples by mode
    _written: float = 0.0
    _due: float = 0.0

    @classmethod
    def open(cls, path: Path | None, fingerprint: dict[str, Any]) -> SavedSamples:
        """Read what is there already, or begin with nothing.

        Raises:
            EvidenceError: For a file that is damaged or of another run.
            SettingsError: Where no file can be written.
        """
        saved = cls(path, json.loads(format_canonical_json(fingerprint)))
        if path is not None:
            if os.path.exists(path):  # unlike Path.exists, false where permission is missing
                saved.parts = _read_file(path, saved.fingerprint)
            saved.write()
        return saved

    @property
    def age(self) -> float:
        """Seconds since the last write."""
        return time.monotonic() - self._written

    def write_if_due(self) -> None:
        """Write the file if the last write was long enough ago."""
        if self.path is not None and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Replace the file by the current content. Raises SettingsError if that fails; the earlier file then stays."""
        if self.path is None:
            return
        began = time.monotonic()
        write(self.path, _encode_content(self.fingerprint, self.parts), over=True, name="resume")
        self._written = time.monotonic()
        self._due = self._written + max(EVERY, REST * (self._written - began))

    def delete(self) -> None:
        """Delete the file, because the work is done."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def _encode_content(fingerprint: dict[str, Any], parts: dict[str, ModeSamples]) -> Iterator[bytes]:
    arrays = [np.ascontiguousarray(array) for part in parts.values() for array in part.arrays]
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.data)
    described = [
        {"mode": mode, "n": part.n, "source": part.source, "half": part.half and [part.half.place, part.half.done],
         "shapes": [array.shape for array in part.arrays], "exercised": part.coverage and part.coverage.to_record()}
        for mode, part in parts.items()
    ]  # fmt: skip
    head = {"schema": SCHEMA.tag, "asked": fingerprint, "parts": described, "sha256": total.hexdigest()}
    line = format_canonical_json(head | {"digest": hashlib.sha256(format_canonical_json(head).encode()).hexdigest()})
    yield line.encode() + b"\n"
    yield from (array.data for array in arrays)


def _read_file(path: Path, run: dict[str, Any]) -> dict[str, ModeSamples]:
    """The parts of a file. Raises EvidenceError with a sentence."""
    try:
        with path.open("rb") as source:
            head = _parse_head(source.readline(HEAD), path)
            if other := find_difference(head["asked"], run):
                raise EvidenceError(
                    f"'{path}' holds samples of another run: {other}. Repeat that run's command to resume it, or name another file."
                )
            total = hashlib.sha256()
            parts = {one["mode"]: _read_part(one, source, path.stat().st_size, total) for one in head["parts"]}
            if source.read(1) or total.hexdigest() != head["sha256"]:
                raise ValueError("its numbers are not those that were written")
    except OSError as error:
        raise EvidenceError(f"'{path}' could not be read ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EvidenceError(
            f"'{path}' is damaged, or is not a file of saved samples ({error}). Remove it to start again."
        ) from error
    return parts


def _parse_head(line: bytes, path: Path) -> dict[str, Any]:
    head = json.loads(line)
    if head.get("schema") != SCHEMA.tag:
        raise EvidenceError(
            f"'{path}' cannot be read by this version: its schema is {head.get('schema')!r}; {SCHEMA.tag!r} can be read."
        )
    if (
        hashlib.sha256(format_canonical_json({key: value for key, value in head.items() if key != "digest"}).encode()).hexdigest()
        != head["digest"]
    ):
        raise ValueError("its first line was changed")
    return head


def _read_part(entry: dict[str, Any], source: BinaryIO, size: int, total: hashlib._Hash) -> ModeSamples:
    kinds, arrays = (np.int32, np.int32, np.int16, np.bool_, np.int16), []
    for shape, kind in zip(entry["shapes"], kinds, strict=False):
        length = int(np.prod(shape)) * np.dtype(kind).itemsize
        raw = source.read(length) if length <= size else b""
        if len(raw) != length:
            raise ValueError("its end is missing")
        total.update(raw)
        arrays.append(np.frombuffer(raw, dtype=kind).reshape(shape).copy())
    coverage = Coverage.from_record(entry["exercised"]) if entry.get("exercised") is not None else None
    if entry["half"] and len(arrays) < len(kinds):  # a file of an earlier version
        coverage = None
        arrays.append(ShardState.build_empty(*arrays[1].shape).events)
    return ModeSamples(
        entry["n"], entry["source"], arrays[0], ShardState(*entry["half"], *arrays[1:]) if entry["half"] else None, coverage
    )
