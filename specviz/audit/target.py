"""One server of an audit, from recognition to the record of its samples. The command line and the page use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from specviz.audit.collect import (
    PROBE_REGION,
    CollectionJob,
    CollectionRecord,
    CollectionSize,
    collect_samples,
    compute_first_seed,
    count_kept_lines,
    read_record,
)
from specviz.audit.endpoint import Endpoint
from specviz.audit.planning import CollectionForecast, forecast_collection, measure_rate
from specviz.audit.preflight import PreflightCheck, ServerProbe, run_preflight
from specviz.audit.profiles.recognition import RecognizedServer, recognize_server
from specviz.audit.reproduction import ReproducibleRequest
from specviz.audit.sampling_request import SamplingRequest
from specviz.evidence.report import seal
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import to_json_fields


@dataclass(frozen=True, slots=True)
class AuditPreparation:
    """Results of the preflight.

    server    as ``recognize_server``, with the settled profile; checks  of the preflight
    size      as the checks require: one request at a time, or one sample per request
    refusals  fields that the server does not take
    forecast  None where all samples are there already
    ids       whether it gives the ids of its tokens
    """

    server: RecognizedServer
    checks: tuple[PreflightCheck, ...]
    size: CollectionSize
    refusals: tuple[str, ...]
    forecast: CollectionForecast | None
    url: str
    ids: bool

    @property
    def blocking(self) -> list[PreflightCheck]:
        return [check for check in self.checks if check.stops]

    @property
    def summary(self) -> str:
        """All that a person should know, a line each: who answers, what was caught or cannot be known, what is to be expected."""
        lines = [f"{self.server.name} at {self.url}", *self.refusals]
        lines += [f"- {check.name}: {check.sentence}" for check in self.checks if check.state != "safe"]
        return "\n".join([*lines, self.forecast.sentence if self.forecast else "All samples are there already."])


@dataclass(slots=True)
class AuditTarget:
    """An endpoint, what is requested from it, and the file in the audit's folder. preparation: set by ``prepare_target``."""

    endpoint: Endpoint
    sampling: SamplingRequest
    size: CollectionSize
    file: str
    variable: str = ""
    preparation: AuditPreparation | None = None

    @property
    def request(self) -> ReproducibleRequest:
        """A request of this server, for somebody who wants to repeat it without this project."""
        assert self.preparation is not None
        profile, address = (
            self.preparation.server.profile,
            self.endpoint.address(self.preparation.server.profile.select_path(self.sampling)),
        )
        return ReproducibleRequest.from_profile(address, profile, self.sampling, self.preparation.ids, self.variable)

    def job(self, folder: Path) -> CollectionJob:
        """What ``collect`` is to do for it."""
        ready = self.preparation
        assert ready is not None
        return CollectionJob(
            self.endpoint, ready.server, self.sampling, ready.size, folder / self.file, ready.checks, ready.refusals
        )

    def collect(self, folder: Path, on_progress: ProgressCallback) -> CollectionRecord:
        """Fill the sample file. Raises as ``collect``."""
        return collect_samples([self.job(folder)], on_progress)[0]


def prepare_target(
    target: AuditTarget,
    folder: Path,
    tv: float,
    files: int,
    pair: LoadedPair | None,
    on_progress: ProgressCallback = ignore_progress,
) -> AuditPreparation:
    """Recognize the server, run the preflight checks, and estimate how long the samples will take.

    files  sample files of the audit: 2 where two servers are compared; pair  local weights, None: there are none

    Raises EndpointError where nothing answers, SettingsError where the folder holds something else.
    """
    on_progress(0.0, "who answers")
    server, size = recognize_server(target.endpoint), target.size
    profile, answer, refusals = server.profile.settle(target.endpoint, target.sampling)
    server, ids = replace(server, profile=profile), all(sample.tokens is not None for sample in answer.samples)
    there, before = count_kept_lines(folder / target.file)[0], read_record(folder / target.file)
    if there >= size.samples and before is not None:
        checks = tuple(PreflightCheck(**check) for check in before.traps)
        return AuditPreparation(
            server,
            checks,
            replace(size, at_once=before.at_once, choices=before.choices),
            tuple(refusals),
            None,
            target.endpoint.url,
            ids,
        )
    known = None if pair is None else pair.encode(target.sampling.line)
    seeds = compute_first_seed(size.seed, PROBE_REGION) + size.arm * SEEDS_PER_PROBE
    probe = ServerProbe(
        target.endpoint, profile, target.sampling, size.at_once, seeds, known, None if pair is None else pair.vocabulary
    )
    found = run_preflight(probe, scale_progress(on_progress, 0.0, 0.9))
    choices = min(size.choices, found.choices)
    probe.at_once = found.at_once
    probe.on_answer = partial(on_progress, 0.95, "how long it will take")
    probe.on_answer()
    ahead = forecast_collection(
        size.samples,
        size.samples - there,
        min(target.sampling.max_tokens, 4),
        tv,
        files,
        pair is None,
        measure_rate(probe, choices),
    )
    on_progress(1.0, "")
    own = replace(size, at_once=min(size.at_once, found.at_once), choices=choices)
    return AuditPreparation(server, found.checks, own, tuple(refusals), ahead, target.endpoint.url, ids)


SEEDS_PER_PROBE = 10**6  # seeds between the probes of one server and those of the other


def add_server_records(report: Mapping[str, Any], records: Sequence[CollectionRecord]) -> dict[str, Any]:
    """The sealed report with the records of the servers in its field ``audit``."""
    servers = [to_json_fields(record) for record in records]
    return seal(dict(report) | {"audit": dict(report["audit"]) | {"servers": servers}})
