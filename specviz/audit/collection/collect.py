"""Collect the samples of one server into a sample file, and beside it a record of the requests and of the server.

The file always holds the first answers in the order of the questions: an answer that came early waits for those before it. So it does
not matter which samples are quick, and work that is stopped, or a server that fails, leaves an unbiased part that the same command
continues. Each request has a seed of its own, counted up from a start that only the command's seed decides, and the next one to be
used stands in the last line.

Two servers that are compared are asked in turn, a small batch each, in the order A B B A. So a machine that grows slower, or anything
else that drifts, meets both alike. The lines of the files alone say what a batch is, so work that goes on does so in its place.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.audit.collection.size import PROBE_REGION, SEED_REGION, CollectionSize, compute_first_seed
from specviz.audit.profiles.answers import sum_counts
from specviz.audit.profiles.base import DraftCounters, SampledText, ServerAnswer
from specviz.audit.profiles.recognition import (
    RecognizedServer,
    format_changes,
    get_creation_times,
    list_changes,
    list_models,
    recognize_server,
)
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError, SpecvizError, TraceError
from specviz.evidence.sampling.sample_files import ENDED, LARGEST, LINE
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import Schema, list_versions, read_json, record_key, to_json_fields
from specviz.statistics.finding import format_count

SCHEMA = Schema("audit-samples", 1, "The record of the collected samples")
MAX_WAITING = 4  # answers that may wait for an earlier one, for each request at a time
LAST_COUNTERS_SECONDS = 2.0  # that a run which ends early waits for the server's counters
POLL_SECONDS = 0.2  # seconds between two checks whether to stop
IDENTITY_TRIES = 3  # such questions in a row that must say no
IDENTITY_SECONDS = 60.0  # seconds between two questions whether it is still the same server
CLOCK_TICK = 1.1  # seconds after which a clock of whole seconds has gone on
DESCRIPTION = "the server's description of itself"
ROUNDS_PER_TURN = 8  # rounds of requests to a server before it is the other's turn
SINGLE_SEED_OFFSET = SEED_REGION // 4  # place in that region of the requests of one sample that show a limit
SINGLE_REQUESTS = 4  # number of these requests


@dataclass(slots=True)
class CollectionCounts:
    """What the answers showed besides samples.

    Attributes:
        ended: Samples that ended by themselves.
        without_end: Of these, samples whose last token the server counted and did not give.
        without_count: Samples whose number of tokens is unknown.
        single_requests: Requests of one sample that were sent because of it, and had as many tokens as they should.
        drafted: Draft tokens; None where the server does not show them.
        accepted: Accepted draft tokens; None where the server does not show them.
        rounds: Rounds in which something was drafted; None where the server does not count them.
    """

    requests: int = 0
    ended: int = 0
    without_end: int = field(default=0, metadata=record_key("stripped"))
    without_count: int = field(default=0, metadata=record_key("uncounted"))
    single_requests: int = field(default=0, metadata=record_key("alone"))
    drafted: int | None = None
    accepted: int | None = None
    rounds: int | None = None
    retries: int = field(default=0, metadata=record_key("retried"))
    error_answers: int = field(default=0, metadata=record_key("refused"))
    connection_errors: int = field(default=0, metadata=record_key("broken"))
    timeouts: int = field(default=0, metadata=record_key("late"))
    seconds: float = 0.0

    def add_drafted(self, drafted: float | None, accepted: float | None, rounds: float | None = None) -> None:
        """Count draft tokens, where the server shows them."""
        if drafted is not None:
            self.drafted = (self.drafted or 0) + int(drafted)
        if accepted is not None:
            self.accepted = (self.accepted or 0) + int(accepted)
        if rounds is not None:
            self.rounds = (self.rounds or 0) + int(rounds)

    @property
    def draft_length(self) -> float | None:
        """Mean draft tokens of a round; None where the server does not count rounds, or drafted nothing."""
        return self.drafted / self.rounds if self.drafted and self.rounds else None

    @property
    def accepted_share(self) -> float | None:
        """Share of the draft tokens that were accepted; None where the server does not count them, or drafted nothing."""
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None


@dataclass(slots=True)
class CollectionRecord:
    """The file beside a sample file: who answered what."""

    url: str
    profile: str
    about: dict[str, Any]
    sampling: dict[str, Any] = field(metadata=record_key("manner"))
    request: dict[str, Any]
    seed: int
    arm: int
    requested: int = field(metadata=record_key("asked"))
    concurrency: int = field(metadata=record_key("at_once"))
    choices: int
    checks: list[dict[str, Any]] = field(metadata=record_key("traps"))
    start: str = field(metadata=record_key("began"))
    identity: list[str] = field(default_factory=list)
    end: str = field(default="", metadata=record_key("ended"))
    samples: int = 0
    counts: CollectionCounts = field(default_factory=CollectionCounts, metadata=record_key("seen"))
    refusals: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=list_versions)

    @property
    def drafted(self) -> bool | None:
        """Whether drafting was seen at work; None where this server does not show it."""
        return None if self.counts.drafted is None else self.counts.drafted > 0

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> CollectionRecord:
        """Read the JSON of a record, also of an earlier version that counted less."""
        values = _rename_keys(cls, record)
        return cls(**values | {"counts": CollectionCounts(**_rename_keys(CollectionCounts, values["counts"]))})


def _rename_keys(kind: type[Any], record: dict[str, Any]) -> dict[str, Any]:
    """The values of a record under the names of the dataclass's fields."""
    names = {one.metadata.get("key", one.name): one.name for one in fields(kind)}
    return {names[key]: value for key, value in record.items()}


def record_path(path: Path) -> Path:
    """The record of a sample file."""
    return path.with_suffix(".json")


def read_record(path: Path) -> CollectionRecord | None:
    """The record beside a sample file; None if there is none. Raises TraceError for anything else."""
    if not record_path(path).exists():
        return None
    return SCHEMA.build(read_json(record_path(path), SCHEMA.noun), CollectionRecord.from_record)


@dataclass(frozen=True, slots=True)
class CollectionJob:
    """One file to be filled.

    Attributes:
        server: As ``recognize_server`` found it, with the settled profile.
        checks: Of the preflight.
        refusals: Fields that the server does not take: both for the record.
    """

    endpoint: Endpoint
    server: RecognizedServer
    sampling: SamplingRequest
    size: CollectionSize
    path: Path
    checks: tuple[Any, ...] = ()
    refusals: tuple[str, ...] = ()


def collect_samples(jobs: Sequence[CollectionJob], on_progress: ProgressCallback = ignore_progress) -> list[CollectionRecord]:
    """Fill the sample files of one server or of two, in turn, up to ``size.samples``, from where an earlier call left them.

    on_progress: called with the share of all samples that is there, several times a second; what it raises ends the work.

    Raises EndpointError where a server fails, gives fewer tokens than asked, or is not the one that it was; SettingsError for a file
    of other questions. The samples collected until then are in the files.
    """
    runs = [_CollectionRun(job) for job in jobs]
    last = max(job.size.samples for job in jobs)
    every = ROUNDS_PER_TURN * max(job.size.concurrency * job.size.choices for job in jobs) if len(jobs) > 1 else last

    def report_progress() -> None:
        share = sum(run.lines for run in runs) / sum(job.size.samples for job in jobs)
        there = " and ".join(f"{run.lines:,}" for run in runs)
        again = sum(job.endpoint.counts.retries for job in jobs)
        failing = f"; {format_count(again, 'request')} sent again, the server failed or did not answer" if again else ""
        on_progress(share, f"{there} of {last:,} samples{' of each' if len(runs) > 1 else ''}{failing}")

    try:
        with ExitStack() as open_:
            for run in runs:
                open_.enter_context(run)
            for number, until in enumerate(range(every, last + every, every)):
                for run in runs if number % 2 == 0 else runs[::-1]:
                    with _name_server(run, runs):
                        run.run_turn(until, report_progress)
            for run in runs:
                with _name_server(run, runs):
                    run.check_identity()
            report_progress()
    except OSError as error:
        folder = jobs[0].path.parent
        sentence = f"The folder '{folder}' could not be written ({error.strerror})."
        raise SettingsError("out", str(folder), "a folder that can be written", sentence) from error
    except SpecvizError:
        raise
    except BaseException:  # whoever stops the work should not wait for a silent server
        for job in jobs:
            job.endpoint.stopped.set()
        raise
    return [run.record for run in runs]


@contextmanager
def _name_server(run: _CollectionRun, runs: Sequence[_CollectionRun]) -> Iterator[None]:
    """Say of two servers which one failed."""
    try:
        yield
    except EndpointError as error:
        if len(runs) == 1:
            raise
        raise EndpointError(f"{'First' if run is runs[0] else 'Second'} server: {error}", error.status) from error


class _CollectionRun:
    """One file, open for one call of ``collect_samples``. Before it is entered, nothing is written and no request is sent."""

    def __init__(self, job: CollectionJob):
        self.job, self.endpoint, self.sampling, self.size, self.path = job, job.endpoint, job.sampling, job.size, job.path
        self.profile = job.server.profile
        line_bytes = len(
            _format_line(self.sampling, SampledText((2**31,) * self.sampling.max_tokens, "", "length"), SEED_REGION * 4)
        )
        if line_bytes * self.size.samples > LARGEST or line_bytes > LINE:
            allowed = f"at most {LARGEST // line_bytes:,} with a prompt and a length like this: the file would be larger than {LARGEST >> 20} MB"
            raise SettingsError("samples", self.size.samples, allowed)
        before = _read_earlier(job)
        self.lines, last = count_kept_lines(self.path)
        self.number = 0 if last is None else (last - self.size.first_seed) // self.size.choices + 1
        self.counts = before.counts if before else CollectionCounts()
        self.record = CollectionRecord(
            url=job.endpoint.url,
            profile=self.profile.name,
            about=job.server.about,
            sampling=self.sampling.to_record(),
            request=dict(self.profile.build_body(self.sampling, self.size.first_seed, self.size.choices)),
            seed=self.size.seed,
            arm=self.size.arm,
            requested=self.size.samples,
            concurrency=self.size.concurrency,
            choices=self.size.choices,
            checks=[asdict(check) for check in job.checks],
            start=before.start if before else _format_now(),
            identity=before.identity if before else [],
            samples=self.lines,
            counts=self.counts,
            refusals=list(job.refusals),
        )
        self.earlier = {name: getattr(self.counts, name) - value for name, value in self.list_failures()}
        self.created: dict[str, Any] | None = job.server.created
        self.checked_at, self.has_requested_single = time.monotonic(), False

    def list_failures(self) -> list[tuple[str, int]]:
        """Failures on the way and their numbers, as the endpoint has counted it so far."""
        return list(asdict(self.endpoint.counts).items())

    def __enter__(self) -> _CollectionRun:
        _save_record(self.path, self.record)
        self.file = self.path.open("ab")
        self.pool = DaemonThreadPool(self.size.concurrency, "request")
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()
        with suppress(OSError):
            self.file.flush()
            os.fsync(self.file.fileno())
        with suppress(OSError):
            self.file.close()
        self.record.samples, self.record.end = self.lines, _format_now()
        for name, value in self.list_failures():
            setattr(self.counts, name, self.earlier[name] + value)
        _save_record(self.path, self.record)

    def run_turn(self, until: int, on_poll: Callable[[], None]) -> None:
        """Send requests until there are so many lines. ``on_poll`` is called several times a second; what it raises ends the work.

        The server's draft counters are read before and after: another file may be of the same server.
        """
        if self.lines >= (until := min(until, self.size.samples)):
            return
        began, before = time.monotonic(), self.profile.read_draft_counters(self.endpoint)
        try:
            self.fill(until, on_poll)
        except BaseException as error:
            try:
                self._add_counters(before, self._read_counters_soon() if before is not None else None)
            finally:
                if not isinstance(error, SpecvizError):
                    self.endpoint.stopped.set()
            raise
        else:
            self._add_counters(before, self.profile.read_draft_counters(self.endpoint) if before is not None else None)
        finally:
            self.counts.seconds += time.monotonic() - began

    def _add_counters(self, before: DraftCounters | None, after: DraftCounters | None) -> None:
        """Add what the server counted between two readings, where it has counters and both were read."""
        if before is not None and after is not None:
            drafted = after - before
            self.counts.add_drafted(drafted.drafted, drafted.accepted, drafted.rounds)

    def _read_counters_soon(self) -> DraftCounters | None:
        """The counters, unless the server is silent: after an interrupt, or where it fails, nobody waits for it."""
        with closing(DaemonThreadPool(1, "counters")) as pool:
            asked = pool.submit(self.profile.read_draft_counters, self.endpoint)
            return asked.result() if wait([asked], LAST_COUNTERS_SECONDS).done else None

    def fill(self, until: int, on_poll: Callable[[], None]) -> None:
        """Write answers in the order of the requests until there are enough lines."""
        waiting: deque[tuple[int, Future[ServerAnswer]]] = deque()
        while self.lines < until:
            want = min(MAX_WAITING * self.size.concurrency, -(-(until - self.lines) // self.size.choices))
            while len(waiting) < want:
                seed = self.size.first_seed + self.number * self.size.choices
                waiting.append((seed, self.pool.submit(self._request, seed)))
                self.number += 1
            on_poll()
            if not wait([waiting[0][1]], POLL_SECONDS).done:
                continue
            while waiting and waiting[0][1].done():
                seed, answer = waiting.popleft()
                self._write_answer(seed, answer.result())
            self.file.flush()
            if time.monotonic() - self.checked_at > IDENTITY_SECONDS:
                self.checked_at = time.monotonic()
                self.check_identity()

    def _request(self, seed: int) -> ServerAnswer:
        return self.profile.request(self.endpoint, self.sampling, seed, self.size.choices)

    def _write_answer(self, seed: int, answer: ServerAnswer) -> None:
        """All samples of an answer, or none."""
        identity = list(answer.identity)
        if not self.record.identity:
            self.record.identity = identity
        elif self.record.identity != identity:
            before, after = (
                dict(zip(self.profile.identity_fields, one, strict=False)) for one in (self.record.identity, identity)
            )
            found = list_changes(before, after)
            raise EndpointError(
                f"Another model answers, or another build of the server: {format_changes(found)}. "
                f"{format_count(self.lines, 'sample')} of the first one are kept."
            )
        refuse_short(answer, self.sampling)
        counts, room = self.counts, min(self.size.samples - self.lines, len(answer.samples))
        if not has_token_count(answer, self.sampling):
            self._request_single_samples()
            counts.without_count += room
        for place, sample in enumerate(answer.samples[:room]):
            self.file.write(_format_line(self.sampling, sample, seed + place))
        self.lines += room
        ended = sum(sample.stop in ENDED for sample in answer.samples)
        counts.requests, counts.ended = counts.requests + 1, counts.ended + ended
        tokens = sum_counts([None if one.tokens is None else len(one.tokens) for one in answer.samples])
        if ended and tokens is not None and answer.completion_tokens == tokens + ended:
            counts.without_end += ended
        counts.add_drafted(answer.drafted, answer.accepted)

    def _request_single_samples(self) -> None:
        """Request single samples once where the tokens of several are counted together: there a server shows a smaller limit."""
        if self.has_requested_single or self.size.choices == 1:
            return
        self.has_requested_single = True
        first = compute_first_seed(self.size.seed, PROBE_REGION) + SINGLE_SEED_OFFSET + self.size.arm * SINGLE_REQUESTS
        for number in range(SINGLE_REQUESTS):
            answer = self.profile.request(self.endpoint, self.sampling, first + number)
            refuse_short(answer, self.sampling)
            is_whole = has_token_count(answer, self.sampling) and [one.stop for one in answer.samples] == ["length"]
            self.counts.single_requests += is_whole

    def check_identity(self) -> None:
        """Check that the same server answers. Raises EndpointError if not."""
        found: list[str] = []
        for _ in range(IDENTITY_TRIES):  # one that only fails now and then is no other server
            now = recognize_server(self.endpoint)
            before, after = ({"kind of server": one.profile.name} | one.about for one in (self.job.server, now))
            found = list_changes(before, after) if before != after else self._find_reload(now)
            if not found:
                return
        raise EndpointError(
            f"The server describes itself in another way than when the work began: {format_changes(found)}. "
            f"{format_count(self.lines, 'sample')} collected until now are kept; some of the latest may be of the new one."
        )

    def _find_reload(self, now: RecognizedServer) -> list[str]:
        """Changes of when the models were loaded. Many servers write the time of the answer there, which carries no information."""
        if self.created is None or now.created == self.created:
            return []
        again = get_creation_times(list_models(self.endpoint))
        if again == now.created:
            self.endpoint.stopped.wait(CLOCK_TICK)
            again = get_creation_times(list_models(self.endpoint))
        if again != now.created:
            self.created = None
            return []
        return list_changes({"created": self.created}, {"created": now.created})


def refuse_short(answer: ServerAnswer, sampling: SamplingRequest) -> None:
    """Check that samples have ``max_tokens`` tokens, or are texts that ended by themselves.

    Several samples whose tokens are counted together are checked together.

    Raises:
        EndpointError: For any other sample.
    """
    wanted = f"of {format_count(sampling.max_tokens, 'token')}"
    for sample in answer.samples:
        if sample.stop not in (*ENDED, "length"):
            raise EndpointError(
                f"The server ended a sample {wanted} with the reason {sample.stop[:60]!r}: only 'stop' and 'length' make it a sample."
            )
    if all(sample.tokens is not None for sample in answer.samples):
        for sample in answer.samples:
            _refuse_count(len(sample.tokens or ()), [sample], sampling)
    elif answer.completion_tokens is not None and has_token_count(answer, sampling):
        _refuse_count(answer.completion_tokens, answer.samples, sampling)


def _refuse_count(count: int, samples: Sequence[SampledText], sampling: SamplingRequest) -> None:
    """Raise EndpointError where these samples cannot have so many tokens together."""
    limited, several, length = (
        sum(sample.stop == "length" for sample in samples),
        len(samples) > 1,
        format_count(sampling.max_tokens, "token"),
    )
    given = f"{format_count(count, 'token')}{f' in {len(samples)} samples' if several else ''}"
    said = f"The server gave {given} where {'samples' if several else 'a sample'} of {length} {'were' if several else 'was'} asked for"
    if count > sampling.max_tokens * len(samples) + len(samples) - limited:
        raise EndpointError(f"{said}.")
    if count < sampling.max_tokens * limited:
        raise EndpointError(
            f"{said}, and calls that the limit{f' of {limited} of them' if several else ''}: its own limit, or its context, is smaller. "
            "Ask for a smaller --max-new-tokens."
        )


def has_token_count(answer: ServerAnswer, sampling: SamplingRequest) -> bool:
    """Whether an answer shows how many tokens its samples have: ids, or a count that is one of all samples.

    A server may count the first sample of a request alone, so a count that one sample could have is not counted for several.
    """
    if all(sample.tokens is not None for sample in answer.samples):
        return True
    if answer.completion_tokens is None:
        return False
    limited = sum(sample.stop == "length" for sample in answer.samples)
    return len(answer.samples) == 1 or not limited or answer.completion_tokens > sampling.max_tokens + 1


def _format_line(sampling: SamplingRequest, sample: SampledText, seed: int) -> bytes:
    """A sample as the file has it."""
    content: dict[str, Any] = {"text": sample.text} if sample.tokens is None else {"tokens": sample.tokens}
    content |= {"rounds": sample.rounds} if sample.rounds else {}
    record = {"prompt": sampling.line} | content | {"stop": sample.stop, "settings": sampling.build_settings(seed)}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _read_earlier(job: CollectionJob) -> CollectionRecord | None:
    """The record of an earlier call that this one continues. Raises SettingsError where it may not."""
    path, server = job.path, job.server
    try:
        before = read_record(path)
    except TraceError as error:
        sentence = f"The folder '{path.parent}' has a damaged record ({str(error)[:120]}). Give another folder."
        raise SettingsError("out", str(path.parent), "another folder", sentence) from error
    if before is None:
        if path.exists() and path.stat().st_size:
            sentence = f"'{path}' is there without a record of who sampled it. Give another folder."
            raise SettingsError("out", str(path.parent), "another folder", sentence)
        return None
    same = {
        "the request": (before.sampling, job.sampling.to_record()),
        "the kind of server": (before.profile, server.profile.name),
        DESCRIPTION: (before.about, server.about),
        "--seed": (before.seed, job.size.seed),
        "--choices": (before.choices, job.size.choices),
    }
    if other := [name for name, (then, now) in same.items() if json.loads(json.dumps(then)) != json.loads(json.dumps(now))]:
        changes = f": {format_changes(list_changes(before.about, server.about))}" if DESCRIPTION in other else ""
        sentence = f"'{path}' was begun with something else ({', '.join(other)}{changes}). Give another folder."
        raise SettingsError("out", str(path.parent), "another folder", sentence)
    return before


def count_kept_lines(path: Path) -> tuple[int, int | None]:
    """Lines of a file, and the seed of its last one. A last line that was cut off is removed."""
    try:
        if not path.exists():
            return 0, None
        content = path.read_bytes()
        whole_lines = content[: content.rfind(b"\n") + 1]
        if len(whole_lines) < len(content):
            os.truncate(path, len(whole_lines))
        lines = whole_lines.splitlines()
        return len(lines), int(json.loads(lines[-1])["settings"]["seed"]) if lines else None
    except OSError as error:
        sentence = f"'{path}' could not be written ({error.strerror})."
        raise SettingsError("out", str(path), "a file that can be written", sentence) from error
    except (ValueError, LookupError, TypeError) as error:
        sentence = f"The last line of '{path}' was not written by this command. Give another folder."
        raise SettingsError("out", str(path), "a sample file that this command has written", sentence) from error


def _save_record(path: Path, record: CollectionRecord) -> None:
    SCHEMA.save(record_path(path), SCHEMA.format_record(to_json_fields(record), indent=1))


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
