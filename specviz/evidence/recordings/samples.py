"""The samples with which the pages open: recorded once, with what the tests found in them. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specviz.evidence.mistakes.comparison import MistakeResult
from specviz.evidence.testing.results import ExactnessResult
from specviz.records import Record, Schema
from specviz.settings import Settings

SCHEMA = Schema("samples", 3, "The record of samples")


@dataclass(frozen=True, slots=True)
class DecoderSamplesRecord:
    """Samples of Exactness test."""

    settings: Settings  # under which they were drawn
    source: str  # the decoder
    models: Mapping[str, Any]  # as an export names them
    date: str  # when
    result: ExactnessResult


@dataclass(frozen=True, slots=True)
class MistakeSamplesRecord:
    """Samples of Break it. mistake: its id; the rest as above."""

    settings: Settings
    mistake: str
    models: Mapping[str, Any]
    date: str
    result: MistakeResult


@dataclass(frozen=True, slots=True)
class RecordedSamples(Record):
    """Samples of a decoder, and of each mistake."""

    schema, indent = SCHEMA, None

    exactness: DecoderSamplesRecord
    mistakes: tuple[MistakeSamplesRecord, ...]

    def find_mistake(self, mistake: str) -> MistakeSamplesRecord | None:
        """Samples of a mistake by its id; None where it has none."""
        return next((one for one in self.mistakes if one.mistake == mistake), None)


def has_same_samples(settings: Settings, recorded_settings: Settings) -> bool:
    """Whether both fix the same samples. On which device and in which precision is the machine's; a seed gives the same ones on most."""
    return replace(settings, device=recorded_settings.device, dtype=recorded_settings.dtype) == recorded_settings
