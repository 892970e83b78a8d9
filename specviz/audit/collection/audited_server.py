"""One server of an audit: from recognition, preflight checks and a forecast to the record of its samples."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from specviz.audit.collection.collect import CollectionJob, CollectionRecord, collect_samples, count_kept_lines, read_record
from specviz.audit.collection.preflight import PreflightCheck, PreflightResult, ServerProbe, run_preflight
from specviz.audit.collection.size import MOST_SAMPLES, PROBE_REGION, CollectionSize, compute_first_seed
from specviz.audit.findings.first_difference import TokenReader, join_ids
from specviz.audit.findings.reproduction import ReproducibleRequest
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.profiles.recognition import RecognizedServer, recognize_server, refuse_unknown_model
from specviz.audit.protocol.endpoint import FEW_TRIES, Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError
from specviz.evidence.sampling.sample_files import FEWEST_DF
from specviz.evidence.testing.hypothesis_tests import CELLS, MARGIN, TestPlan
from specviz.evidence.testing.report import seal
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import to_json_fields
from specviz.statistics.finding import ALPHA, POWER, format_count
from specviz.statistics.power import compute_pooled_draws, correct_level, count_draws_needed, find_detectable_tv

KnownChecks = dict[str, PreflightResult]  # of one audit: the file of a server's samples -> its checks
TIMED_SAMPLES = 4  # samples of a thread that are timed at least
MIN_PROBE_SECONDS = 0.5  # seconds after which a probe may end
SEEDS_PER_PROBE = 10**6  # seeds between the probes of one server and those of the other


def count_needed_samples(tv: float, length: int, two_files: bool, alpha: float = ALPHA) -> int:
    """Samples of each file that detect a total variation: with the fewest cells, or between two files. Raises EvidenceError.

    alpha: false-alarm rate of these tests, a part of the audit's where it has others.
    """
    if two_files:
        return 2 * count_draws_needed(tv, FEWEST_DF, alpha / 2)
    return TestPlan.for_distance(1, length, tv, alpha).needed


def choose_sample_count(tv: float, length: int, two_files: bool, alpha: float = ALPHA) -> int:
    """As many samples as detect ``tv``. Raises SettingsError where that is more than a collection may have."""
    needed, most = count_needed_samples(tv, length, two_files, alpha), MOST_SAMPLES
    if needed > most:
        raise SettingsError("min-tv", tv, f"larger: it needs {needed:,} samples, and at most {most:,} are collected")
    return needed


def describe_needed_samples(tv: float, length: int, two_files: bool, samples: int, alpha: float = ALPHA) -> str:
    """How many samples a server needs, before the first request to it. samples: of each file."""
    each, needed = " of each server" if two_files else "", count_needed_samples(tv, length, two_files, alpha)
    few = f' With {samples:,} an exact server ends with the verdict "too few samples".' if samples < needed else ""
    return f"A total variation of {tv:g} needs {needed:,} samples{each} to be detected with power {POWER:.0%}.{few}"


@dataclass(frozen=True, slots=True)
class CollectionForecast:
    """What to expect of a number of samples.

    Attributes:
        samples: Samples of each file.
        missing: Samples of all files together that are still to be collected.
        length: Tokens of a sample that are tested.
        tv: Total variation that the tests must detect.
        two_files: Whether two servers are compared.
        rate: Samples per second, as a probe has measured.
        alpha: False-alarm rate of the tests of the first tokens.
    """

    samples: int
    missing: int
    length: int
    tv: float
    two_files: bool
    rate: float
    alpha: float = ALPHA

    @property
    def needed(self) -> int:
        """Samples of each file with which ``tv`` is detected."""
        return count_needed_samples(self.tv, self.length, self.two_files, self.alpha)

    @property
    def detectable_tv(self) -> float:
        """Total variation that ``samples`` of each file detect, by the same tests as ``needed``."""
        if self.two_files:
            return find_detectable_tv(FEWEST_DF, compute_pooled_draws(self.samples, self.samples), correct_level(self.alpha, 2))
        level = TestPlan.for_distance(1, self.length, 1.0, self.alpha).level
        return min(1.0, find_detectable_tv(CELLS[0] - 1, self.samples, level) / MARGIN)

    @property
    def seconds(self) -> float:
        """Seconds for all that are missing."""
        return self.missing / self.rate

    @property
    def sentence(self) -> str:
        of_each = " of each" if self.two_files else ""
        detected = (
            f"{self.samples:,} samples{of_each} detect a total variation of {self.detectable_tv:.2g} with power {POWER:.0%}"
        )
        enough = "" if self.samples >= self.needed else f"; {self.tv:g} needs {self.needed:,}"
        own = ", and the time of the other server, which takes turns with it" if self.two_files else ""
        return f"{detected}{enough}. This server gives about {self.rate:.3g} samples per second: sampling takes {format_duration(self.seconds)}{own}."


def measure_rate(probe: ServerProbe, choices: int = 1) -> float:
    """Samples per second with as many requests at a time as the probe has.

    As many requests as give each thread TIMED_SAMPLES, one where the rate is limited; again for quick servers.
    """
    done, began = 0, time.monotonic()
    rounds = max(1, TIMED_SAMPLES // choices) if probe.endpoint.limits.rate is None else 1
    while True:
        seeds = [probe.reserve_seeds(choices) for _ in range(rounds * probe.concurrency)]
        done += sum(len(one.samples) for one in probe.request_all(probe.sampling, seeds, choices))
        if (spent := time.monotonic() - began) >= MIN_PROBE_SECONDS:
            return done / spent


def format_duration(seconds: float) -> str:
    """A time that lies ahead, in words."""
    if seconds < 90:
        return f"about {max(seconds, 1.0):.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


@dataclass(frozen=True, slots=True)
class AuditPreparation:
    """A server after its preflight checks, before samples are collected.

    Attributes:
        server: As ``recognize_server`` gives it, with the settled profile.
        size: As the checks require: one request at a time, or one sample per request.
        refusals: A sentence for each field that the server does not take.
        forecast: None where all samples are there already.
        has_ids: Whether it gives the ids of its tokens.
    """

    server: RecognizedServer
    checks: tuple[PreflightCheck, ...]
    size: CollectionSize
    refusals: tuple[str, ...]
    forecast: CollectionForecast | None
    url: str
    has_ids: bool

    @property
    def blocking(self) -> list[PreflightCheck]:
        return [check for check in self.checks if check.stops]

    @property
    def summary(self) -> str:
        """A line each: who answers, what was caught or cannot be known, what to expect."""
        lines = [f"{self.server.name} at {self.url}", *self.refusals]
        lines += [f"- {check.name}: {check.sentence}" for check in self.checks if check.state != "safe"]
        return "\n".join([*lines, self.forecast.sentence if self.forecast else "All samples are there already."])


@dataclass(slots=True)
class AuditTarget:
    """An endpoint, what is requested from it, and the file in the audit's folder.

    Attributes:
        variable: Environment variable that holds the server's key; empty for none.
    """

    endpoint: Endpoint
    sampling: SamplingRequest
    size: CollectionSize
    file: str
    variable: str = ""
    _preparation: AuditPreparation | None = None

    @property
    def preparation(self) -> AuditPreparation:
        """What ``prepare`` found."""
        assert self._preparation is not None, "a target is prepared first"
        return self._preparation

    def prepare(
        self,
        folder: Path,
        tv: float,
        pair: LoadedPair | None,
        on_progress: ProgressCallback = ignore_progress,
        alpha: float = ALPHA,
        wants_rounds: bool = False,
        checks_by_file: KnownChecks | None = None,
    ) -> AuditPreparation:
        """Recognize the server, run the preflight checks, and estimate how long the samples will take.

        Args:
            folder: Of the sample files.
            tv: Total variation that the tests must detect.
            pair: Local weights; None: two servers are compared.
            on_progress: Called with the share done and what is being done; what it raises ends the work.
            alpha: False-alarm rate of the tests of the first tokens.
            wants_rounds: Whether to stream the answers of a server whose streams show its rounds.
            checks_by_file: The checks of the same server after other prompts, by ``file``; this one's are added.

        Raises:
            EndpointError: Where nothing answers.
            SettingsError: Where the folder holds something else, or the server does not have the model.
        """
        checks_by_file = {} if checks_by_file is None else checks_by_file
        on_progress(0.0, "who answers")
        server, size, path = recognize_server(self.endpoint), self.size, folder / self.file
        try:
            profile, answer, refusals = server.profile.settle(self.endpoint, self.sampling)
        except EndpointError as error:
            refuse_unknown_model(self.endpoint, self.sampling.model, error, "against-model" if size.arm else "model")
            raise
        has_ids = all(sample.tokens is not None for sample in answer.samples)
        if wants_rounds and has_ids and size.choices == 1 and profile.streams_rounds and not self.sampling.chat:
            self.sampling = self._choose_stream(profile)
        present, before = count_kept_lines(path)[0], read_record(path)
        forecast = None
        if present >= size.samples and before is not None:
            checks = tuple(PreflightCheck(**check) for check in before.checks)
            size = replace(size, concurrency=before.concurrency, choices=before.choices)
        else:
            first_seed = compute_first_seed(size.seed, PROBE_REGION) + size.arm * SEEDS_PER_PROBE
            of_pair = (None, None) if pair is None else (pair.encode(self.sampling.line), pair.vocabulary)
            probe = ServerProbe(
                self.endpoint, profile, replace(self.sampling, stream=False), size.concurrency, first_seed, *of_pair
            )
            result = run_preflight(probe, scale_progress(on_progress, 0.0, 0.9), checks_by_file.get(self.file))
            checks_by_file[self.file] = result
            checks, choices, probe.concurrency = result.checks, min(size.choices, result.choices), result.concurrency
            probe.sampling = self.sampling
            probe.on_answer = partial(on_progress, 0.95, "how long it will take")
            probe.on_answer()
            length, rate = min(self.sampling.max_tokens, 4), measure_rate(probe, choices)
            forecast = CollectionForecast(size.samples, size.samples - present, length, tv, pair is None, rate, alpha)
            on_progress(1.0, "")
            size = replace(size, concurrency=min(size.concurrency, result.concurrency), choices=choices)
        settled = replace(server, profile=profile)
        self._preparation = AuditPreparation(settled, checks, size, tuple(refusals), forecast, self.endpoint.url, has_ids)
        return self._preparation

    def _choose_stream(self, profile: ServerProfile) -> SamplingRequest:
        """The same request, streamed where a streamed answer can be read."""
        streamed = replace(self.sampling, stream=True)
        try:
            answer = profile.request(self.endpoint, streamed, None, max_tries=FEW_TRIES)
        except EndpointError:
            return self.sampling
        return streamed if answer.samples[0].rounds else self.sampling

    @property
    def request(self) -> ReproducibleRequest:
        """A request of this server that can be repeated without this project."""
        profile = self.preparation.server.profile
        address = self.endpoint.build_address(profile.select_path(self.sampling))
        return ReproducibleRequest.from_profile(address, profile, self.sampling, self.preparation.has_ids, self.variable)

    def build_token_reader(self) -> TokenReader:
        """Reads the text of token ids from the server; by their numbers from the first time on that it gives none."""
        profile, is_asked = self.preparation.server.profile, True

        def read_text(ids: Sequence[Any]) -> str:
            nonlocal is_asked
            text = profile.fetch_text(self.endpoint, self.sampling.model, ids) if is_asked else None
            is_asked = text is not None
            return join_ids(ids) if text is None else text

        return read_text

    def build_job(self, folder: Path) -> CollectionJob:
        """The argument of ``collect_samples``."""
        ready, path = self.preparation, folder / self.file
        return CollectionJob(self.endpoint, ready.server, self.sampling, ready.size, path, ready.checks, ready.refusals)

    def collect(self, folder: Path, on_progress: ProgressCallback) -> CollectionRecord:
        """Fill the sample file. Raises as ``collect_samples``."""
        return collect_samples([self.build_job(folder)], on_progress)[0]


def add_server_records(
    report: Mapping[str, Any],
    records: Sequence[CollectionRecord],
    runs: Mapping[str, Any] | None = None,
    extra_fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The sealed report with what is known of the servers in its field ``audit``.

    That is their records, what their rounds leave untested, and what the reproduction showed when it was run (``runs``), and what
    else is known (``extra_fields``; fields that are None are left out).
    """
    servers = [to_json_fields(record) for record in records]
    length = max(one["plan"].get("max_tokens") or report["settings"]["max_new_tokens"] for one in report["answers"])
    window = describe_window(length, [record.counts.draft_length for record in records])
    known = {"servers": servers, "window": window, "confirmation": runs} | {
        name: one for name, one in (extra_fields or {}).items() if one
    }
    return seal(dict(report) | {"audit": dict(report["audit"]) | known})


def describe_window(length: int, draft_lengths: Sequence[float | None]) -> str:
    """A sentence where a round is longer than the samples; else ''.

    A fully accepted round takes the token of the prompt's pass, its draft tokens and the bonus token.

    Args:
        length: Tokens of a sample that are tested.
        draft_lengths: Mean draft tokens of a round of each server; None where it is not known.
    """
    longest = max((one for one in draft_lengths if one is not None), default=0.0)
    if length >= longest + 2:
        return ""
    return (
        f"The samples are shorter than a round: the server drafts {longest:.3g} tokens a round, and {format_count(length, 'token')} of each sample are "
        "tested. The end of a fully accepted round, its bonus token, and what comes after them are outside this test. Against local weights "
        f"--request-tokens {ceil(2 * (longest + 2))} or more adds a test of whole texts."
    )
