"""One audit from its options to its record: prepare the servers, collect, test, and write the record and the report.

The command ``audit``, ``assert_lossless`` and the pytest plugin are different ways to call ``run_audit``.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specviz.audit.collection.size import CollectionSize, RequestLimits
from specviz.audit.protocol.body_fields import refuse_distribution_fields, refuse_request_fields
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, EvidenceError, SettingsError, SpecvizError, TraceError, TrapError
from specviz.evidence.sampling.effort import SAMPLE_TOKENS
from specviz.models.pairs.names import PairPlaces, check_place
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import read_json, write
from specviz.settings import DEFAULTS, SAMPLING_FIELDS, SETTINGS, Settings
from specviz.statistics.finding import ALPHA

if TYPE_CHECKING:
    from specviz.audit.collection.audited_server import AuditTarget, KnownChecks
    from specviz.audit.collection.collect import CollectionRecord
    from specviz.audit.collection.other_traffic import BesideTraffic
    from specviz.audit.record import AuditRecord
    from specviz.models.pairs.generation_rules import GenerationRules
    from specviz.models.pairs.pair import LoadedPair

RECORD, REPORT = "report.json", "report.txt"  # files of an audit's folder, beside the samples
DEFAULT_MIN_TV = 0.02
DEFAULT_SAMPLE_TOKENS = int(SAMPLE_TOKENS.high)
BESIDE_TOKENS = 32  # least tokens of the other traffic: longer than most rounds, so that requests meet in all their places
BESIDE_CONCURRENCY = 4
RESUMABLE = "what was collected is kept in '{}'; the same command goes on from there"
BESIDE_SAMPLING = (
    "The checks before the samples and the tests after them come on top. After a rejection, so do the search for a known mistake (against "
    "weights) and the reproduction, at most 4 minutes."
)
UNCONFIRMED = "the report is in '{}'; further requests, such as its reproduction, were not made to the end"
VERDICT_CODES = {"consistent": 0, "rejected": 1, "too few samples": 3}
NO_DRAFT_CODE = 5  # exit code: consistent, and the server counted no draft token
TAKEN_FIELDS = ("prompt", "messages", "seed", "sampling_seed", "n", "stream")  # of a body: every request has its own

MakeProgress = Callable[[str], ProgressCallback]  # a callback for a part of the work with this name


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What an audit asks, of which servers, and what it compares with. The command's options have the same names.

    The reference is either local weights (``pair``, or ``target`` with or without ``draft``) or a second server (``against``, or
    ``against_body`` for other fields at the same one).

    Attributes:
        url: Of the server.
        prompt: Text to continue; with ``chat`` the message of the user.
        model: Its name on the server; empty: not named.
        max_new_tokens: Tokens of a sample that are tested.
        request_tokens: Tokens to ask for, where a server drafts only in longer requests; None: ``max_new_tokens``, or two rounds where ``gamma``
            says that a round is longer than that.
        gamma: Draft tokens of a round, for the tests of whole texts, where the server does not tell.
        beside: Other requests that are sent to the server while samples are collected, as fields on top of the tested one's.
        beside_concurrency: How many of them at a time.
        samples: Of each server; None: as many as ``min_tv`` needs.
        min_tv: Total variation that the tests must detect, in (0, 1].
        pair: Name of a pair that comes with the project.
        target, draft: Folders or hub names.
        body: Further fields of every request, which win over all others.
        concurrency: Requests at a time.
        choices: Samples of a request, where the server gives several.
        rate: Most requests per second.
        timeout: Seconds for an answer.
        api_key_variable: Environment variable that holds the server's key.
        ignore_checks: Whether to collect even where a check finds that samples will show nothing.

    Raises:
        SettingsError: A value is out of range, or there is no reference, or there are two.
    """

    url: str
    prompt: str = ""
    model: str = ""
    chat: bool = False
    max_new_tokens: int = DEFAULT_SAMPLE_TOKENS
    request_tokens: int | None = None
    gamma: int | None = None
    samples: int | None = None
    min_tv: float = DEFAULT_MIN_TV
    pair: str | None = None
    target: str | None = None
    draft: str | None = None
    device: str = DEFAULTS.device
    dtype: str = DEFAULTS.dtype
    against: str | None = None
    against_model: str | None = None
    against_body: Mapping[str, Any] | None = None
    temperature: float = DEFAULTS.temperature
    top_k: int | None = DEFAULTS.top_k
    top_p: float | None = DEFAULTS.top_p
    min_p: float | None = DEFAULTS.min_p
    warpers: str = DEFAULTS.warpers
    body: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = CollectionSize().concurrency
    choices: int = CollectionSize().choices
    rate: float | None = RequestLimits().rate
    timeout: float = RequestLimits().timeout
    api_key_variable: str = ""
    ignore_checks: bool = False
    beside: Sequence[Mapping[str, Any]] = ()
    beside_concurrency: int = BESIDE_CONCURRENCY
    seed: int = DEFAULTS.seed

    def __post_init__(self) -> None:
        SAMPLE_TOKENS.check(self.max_new_tokens)
        if self.request_tokens is not None and self.request_tokens < self.max_new_tokens:
            raise SettingsError("request-tokens", self.request_tokens, f"at least --max-new-tokens, {self.max_new_tokens}")
        if self.gamma is not None:
            SETTINGS["gamma"].check(self.gamma)
        second = self.against is not None or self.against_body is not None
        if self.has_weights == second:
            allowed = "local weights (--target or --pair), or a second server (--against, or --against-body for the same one)"
            found = "both were given" if second else "neither was given"
            raise SettingsError(
                "reference", "both" if second else "none", allowed, f"An audit compares the server with {allowed}; {found}."
            )
        for name, body in (("body", self.body), ("against-body", self.against_body or {})):
            refuse_request_fields(body, name, TAKEN_FIELDS)
        if self.has_weights:
            refuse_distribution_fields(self.body, "body")

    @property
    def has_weights(self) -> bool:
        """Whether the reference is local weights."""
        return any(one is not None for one in (self.pair, self.target, self.draft))

    @property
    def tests_whole_texts(self) -> bool:
        """Whether requests are longer than the tested tokens, so that whole texts are tested against weights as well."""
        return self.has_weights and self.request_length > self.max_new_tokens

    @property
    def request_length(self) -> int:
        """Tokens that each request asks for."""
        if self.request_tokens is not None:
            return self.request_tokens
        is_longer = self.has_weights and self.gamma is not None and self.gamma + 2 > self.max_new_tokens
        return 2 * ((self.gamma or 0) + 2) if is_longer else self.max_new_tokens

    @property
    def pair_name(self) -> str:
        """The name of the pair; a target alone is its own draft. Without weights the default, which is not read."""
        if self.target is None and self.draft is None:
            return self.pair or DEFAULTS.pair
        if self.pair is not None:
            raise SettingsError("pair", self.pair, "left out when --target and --draft are given")
        if self.target is None:
            allowed = "--pair NAME, or --target, alone or with --draft"
            raise SettingsError("pair", "no --target", allowed, f"--draft was given without --target. Give {allowed}.")
        for role, place in (("target", self.target), ("draft", self.draft or self.target)):
            check_place(role, place)
        return PairPlaces(self.target, self.draft or self.target, False).name

    @property
    def settings(self) -> Settings:
        """For all tests."""
        names = (*SAMPLING_FIELDS, "prompt", "max_new_tokens", "seed", "device", "dtype")
        return Settings(pair=self.pair_name, **{name: getattr(self, name) for name in names})

    @property
    def command(self) -> list[str]:
        """The words of the command line that asks the same."""
        words = ["specviz", "audit", self.url]
        for one in fields(self):
            value, usual = getattr(self, one.name), one.default
            if one.name == "url" or value == usual or (isinstance(value, Mapping) and not value and one.name == "body"):
                continue
            if isinstance(value, tuple | list):
                value = json.dumps(list(value))
            option = SETTINGS[one.name].option if one.name in SETTINGS else f"--{one.name.replace('_', '-')}"
            words += [option] if value is True else [option, json.dumps(value) if isinstance(value, Mapping) else str(value)]
        return words

    def build_folder_name(self) -> str:
        """A name for the folder of the samples."""
        return name_folder("audit", self.url)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What an audit takes. summaries: a text for each server; missing: samples of all servers that are still to be collected; seconds: for these."""

    summaries: tuple[str, ...]
    missing: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome of an audit. record: as the file of the audit holds it."""

    record: AuditRecord

    @property
    def verdict(self) -> str:
        """``consistent``, ``rejected`` or ``too few samples``."""
        return self.record["verdict"]

    @property
    def sentence(self) -> str:
        """The verdict in words, with the distance that would have been detected."""
        return self.record["sentence"]

    @property
    def has_drafted(self) -> bool | None:
        """Whether the server was seen to draft; None where it does not tell."""
        return self.record["audit"]["speculation"]["drafted"]

    @property
    def speculation(self) -> str:
        """Whether the server was seen to draft, in a sentence."""
        return self.record["audit"]["speculation"]["sentence"]

    @property
    def is_lossless(self) -> bool:
        """Whether the samples are consistent, and are not those of a server that drafted nothing."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """Of the command: 0, 1, 3 or 5, as its help explains."""
        code = VERDICT_CODES[self.verdict]
        return NO_DRAFT_CODE if code == 0 and self.has_drafted is False else code

    def __str__(self) -> str:
        from specviz.audit.findings.verdict import format_verdict

        return format_verdict(self.record)


def name_folder(command: str, url: str) -> str:
    """A name for what a command collects of a server."""
    return f"{command}-" + re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(url).netloc).strip("-")


def ignore_line(_: str) -> None:
    """Show nothing."""


def ignore_report(_: AuditReport) -> None:
    """Show nothing."""


def make_silent(_: str) -> ProgressCallback:
    """Progress that is not shown."""
    return ignore_progress


def run_audit(
    request: AuditRequest,
    folder: Path,
    make_progress: MakeProgress = make_silent,
    show_line: Callable[[str], None] = ignore_line,
    alpha: float = ALPHA,
    show_report: Callable[[AuditReport], None] = ignore_report,
    known_checks: KnownChecks | None = None,
) -> AuditReport:
    """Audit a server. The samples, who answered, the record and the report are written to the folder; the same call continues there.

    Where the work ends early, by an interrupt or because the server fails, the samples that are there are tested and reported before the
    exception goes on.

    Args:
        request: What is asked.
        folder: New, or of an earlier call with the same request.
        make_progress: Gives the callback for a part of the work; what the callback raises ends the work.
        show_line: Called with what is known before the samples are collected.
        alpha: False-alarm rate of all tests together.
        show_report: Called with the report of a rejected server before its reproduction is run, which takes a minute or two.
        known_checks: Those of the same request after other prompts, which are not all run again; this audit's are added.

    Raises:
        SettingsError: The folder holds something else, or an option is out of range. Nothing was requested then.
        EndpointError: The server cannot be reached, fails, or is not the one that it was. The samples collected until then are kept.
        TrapError: A check found that samples would show nothing.
        EvidenceError: Nothing can be tested.
    """
    check_folder(folder)
    with _Audit(request, folder, make_progress, show_line, alpha) as audit:
        with _explain_interrupt("the checks had not ended, so no sample was requested"):
            audit.prepare(known_checks=known_checks)
        try:
            records = audit.collect()
        except (KeyboardInterrupt, EndpointError):
            with suppress(KeyboardInterrupt):  # by a second one, the user does not wait for the tests
                audit.report_part()
            raise
        with _explain_interrupt(RESUMABLE.format(folder)):
            report = audit.judge(records)
        save_report(folder, report)
        if report.record["audit"]["reproduction"]:
            show_report(report)
        with _explain_interrupt(UNCONFIRMED.format(folder)):
            report = audit.confirm(report, records)
    save_report(folder, report)
    return report


@contextmanager
def _explain_interrupt(sentence: str) -> Iterator[None]:
    """Give an interrupt a sentence on what there is."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(sentence) from stop


def plan_audit(
    request: AuditRequest,
    folder: Path,
    make_progress: MakeProgress = make_silent,
    show_line: Callable[[str], None] = ignore_line,
    alpha: float = ALPHA,
    known_checks: KnownChecks | None = None,
) -> AuditPlan:
    """Check the servers, and say how many samples and seconds an audit takes. Arguments and errors as ``run_audit``."""
    with _Audit(request, folder, make_progress, show_line, alpha) as audit:
        audit.prepare(is_plan=True, known_checks=known_checks)
        ready = [target.preparation for target in audit.targets]
        left = [one.forecast for one in ready if one.forecast is not None]
        return AuditPlan(tuple(one.summary for one in ready), sum(one.missing for one in left), sum(one.seconds for one in left))


class _Audit:
    """The work of one audit, between opening the connections and closing them."""

    def __init__(
        self, request: AuditRequest, folder: Path, make_progress: MakeProgress, show_line: Callable[[str], None], alpha: float
    ):
        from specviz.audit.collection.audited_server import choose_sample_count

        self.request, self.folder, self.make_progress, self.show_line = request, folder, make_progress, show_line
        self.alpha = alpha
        self.beside_record: dict[str, Any] | None = None
        # The tests of whole texts have as much as those of the first tokens.
        self.first_alpha = alpha / 2 if request.tests_whole_texts else alpha
        self.settings = request.settings
        self.samples = request.samples or choose_sample_count(
            request.min_tv, request.max_new_tokens, not request.has_weights, self.first_alpha
        )
        self.pair = self._load_models() if request.has_weights else None
        self.targets = build_targets(request, self.samples, self.pair)
        self.rules = self._read_rules()

    def _read_rules(self) -> GenerationRules | None:
        """What the body changes in the reference; None without weights."""
        if self.pair is None:
            return None
        from specviz.audit.protocol.body_rules import read_body_rules

        prompt = self.pair.encode(self.targets[0].sampling.line)
        return read_body_rules(self.request.body, len(prompt), self.pair.vocabulary, self.pair.eos_token_ids)

    def __enter__(self) -> _Audit:
        return self

    def __exit__(self, *_: object) -> None:
        for target in self.targets:
            target.endpoint.close()

    def _load_models(self) -> LoadedPair:
        from specviz.models.pairs.loading import load_pair

        pair = load_pair(self.settings.pair, self.settings.device, self.settings.dtype).without_rules()
        for note in pair.list_notes(self.settings):
            self.show_line(note)
        return pair

    def prepare(self, is_plan: bool = False, known_checks: KnownChecks | None = None) -> None:
        """Check every server, and show what to expect. Raises TrapError where samples would show nothing."""
        from specviz.audit.collection.audited_server import describe_needed_samples

        request, ready, is_first = self.request, [], not known_checks
        two_files, alpha = not request.has_weights, self.first_alpha
        self.show_line(describe_needed_samples(request.min_tv, request.max_new_tokens, two_files, self.samples, alpha))
        if request.tests_whole_texts:
            from specviz.evidence.sampling.whole_texts import MAX_TEXTS, describe_text_power

            for share in (1.0, 0.05):
                self.show_line(describe_text_power(min(MAX_TEXTS, self.samples), request.request_length, share, alpha))
        for target in self.targets:
            on_progress = self.make_progress(urlsplit(target.endpoint.url).netloc)
            ready.append(
                target.prepare(
                    self.folder, request.min_tv, self.pair, on_progress, alpha, request.tests_whole_texts, known_checks
                )
            )
            if not is_plan:
                self.show_line(ready[-1].summary)
            if self.pair is not None and not ready[-1].has_ids and target.sampling.max_tokens != request.max_new_tokens:
                allowed = f"{request.max_new_tokens}, the --max-new-tokens: this server gives text without token ids, and texts are compared whole"
                if request.request_tokens is None:  # their length follows from gamma
                    raise SettingsError(
                        "gamma",
                        request.gamma,
                        "left out: this server gives text without token ids, and only its first tokens are tested",
                    )
                raise SettingsError("request-tokens", request.request_tokens, allowed)
        if is_first and not is_plan and any(one.forecast for one in ready):
            self.show_line(BESIDE_SAMPLING)
        if len({one.has_ids for one in ready}) > 1:
            first, second = ("token ids" if one.has_ids else "text" for one in ready)
            raise EvidenceError(
                f"The first server gives {first}, the second {second}: ask both in a form that both have, with --body or --against-body."
            )
        if (blocking := [check.sentence for one in ready for check in one.blocking]) and not request.ignore_checks:
            raise TrapError(f"{' '.join(blocking)} Samples would show nothing; --ignore-checks collects them all the same.")

    def collect(self) -> list[CollectionRecord]:
        """Fill the sample files. Returns the records beside them."""
        from specviz.audit.collection.collect import collect_samples

        jobs = [target.build_job(self.folder) for target in self.targets]
        try:
            with _explain_interrupt(RESUMABLE.format(self.folder)), self._open_beside() as beside:
                records = collect_samples(jobs, self.make_progress("samples"))
            self.beside_record = None if beside is None else beside.to_record()
            return records
        except EndpointError as error:
            sentence = f"{error} {RESUMABLE.format(self.folder).replace('what', 'What', 1)}."
            raise EndpointError(sentence, error.status) from error

    def _open_beside(self) -> AbstractContextManager[BesideTraffic | None]:
        """The other traffic, on connections of its own; nothing where none is wanted."""
        from specviz.audit.collection.other_traffic import BesideTraffic
        from specviz.audit.collection.size import CONFIRMATION_REGION, compute_first_seed
        from specviz.audit.protocol.endpoint import Endpoint, read_key

        request, target = self.request, self.targets[0]
        if not request.beside:
            return nullcontext()
        key, count = read_key(request.api_key_variable), request.beside_concurrency
        endpoint = Endpoint(target.endpoint.url, key, count, request.timeout)
        profile, seed = target.preparation.server.profile, compute_first_seed(request.seed, CONFIRMATION_REGION)
        sampling = replace(target.sampling, max_tokens=max(target.sampling.max_tokens, BESIDE_TOKENS), stream=False)
        return BesideTraffic(endpoint, profile, sampling, request.beside, count, seed)

    def _list_other_prompts(self) -> list[str]:
        """What the server's model reads in the other traffic, where that is not the tested prompt."""
        found = list(dict.fromkeys(one["prompt"] for one in self.request.beside if one.get("prompt")))
        return [write_prompt(self.pair, one, self.request.chat) for one in found] if self.pair is not None else []

    def _compare_log_probabilities(self) -> dict[str, Any] | None:
        """None without weights or token ids, where all samples were there already, and where the body changes the reference."""
        ready = self.targets[0].preparation
        if self.pair is None or not ready.has_ids or ready.forecast is None or (self.rules and self.rules.applied):
            return None
        from specviz.audit.collection.log_probabilities import compare_log_probabilities
        from specviz.audit.findings.verdict import convert_precision

        try:
            return compare_log_probabilities(self.targets[0], self.pair, convert_precision(self.pair), self.settings).to_record()
        except EndpointError as error:
            self.show_line(f"{error} Log probabilities were not compared.")
            return None

    def report_part(self) -> None:
        """Test what there is of samples that were not all collected, and save the report; or say why there is no verdict."""
        from specviz.audit.collection.collect import read_record

        try:
            records = [record for target in self.targets if (record := read_record(self.folder / target.file))]
            counts = [record.samples for record in records] if len(records) == len(self.targets) else [0]
            there = f"{' and '.join(f'{count:,}' for count in counts)} of {self.samples:,} samples{' of each' if len(self.targets) > 1 else ''}"
            if not min(counts):
                self.show_line(f"No verdict: {there} are there.")
                return
            self.show_line(f"{there} are there. They are tested now; a second interrupt ends that.")
            report = self.judge(records)
            save_report(self.folder, report)
        except SpecvizError as error:
            self.show_line(f"No verdict: {error}")
        else:
            self.show_line(f"{report.sentence} The report on these samples is in '{self.folder / REPORT}'.")

    def judge(self, records: Sequence[CollectionRecord]) -> AuditReport:
        """The report, before anything further is requested."""
        from specviz.audit.collection.audited_server import add_server_records
        from specviz.audit.findings import verdict
        from specviz.evidence.sampling.sample_files import read_samples

        request, settings = self.request, self.settings
        files = [read_samples(self.folder / target.file) for target in self.targets]
        report = verdict.build_verdict(
            files[0],
            settings=settings,
            pair=self.pair,
            against=files[1] if len(files) > 1 else None,
            tv=request.min_tv,
            seed=settings.seed,
            drafted=[record.drafted for record in records],
            command=request.command,
            on_progress=self.make_progress("testing"),
            requests=[target.request for target in self.targets],
            alpha=self.alpha,
            max_tokens=request.request_length,
            gamma=request.gamma or (round(length) if (length := records[0].counts.draft_length) else None),
            accepted_share=records[0].counts.accepted_share,
            other_prompts=self._list_other_prompts(),
            read_text=self.targets[0].build_token_reader(),
            **({"rules": self.rules} if self.rules else {}),
        )
        return AuditReport(add_server_records(report, records, None, {"beside": self.beside_record}))  # type: ignore[arg-type]

    def confirm(self, report: AuditReport, records: Sequence[CollectionRecord]) -> AuditReport:
        """The report with what further requests show: the reproduction of a rejection, log probabilities."""
        from specviz.audit.collection.audited_server import add_server_records

        runs = None
        if again := report.record["audit"]["reproduction"]:
            from specviz.audit.findings.confirmation import build_confirmation_record, confirm_reproduction

            try:
                confirmed = confirm_reproduction(self.targets, again, self.settings.seed, self.make_progress("again"))
                runs = build_confirmation_record(confirmed, again["exact"])
            except EndpointError as error:
                self.show_line(f"{error} The reproduction was not run.")
        more = {"beside": self.beside_record, "log_probabilities": self._compare_log_probabilities()}
        return AuditReport(add_server_records(report.record, records, runs, more))  # type: ignore[arg-type]


def write_prompt(pair: LoadedPair, prompt: str, chat: bool) -> str:
    """The text that the model reads: the prompt, or with ``chat`` the tokenizer's template with it as the message."""
    if not chat:
        return prompt
    from specviz.models.pairs.chat import apply_template

    return apply_template(pair.tokenizer, [{"role": "user", "content": prompt}])


def build_targets(request: AuditRequest, samples: int, pair: LoadedPair | None) -> list[AuditTarget]:
    """The servers of an audit, one or two. Raises SettingsError before the first request."""
    from specviz.audit.collection.audited_server import AuditTarget
    from specviz.audit.protocol.endpoint import Endpoint, normalize_url, read_key

    written = write_prompt(pair, request.prompt, chat=True) if request.chat and pair is not None else ""
    same = {name: getattr(request, name) for name in ("prompt", "chat", "temperature", "top_k", "top_p", "min_p")}
    same |= {"written": written, "max_tokens": request.request_length}
    url, body = normalize_url(request.url), dict(request.body)
    servers = [("samples", url, request.model, body)]
    if pair is None:
        second = normalize_url(request.against or request.url)
        model = request.model if request.against_model is None else request.against_model
        servers.append(("against", second, model, body | dict(request.against_body or {})))
        if servers[0][1:] == servers[1][1:]:
            allowed = "another server, or the same one with other fields (--against-body)"
            sentence = f"The reference, '{second}', is the audited server itself. --against takes {allowed}."
            raise SettingsError("against", request.against, allowed, sentence)
    key, targets = read_key(request.api_key_variable), []
    for number, (name, address, model, extra) in enumerate(servers):
        sampling = SamplingRequest(**same, model=model, extra=extra)
        size = CollectionSize(samples, request.concurrency, request.choices, request.seed, number)
        # The key is the first server's; a second one elsewhere must not learn it.
        own, variable = (key, request.api_key_variable) if urlsplit(address).netloc == urlsplit(url).netloc else ("", "")
        endpoint = Endpoint(address, own, request.concurrency, request.timeout, request.rate)
        targets.append(AuditTarget(endpoint, sampling, size, f"{name}.jsonl", variable))
    return targets


def save_report(folder: Path, report: AuditReport) -> None:
    """Write the record and the report to a folder. Raises SettingsError where that is not possible."""
    write(folder / RECORD, json.dumps(report.record, indent=1, allow_nan=False) + "\n", over=True)
    write(folder / REPORT, f"{report}\n", over=True)


def check_folder(folder: Path) -> None:
    """Check before hours of sampling that the record can be written. Raises SettingsError."""
    from specviz.evidence.testing.report import SCHEMA

    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    try:
        tempfile.TemporaryFile(dir=place).close()
        is_earlier = not (folder / RECORD).exists() or read_json(folder / RECORD, "The record").get("schema") == SCHEMA
    except OSError as error:
        sentence = f"The folder '{folder}' could not be written ({error.strerror})."
        raise SettingsError("out", str(folder), "a folder that can be written", sentence) from error
    except (TraceError, AttributeError):
        is_earlier = False
    if not is_earlier:
        allowed = "a new folder, or one of an earlier audit"
        sentence = f"'{folder / RECORD}' is no record of an audit. Give {allowed}."
        raise SettingsError("out", str(folder), allowed, sentence)
