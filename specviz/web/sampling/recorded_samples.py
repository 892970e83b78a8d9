"""The samples with which Is it exact? and Break it open."""

from __future__ import annotations

from functools import lru_cache

from specviz.evidence.recorded_samples import RecordedSamples
from specviz.records import ASSETS, of_file

RECORDED = ASSETS / "traces" / "samples.json"


@lru_cache(maxsize=1)
def recorded_samples() -> RecordedSamples | None:
    """Both records; None where the file is missing or damaged."""
    return of_file(RECORDED, RecordedSamples.from_json, None)
