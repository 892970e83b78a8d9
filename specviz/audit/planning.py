"""Before the first sample: how many are needed for a distance, what a given number shows, and how long this server takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from specviz.audit.preflight import ServerProbe
from specviz.evidence.sample_file_reports import FEWEST_DF
from specviz.evidence.tests import CELLS, MARGIN, TestPlan
from specviz.statistics.finding import ALPHA, POWER
from specviz.statistics.power import compute_pooled_draws, correct_level, count_draws_needed, find_detectable_tv

TIMED_REQUESTS = 4  # requests of a thread that are timed
MIN_PROBE_SECONDS = 0.5  # seconds after which a probe may end


@dataclass(frozen=True, slots=True)
class CollectionForecast:
    """What is to be expected of a number of samples.

    samples  of each file; files  that are collected
    needed   samples of each file with which ``tv`` is detected
    sees     total variation that ``samples`` detect
    rate     samples per second, as a probe has found; seconds  for all that are missing
    """

    samples: int
    files: int
    tv: float
    needed: int
    sees: float
    rate: float
    seconds: float

    @property
    def sentence(self) -> str:
        of_each = " of each" if self.files == 2 else ""
        sees = f"{self.samples:,} samples{of_each} detect a total variation of {self.sees:.2g} with power {POWER:.0%}"
        enough = "" if self.samples >= self.needed else f"; {self.tv:g} needs {self.needed:,}"
        return f"{sees}{enough}. This server gives about {self.rate:.3g} samples per second: {format_duration(self.seconds)}."


def count_needed_samples(tv: float, length: int, two_files: bool) -> int:
    """Samples of each file that detect a total variation: with the fewest cells, or between two files. Raises EvidenceError."""
    if two_files:
        return 2 * count_draws_needed(tv, FEWEST_DF, ALPHA / 2)
    return TestPlan.for_distance(1, length, tv).needed


def compute_detectable_tv(samples: int, length: int, two_files: bool) -> float:
    """Total variation that so many samples of each file detect, by the same tests as ``needed``."""
    if two_files:
        return find_detectable_tv(FEWEST_DF, compute_pooled_draws(samples, samples), correct_level(ALPHA, 2))
    return min(1.0, find_detectable_tv(CELLS[0] - 1, samples, TestPlan.for_distance(1, length, 1.0).level) / MARGIN)


def measure_rate(probe: ServerProbe, choices: int = 1) -> float:
    """Samples per second with as many requests at a time as the probe has: TIMED_REQUESTS rounds, or more for quick servers, one where the rate
    is limited."""
    done, began = 0, time.monotonic()
    rounds = TIMED_REQUESTS if probe.endpoint.rate is None else 1
    while True:
        seeds = [probe.reserve_seeds(choices) for _ in range(rounds * probe.at_once)]
        done += sum(len(one.samples) for one in probe.request_all(probe.sampling, seeds, choices))
        if (spent := time.monotonic() - began) >= MIN_PROBE_SECONDS:
            return done / spent


def forecast_collection(
    samples: int, missing: int, length: int, tv: float, files: int, two_files: bool, per_second: float
) -> CollectionForecast:
    """missing: samples of all files together that are still to be collected."""
    ahead = missing / per_second
    return CollectionForecast(
        samples,
        files,
        tv,
        count_needed_samples(tv, length, two_files),
        compute_detectable_tv(samples, length, two_files),
        per_second,
        ahead,
    )


def describe_needed_samples(tv: float, length: int, two_files: bool) -> str:
    """What is known before a server is asked anything."""
    each = " of each server" if two_files else ""
    return f"A total variation of {tv:g} needs {count_needed_samples(tv, length, two_files):,} samples{each} to be detected with power {POWER:.0%}."


def format_duration(seconds: float) -> str:
    """A time that lies ahead, in words."""
    if seconds < 90:
        return f"about {max(seconds, 1.0):.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
