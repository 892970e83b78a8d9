"""The record of a measurement: read again from a file, which may come from anywhere. Needs no connection and no numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from specviz.errors import TraceError
from specviz.records import Schema, build_fields, parse_record

SCHEMA = Schema("pays", 1, "The record of a server's speed")
MAX_BYTES = 2**20  # of a file that is read
MAX_ROWS = 64  # levels, rounds or draft lengths
VERDICTS, UNITS = ("pays", "hurts", "unclear"), ("tokens/s", "characters/s")


@dataclass(frozen=True, slots=True)
class RecordedEstimate:
    """As ``Estimate``; all finite."""

    value: float
    low: float
    high: float
    n: int
    unit: str


@dataclass(frozen=True, slots=True)
class RecordedLevel:
    """One level of load."""

    users: int
    verdict: str
    speedup: RecordedEstimate | None
    on: RecordedEstimate
    off: RecordedEstimate | None
    failed: int


@dataclass(frozen=True, slots=True)
class RecordedRounds:
    """Rounds by one source."""

    source: str
    users: int
    tokens_per_round: RecordedEstimate
    seconds_per_round: RecordedEstimate | None
    accepted_by_position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RecordedGamma:
    """A draft length and its computed speed-up."""

    gamma: int
    speedup: float
    is_extrapolated: bool


@dataclass(frozen=True, slots=True)
class RecordedLength:
    """A draft length of another method."""

    gamma: int
    tokens_per_round: RecordedEstimate
    speedup: RecordedEstimate


@dataclass(frozen=True, slots=True)
class RecordedMethod:
    """What another draft or method would give."""

    pair: str
    proposer: str
    rows: tuple[RecordedLength, ...]
    sentence: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaysRecord:
    """The record; what ``build_report`` says of each field."""

    sentence: str
    unit: str
    levels: tuple[RecordedLevel, ...]
    break_even_users: float | None
    rounds: tuple[RecordedRounds, ...]
    seconds_per_token: RecordedEstimate | None
    gamma: int | None
    gammas: tuple[RecordedGamma, ...]
    lines: tuple[str, ...]
    what_if: tuple[RecordedMethod, ...]
    remarks: tuple[str, ...]
    prompts: str
    plan: dict[str, Any]
    servers: dict[str, Any]
    command: str
    date: str


def parse_pays_record(content: bytes) -> dict[str, Any]:
    """The record in a file, checked field by field.

    Raises TraceError with a sentence for anything that ``pays`` has not written: too large, no JSON, a missing or unknown field, a
    value of another type, a number that is not finite, more rows than a measurement has.
    """
    if len(content) > MAX_BYTES:
        raise TraceError(f"{SCHEMA.noun} is too large: at most {MAX_BYTES >> 20} MB are read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(f"{SCHEMA.noun} is no text in UTF-8.") from error
    record = parse_record(text, SCHEMA.noun)
    if not isinstance(record, dict):
        raise TraceError(f"{SCHEMA.noun} is damaged: it is no object.")
    SCHEMA.build(record, _build_record)
    return record


def _build_record(values: dict[str, Any]) -> PaysRecord:
    found: PaysRecord = build_fields(PaysRecord, values)
    _require(
        1 <= len(found.levels) <= MAX_ROWS and max(map(len, (found.rounds, found.gammas, found.what_if))) <= MAX_ROWS, "rows"
    )
    _require(found.unit in UNITS, "a unit")
    _require(all(level.users >= 1 and level.verdict in VERDICTS for level in found.levels), "levels")
    _require_finite(found)
    return found


def _require(is_fine: bool, requirement: str) -> None:
    if not is_fine:
        raise ValueError(f"{requirement} that a measurement cannot have")


def _require_finite(value: Any) -> None:
    if isinstance(value, float):
        _require(math.isfinite(value), "a number")
    elif is_dataclass(value):
        for one in fields(value):
            _require_finite(getattr(value, one.name))
    elif isinstance(value, tuple):
        for each in value:
            _require_finite(each)
