"""Collect the samples of one server into a sample file, and beside it a record of what was asked and who answered.

The file always holds the first answers in the order of the questions: an answer that came early waits for those before it. So it does
not matter which samples are quick, and work that is stopped, or a server that fails, leaves an unbiased part that the same command
continues. Each request has a seed of its own, counted up from a start that only the command's seed decides, and the next one to be
used stands in the last line.

Two servers that are compared are asked in turn, a small batch each, in the order A B B A. So a machine that grows slower, or anything
else that drifts, meets both alike. What a batch is follows from the lines of the files alone, so work that goes on does so in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.audit.endpoint import Endpoint
from specviz.audit.profiles.base import SampledText, ServerAnswer
from specviz.audit.profiles.recognition import (
    RecognizedServer,
    format_changes,
    get_creation_times,
    list_changes,
    list_models,
    recognize_server,
)
from specviz.audit.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError, SpecvizError, TraceError
from specviz.evidence.sample_files import ENDED, LARGEST, LINE
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import Schema, list_versions, read_json
from specviz.settings import check_whole
from specviz.statistics.finding import format_count

SCHEMA = Schema("audit-samples", 1, "The record of the collected samples")
MAX_SAMPLES = 1_000_000  # samples of a file
MAX_CONCURRENCY, MAX_CHOICES = 256, 128
MAX_WAITING = 4  # answers that may wait for an earlier one, for each request at a time
POLL_SECONDS = 0.2  # seconds between two looks at whether to stop
IDENTITY_TRIES = 3  # such questions in a row that must say no
IDENTITY_SECONDS = 60.0  # seconds between two questions whether it is still the same server
CLOCK_TICK = 1.1  # seconds after which a clock of whole seconds has gone on
DESCRIPTION = "the server's description of itself"
ROUNDS_PER_TURN = 8  # rounds of requests that a server is asked before it is the other's turn
SEED_REGION = 2**29  # seeds of one file: the arms of a comparison, and the probes, have regions of their own, all below 2^31
PROBE_REGION = 2  # the region of the probes
SINGLE_SEED_OFFSET, SINGLE_REQUESTS = (
    SEED_REGION // 4,
    4,
)  # where in that region single samples begin that show a limit; how many are asked for


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """How samples are collected.

    samples  number in all; at_once  requests at a time; choices  samples of a request
    seed     decides the seeds of all requests; arm  0 or 1, of two files that are compared
    """

    samples: int
    at_once: int = 8
    choices: int = 1
    seed: int = 7
    arm: int = 0

    def __post_init__(self) -> None:
        check_whole("samples", self.samples, 1, MAX_SAMPLES, f"a whole number from 1 to {MAX_SAMPLES:,}")
        check_whole("concurrency", self.at_once, 1, MAX_CONCURRENCY)
        check_whole("choices", self.choices, 1, MAX_CHOICES)

    @property
    def first_seed(self) -> int:
        return compute_first_seed(self.seed, self.arm)


def compute_first_seed(seed: int, region: int) -> int:
    """Where the seeds of a region begin: in its first half, so that no file reaches the next region. At least 1, below 2^31."""
    digest = hashlib.sha256(f"{seed}".encode()).digest()
    return region * SEED_REGION + 1 + int.from_bytes(digest[:8], "big") % (SEED_REGION // 2)


@dataclass(slots=True)
class CollectionCounts:
    """What the answers showed besides samples.

    ended      samples that ended by themselves; stripped  those whose last token the server counted and did not give
    uncounted  samples of which nothing tells how many tokens they have; alone  requests of one sample that were asked because of it,
               and had all that they should
    drafted, accepted  draft tokens, None where the server does not show them
    """

    requests: int = 0
    ended: int = 0
    stripped: int = 0
    uncounted: int = 0
    alone: int = 0
    drafted: int | None = None
    accepted: int | None = None
    retried: int = 0
    refused: int = 0
    broken: int = 0
    late: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class CollectionRecord:
    """The file beside a sample file: who answered what. Its fields are JSON-ready."""

    url: str
    profile: str
    about: dict[str, Any]
    identity: list[str]
    manner: dict[str, Any]
    request: dict[str, Any]
    seed: int
    arm: int
    asked: int
    at_once: int
    choices: int
    traps: list[dict[str, Any]]
    began: str
    ended: str = ""
    samples: int = 0
    seen: dict[str, Any] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=list_versions)

    @property
    def drafted(self) -> bool | None:
        """Whether drafting was seen at work; None where this server does not show it."""
        count = self.seen.get("drafted")
        return None if count is None else count > 0


def record_path(path: Path) -> Path:
    """The record of a sample file."""
    return path.with_suffix(".json")


def read_record(path: Path) -> CollectionRecord | None:
    """What stands beside a sample file; None if nothing does. Raises TraceError for anything else."""
    if not record_path(path).exists():
        return None
    return SCHEMA.build(read_json(record_path(path), SCHEMA.what), lambda record: CollectionRecord(**record))


@dataclass(frozen=True, slots=True)
class CollectionJob:
    """One file to be filled.

    server   as ``recognize_server`` found it, with the settled profile
    path     of the sample file
    checks   of the preflight; refusals  fields that the server does not take: both for the record
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

    on_progress  called with the share of all samples that is there, several times a second; what it raises ends the work

    Raises EndpointError where a server fails, gives fewer tokens than asked, or is not the one that it was; SettingsError for a file
    of other questions. What was collected until then is in the files.
    """
    runs = [_CollectionRun(job) for job in jobs]
    last = max(job.size.samples for job in jobs)
    every = ROUNDS_PER_TURN * max(job.size.at_once * job.size.choices for job in jobs) if len(jobs) > 1 else last

    def told() -> None:
        share = sum(run.lines for run in runs) / sum(job.size.samples for job in jobs)
        there = " and ".join(f"{run.lines:,}" for run in runs)
        on_progress(share, f"{there} of {last:,} samples{' of each' if len(runs) > 1 else ''}")

    try:
        with ExitStack() as open_:
            for run in runs:
                open_.enter_context(run)
            for number, until in enumerate(range(every, last + every, every)):
                for run in runs if number % 2 == 0 else runs[::-1]:
                    with _name_server(run, runs):
                        run.run_turn(until, told)
            for run in runs:
                with _name_server(run, runs):
                    run.check_identity()
            told()
    except OSError as error:
        raise SettingsError("out", str(jobs[0].path.parent), f"files that can be written ({error.strerror})") from error
    except SpecvizError:
        raise
    except BaseException:  # somebody stops the work, and should not wait for a silent server
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
    """One file, open for one call of ``collect``. Nothing is written or asked before it is entered."""

    def __init__(self, job: CollectionJob):
        self.endpoint, self.server, self.sampling, self.size, self.path = (
            job.endpoint,
            job.server,
            job.sampling,
            job.size,
            job.path,
        )
        self.profile = job.server.profile
        sampling, size, path = job.sampling, job.size, job.path
        line_bytes = len(_format_line(sampling, SampledText((2**31,) * sampling.max_tokens, "", "length"), SEED_REGION * 4))
        if line_bytes * size.samples > LARGEST or line_bytes > LINE:
            allowed = f"at most {LARGEST // line_bytes:,} with a prompt and a length like this: the file would be larger than {LARGEST >> 20} MB"
            raise SettingsError("samples", size.samples, allowed)
        before = _read_earlier(path, job.server, sampling, size)
        self.lines, last = count_kept_lines(path)
        self.number = 0 if last is None else (last - size.first_seed) // size.choices + 1
        self.record = CollectionRecord(
            url=job.endpoint.url,
            profile=self.profile.name,
            about=job.server.about,
            identity=before.identity if before else [],
            manner=sampling.to_record(),
            request=dict(self.profile.build_body(sampling, size.first_seed, size.choices)),
            seed=size.seed,
            arm=size.arm,
            asked=size.samples,
            at_once=size.at_once,
            choices=size.choices,
            traps=[asdict(check) for check in job.checks],
            began=before.began if before else _format_now(),
            samples=self.lines,
            seen=before.seen if before else {},
            refusals=list(job.refusals),
        )
        self.seen, self.earlier, self.counted = CollectionCounts(), dict(self.record.seen), asdict(job.endpoint.counted)
        self.created: dict[str, Any] | None = job.server.created
        self.looked, self.asked_alone = time.monotonic(), False

    def __enter__(self) -> _CollectionRun:
        _save_record(self.path, self.record)
        self.file = self.path.open("ab")
        self.pool = DaemonThreadPool(self.size.at_once, "request")
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()
        with suppress(OSError):
            self.file.flush()
            os.fsync(self.file.fileno())
        with suppress(OSError):
            self.file.close()
        self.record.samples, self.record.ended = self.lines, _format_now()
        self.record.seen = self.merge_counts()
        _save_record(self.path, self.record)

    def run_turn(self, until: int, told: Callable[[], None]) -> None:
        """Ask until there are so many lines. What the server counts of its drafting is read around it: another file may be of the
        same server."""
        if self.lines >= (until := min(until, self.size.samples)):
            return
        began, before = time.monotonic(), self.profile.read_draft_counters(self.endpoint)
        try:
            self.fill(until, told)
        except SpecvizError:
            raise
        except BaseException:
            self.endpoint.stopped.set()
            raise
        finally:
            self.seen.seconds += time.monotonic() - began
            if before is not None and (after := self.profile.read_draft_counters(self.endpoint)) is not None:
                drafted, accepted = (int(b - a) for a, b in zip(before, after, strict=True))
                self.seen.drafted = (self.seen.drafted or 0) + drafted
                self.seen.accepted = (self.seen.accepted or 0) + accepted

    def fill(self, until: int, told: Callable[[], None]) -> None:
        """Write answers in the order of the requests until there are enough lines."""
        waiting: deque[tuple[int, Future[ServerAnswer]]] = deque()
        while self.lines < until:
            want = min(MAX_WAITING * self.size.at_once, -(-(until - self.lines) // self.size.choices))
            while len(waiting) < want:
                seed = self.size.first_seed + self.number * self.size.choices
                waiting.append((seed, self.pool.submit(self._answer, seed)))
                self.number += 1
            told()
            if not wait([waiting[0][1]], POLL_SECONDS).done:
                continue
            while waiting and waiting[0][1].done():
                seed, answer = waiting.popleft()
                self._write_answer(seed, answer.result())
            self.file.flush()
            if time.monotonic() - self.looked > IDENTITY_SECONDS:
                self.looked = time.monotonic()
                self.check_identity()

    def _answer(self, seed: int) -> ServerAnswer:
        body = self.profile.build_body(self.sampling, seed, self.size.choices)
        return self.profile.read_answer(
            self.endpoint.request_json(self.profile.select_path(self.sampling, self.size.choices), body)
        )

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
        for sample in answer.samples:
            refuse_short(sample, answer, self.sampling)
        if not has_token_count(answer, self.sampling):
            self._request_single_samples()
            self.seen.uncounted += min(self.size.samples - self.lines, len(answer.samples))
        room = self.size.samples - self.lines
        for place, sample in enumerate(answer.samples[:room]):
            self.file.write(_format_line(self.sampling, sample, seed + place))
        self.lines += min(room, len(answer.samples))
        seen, ended = self.seen, sum(sample.stop in ENDED for sample in answer.samples)
        seen.requests, seen.ended = seen.requests + 1, seen.ended + ended
        given = (
            None if any(one.tokens is None for one in answer.samples) else sum(len(one.tokens or ()) for one in answer.samples)
        )
        if ended and given is not None and answer.completion_tokens == given + ended:
            seen.stripped += ended
        if answer.drafted is not None:
            seen.drafted = (seen.drafted or 0) + answer.drafted
        if answer.accepted is not None:
            seen.accepted = (seen.accepted or 0) + answer.accepted

    def _request_single_samples(self) -> None:
        """Ask once for single samples where those of a request cannot be told apart: a server whose limit is smaller shows it there."""
        if self.asked_alone or self.size.choices == 1:
            return
        self.asked_alone = True
        first = compute_first_seed(self.size.seed, PROBE_REGION) + SINGLE_SEED_OFFSET + self.size.arm * SINGLE_REQUESTS
        for number in range(SINGLE_REQUESTS):
            body = self.profile.build_body(self.sampling, first + number, 1)
            answer = self.profile.read_answer(self.endpoint.request_json(self.profile.select_path(self.sampling, 1), body))
            for sample in answer.samples:
                refuse_short(sample, answer, self.sampling)
            self.seen.alone += (
                has_token_count(answer, self.sampling) and len(answer.samples) == 1 and answer.samples[0].stop == "length"
            )

    def check_identity(self) -> None:
        """Raises EndpointError if somebody else answers at the address."""
        found: list[str] = []
        for _ in range(IDENTITY_TRIES):  # one that only fails now and then is no other server
            now = recognize_server(self.endpoint)
            before, after = ({"kind of server": one.profile.name} | one.about for one in (self.server, now))
            found = list_changes(before, after) if before != after else self._find_reload(now)
            if not found:
                return
        raise EndpointError(
            f"The server describes itself in another way than when the work began: {format_changes(found)}. "
            f"{format_count(self.lines, 'sample')} collected until now are kept; some of the latest may be of the new one."
        )

    def _find_reload(self, now: RecognizedServer) -> list[str]:
        """Changes of when the models were loaded. Many servers write the time of the answer there, which says nothing and goes on."""
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

    def merge_counts(self) -> dict[str, Any]:
        """What was seen by this call and by those before."""
        for name, value in asdict(self.endpoint.counted).items():
            if hasattr(self.seen, name):
                setattr(self.seen, name, value - self.counted[name])
        now, both = asdict(self.seen), dict(self.earlier)
        for name, value in now.items():
            if value is not None:
                both[name] = (both.get(name) or 0) + value
        return {name: None for name in now} | both


def refuse_short(sample: SampledText, answer: ServerAnswer, sampling: SamplingRequest) -> None:
    """Raises EndpointError for a sample that is no sample of ``max_tokens`` tokens, or of a text that ended by itself."""
    where = f"of {format_count(sampling.max_tokens, 'token')}"
    if sample.stop not in (*ENDED, "length"):
        raise EndpointError(
            f"The server ended a sample {where} with the reason {sample.stop[:60]!r}: only 'stop' and 'length' make it a sample."
        )
    count = len(sample.tokens) if sample.tokens is not None else answer.completion_tokens if len(answer.samples) == 1 else None
    if count is None:
        _refuse_short_together(answer, sampling)
        return
    if count > sampling.max_tokens + (sample.stop in ENDED):
        raise EndpointError(f"The server gave {count} tokens where a sample {where} was asked for.")
    if count < sampling.max_tokens and sample.stop == "length":
        raise EndpointError(
            f"The server gave {format_count(count, 'token')} where a sample {where} was asked for, and calls that the limit: "
            "its own limit, or its context, is smaller. Ask for a smaller --max-new-tokens."
        )


def _refuse_short_together(answer: ServerAnswer, sampling: SamplingRequest) -> None:
    """The same for several samples whose tokens are counted together. A count that one sample could have is taken for one sample's."""
    count, where = answer.completion_tokens, f"of {format_count(sampling.max_tokens, 'token')}"
    if count is None or not has_token_count(answer, sampling):
        return
    whole_ones = sum(sample.stop == "length" for sample in answer.samples)
    together = f"{format_count(count, 'token')} in {format_count(len(answer.samples), 'sample')}"
    if count > sampling.max_tokens * len(answer.samples) + len(answer.samples) - whole_ones:
        raise EndpointError(f"The server gave {together} where samples {where} were asked for.")
    if count < sampling.max_tokens * whole_ones:
        raise EndpointError(
            f"The server gave {together} where samples {where} were asked for, and calls that the limit of {whole_ones} of them: "
            "its own limit, or its context, is smaller. Ask for a smaller --max-new-tokens."
        )


def has_token_count(answer: ServerAnswer, sampling: SamplingRequest) -> bool:
    """Whether an answer tells how many tokens its samples have: ids, or a count that is one of all samples.

    A server may count the first sample of a request alone, so a count that one sample could have says nothing of several.
    """
    if all(sample.tokens is not None for sample in answer.samples):
        return True
    if answer.completion_tokens is None:
        return False
    limited = sum(sample.stop == "length" for sample in answer.samples)
    return len(answer.samples) == 1 or not limited or answer.completion_tokens > sampling.max_tokens + 1


def _format_line(sampling: SamplingRequest, sample: SampledText, seed: int) -> bytes:
    """A sample as the file has it."""
    content = {"text": sample.text} if sample.tokens is None else {"tokens": sample.tokens}
    record = {"prompt": sampling.line} | content | {"stop": sample.stop, "settings": sampling.settings(seed)}
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _read_earlier(
    path: Path, server: RecognizedServer, sampling: SamplingRequest, size: CollectionSize
) -> CollectionRecord | None:
    """The record of an earlier call that this one continues. Raises SettingsError where it may not."""
    try:
        before = read_record(path)
    except TraceError as error:
        raise SettingsError("out", str(path.parent), f"a folder without a damaged record ({str(error)[:120]})") from error
    if before is None:
        if path.exists() and path.stat().st_size:
            raise SettingsError(
                "out", str(path.parent), f"another folder: '{path.name}' is there without a record of who sampled it"
            )
        return None
    same = {
        "the request": (before.manner, sampling.to_record()),
        "the kind of server": (before.profile, server.profile.name),
        DESCRIPTION: (before.about, server.about),
        "--seed": (before.seed, size.seed),
        "--choices": (before.choices, size.choices),
    }
    if other := [name for name, (then, now) in same.items() if json.loads(json.dumps(then)) != json.loads(json.dumps(now))]:
        said = f": {format_changes(list_changes(before.about, server.about))}" if DESCRIPTION in other else ""
        allowed = f"another folder: '{path.name}' was begun with something else ({', '.join(other)}{said})"
        raise SettingsError("out", str(path.parent), allowed)
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
        raise SettingsError("out", str(path), f"a file that can be written ({error.strerror})") from error
    except (ValueError, LookupError, TypeError) as error:
        raise SettingsError("out", str(path), "a sample file that this command has written; its last line is not") from error


def _save_record(path: Path, record: CollectionRecord) -> None:
    SCHEMA.save(record_path(path), SCHEMA.text(asdict(record), indent=1))


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
