"""``audit``: is a running server exact? Checks it, collects its samples, and tests their distribution."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specviz.audit.body_fields import refuse_distribution_fields
from specviz.audit.collection_size import CollectionSize, RequestLimits
from specviz.audit.sampling_request import MAX_TOKENS, SamplingRequest
from specviz.cli.common.command_options import (
    add_count,
    add_declared,
    add_sampling_options,
    add_seed_option,
    add_setting,
    load_models,
    read_pair_name,
    read_settings,
)
from specviz.cli.common.output import NO_VERDICT, add_format_option, list_command_words, print_record
from specviz.cli.common.progress import Progress, log_line
from specviz.errors import EndpointError, EvidenceError, SettingsError
from specviz.evidence.sampling.effort import SAMPLE_TOKENS, SamplingEffort
from specviz.settings import DEFAULTS, SETTINGS, Settings

if TYPE_CHECKING:
    from specviz.audit.collect import CollectionRecord
    from specviz.audit.target import AuditTarget
    from specviz.models.pairs.loading import LoadedPair

EXIT_CODES = {"consistent": 0, "rejected": 1, "too few samples": NO_VERDICT}
DEFAULT_MIN_TV = 0.02  # default of --min-tv
RESUMABLE = "what was collected is kept in '{}'; the same command goes on from there"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("url", metavar="URL", help="address of an OpenAI-compatible server, such as http://HOST:PORT/v1")
    add("--model", default="", metavar="NAME", help="the model's name on the server (default: not named)")
    add_setting(add, "prompt", help="text to continue; with --chat the message of the user", shown="empty")
    chat_help = "ask the chat endpoint; with --target the tokenizer's chat template is what the model reads"
    add("--chat", action="store_true", help=chat_help)
    add_setting(add, SAMPLE_TOKENS, default=int(SAMPLE_TOKENS.high), help="tokens of a sample that are tested")
    longer = "tokens to ask for, where a server drafts only in longer requests (default: --max-new-tokens)"
    add_count(add, "max-tokens", 1, MAX_TOKENS, longer)
    add_declared(add, CollectionSize, "samples", default=None, shown="as many as --min-tv needs")
    add("--plan", action="store_true", help="check the server, print how many samples and minutes the audit takes, and end")
    add_declared(add, SamplingEffort, "min_tv", default=DEFAULT_MIN_TV)
    group = parser.add_argument_group("the reference: local weights, or a second server").add_argument
    group("--pair", help="name of a pair that comes with the project: its target's exact distribution is the reference")
    group("--target", metavar="T", help="folder or hub name of the model that the server runs")
    group("--draft", metavar="D", help="folder or hub name of its draft model, which a diagnosis needs (default: none)")
    add_setting(group, "device")
    add_setting(group, "dtype", help=f"{SETTINGS['dtype'].help}; the server's, if you know it")
    group("--against", metavar="URL2", help="compare with a second server, such as the same one without speculation")
    group("--against-model", metavar="NAME", help="the model's name on the second server (default: --model)")
    group("--against-body", metavar="JSON", help="fields of the second server's requests; without --against, of the same server")
    add_sampling_options(parser)
    add("--body", default="", metavar="JSON", help="further fields of every request, which win over all others")
    add_declared(add, CollectionSize, "concurrency", "choices")
    add_declared(add, RequestLimits, "rate", "timeout")
    key_help = "environment variable that holds the server's key; the key is never stored or shown"
    add("--api-key-variable", default="", metavar="NAME", help=key_help)
    add("--ignore-checks", action="store_true", help="collect even where a check finds that the samples will show nothing")
    add_seed_option(parser)
    add_format_option(parser, "the report as JSON")
    out_help = (
        "folder of the samples, who answered, and the certificate; the same command continues there (default: audit-HOST-PORT)"
    )
    add("--out", type=Path, metavar="DIR", help=out_help)


def run(options: argparse.Namespace) -> int:
    from specviz.audit import verdict
    from specviz.audit.target import choose_sample_count
    from specviz.export.folder import check_writable
    from specviz.export.report import write_certificate

    settings = read_audit_settings(options)
    two_files = not has_local_reference(options)
    options.samples = options.samples or choose_sample_count(options.min_tv, options.max_new_tokens, two_files)
    folder = options.out or Path(name_folder("audit", options.url))
    check_writable(folder / "certificate" if folder.is_dir() else folder)
    pair = load_models(settings, rules=False) if has_local_reference(options) else None
    targets = build_targets(options, settings, pair)
    try:
        _prepare_servers(targets, options, folder, pair)
        if options.plan:
            print("\n".join(target.preparation.summary for target in targets))
            return 0
        records = _collect_samples(targets, folder)
        report = _build_report(targets, records, options, settings, folder, pair)
    finally:
        for target in targets:
            target.endpoint.close()
    if sentence := write_certificate(folder / "certificate", report):
        log_line(sentence)
    print_record(report, options, verdict.format_verdict)
    log_line(f"samples, who answered, and the certificate: {folder}")
    return EXIT_CODES[report["verdict"]]


def _build_report(
    targets: list[AuditTarget],
    records: list[CollectionRecord],
    options: argparse.Namespace,
    settings: Settings,
    folder: Path,
    pair: LoadedPair | None,
) -> dict[str, Any]:
    """The sealed report; the reproduction of a server that was rejected against weights is run."""
    from specviz.audit import verdict
    from specviz.audit.target import add_server_records
    from specviz.evidence.sample_files.reader import read_samples

    files = [read_samples(folder / target.file) for target in targets]
    report = verdict.build_verdict(
        files[0],
        settings=settings,
        pair=pair,
        against=files[1] if len(files) > 1 else None,
        tv=options.min_tv,
        seed=settings.seed,
        drafted=[record.drafted for record in records],
        command=list_command_words("audit", add_arguments, options),
        on_progress=Progress("testing"),
        requests=[target.request for target in targets],
    )
    runs = None
    if pair is not None and (again := report["audit"]["reproduction"]):
        from specviz.audit.confirmation import confirm_reproduction, confirmation_to_record

        try:
            runs = confirmation_to_record(
                confirm_reproduction(targets[0], again, settings.seed, Progress("again")), again["exact"]
            )
        except EndpointError as error:
            log_line(f"{error} The reproduction was not run.")
    return add_server_records(report, records, runs)


def read_audit_settings(options: argparse.Namespace) -> Settings:
    """Settings of the options, for all tests. Numbers out of range raise SettingsError before the first request."""
    if options.max_tokens is not None and options.max_tokens < options.max_new_tokens:
        raise SettingsError("max-tokens", options.max_tokens, f"at least --max-new-tokens, {options.max_new_tokens}")
    second = options.against is not None or options.against_body is not None
    if has_local_reference(options) == second:
        raise SettingsError(
            "reference", "both" if second else "none",
            "local weights (--target or --pair), or a second server (--against, or --against-body for the same one)",
        )  # fmt: skip
    return read_settings(options, pair=read_reference_pair(options) if has_local_reference(options) else DEFAULTS.pair)


def has_local_reference(options: argparse.Namespace) -> bool:
    """Whether the reference is local weights."""
    return any(getattr(options, name) is not None for name in ("pair", "target", "draft"))


def read_reference_pair(options: argparse.Namespace) -> str:
    """The name of the pair; a target alone is its own draft."""
    if options.target is not None and options.draft is None and options.pair is None:
        return f"{options.target}|{options.target}"
    return read_pair_name(options)


def build_targets(options: argparse.Namespace, settings: Settings, pair: LoadedPair | None) -> list[AuditTarget]:
    """The servers of an audit, one or two. Raises SettingsError before the first request."""
    from specviz.audit.endpoint import Endpoint, normalize_url, read_key
    from specviz.audit.target import AuditTarget

    written = ""
    if options.chat and pair is not None:
        from specviz.models.pairs.chat import apply_template

        written = apply_template(pair.tokenizer, [{"role": "user", "content": options.prompt}])
    same = {name: getattr(options, name) for name in ("prompt", "chat", "temperature", "top_k", "top_p", "min_p")}
    same |= {"written": written, "max_tokens": options.max_tokens or options.max_new_tokens}
    url, body = normalize_url(options.url), read_json_object(options.body, "body")
    servers = [("samples", url, options.model, body)]
    if pair is not None:
        refuse_distribution_fields(body, "body")
    else:
        second = normalize_url(options.against or options.url)
        model = options.model if options.against_model is None else options.against_model
        servers.append(("against", second, model, body | read_json_object(options.against_body or "", "against-body")))
        if servers[0][1:] == servers[1][1:]:
            raise SettingsError("against", options.against, "another server, or the same one with other fields (--against-body)")
    key, targets = read_key(options.api_key_variable), []
    for number, (name, address, model, extra) in enumerate(servers):
        sampling = SamplingRequest(**same, model=model, extra=extra)
        size = CollectionSize(options.samples, options.concurrency, options.choices, settings.seed, number)
        # The key is the first server's; a second one elsewhere must not learn it.
        own, variable = (key, options.api_key_variable) if urlsplit(address).netloc == urlsplit(url).netloc else ("", "")
        endpoint = Endpoint(address, own, options.concurrency, options.timeout, options.rate)
        targets.append(AuditTarget(endpoint, sampling, size, f"{name}.jsonl", variable))
    return targets


def read_json_object(text: str, name: str) -> dict[str, Any]:
    """An object of an option. Raises SettingsError."""
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SettingsError(name, text, 'a JSON object such as {"top_k": 0}')
    if taken := sorted({"prompt", "messages", "seed", "sampling_seed", "n", "stream"} & found.keys()):
        raise SettingsError(name, taken[0], "without what other options say, or what every request has of its own (the seed)")
    return found


def _prepare_servers(targets: list[AuditTarget], options: argparse.Namespace, folder: Path, pair: LoadedPair | None) -> None:
    """Prepare every server and print what to expect. Raises EvidenceError where samples would show nothing."""
    from specviz.audit.target import describe_needed_samples

    log_line(describe_needed_samples(options.min_tv, options.max_new_tokens, pair is None, options.samples))
    ready = []
    for target in targets:
        ready.append(target.prepare(folder, options.min_tv, pair, Progress(urlsplit(target.endpoint.url).netloc)))
        if not options.plan:
            log_line(ready[-1].summary)
        if pair is not None and not ready[-1].has_ids and target.sampling.max_tokens != options.max_new_tokens:
            allowed = f"{options.max_new_tokens}, the --max-new-tokens: this server gives text without token ids, and texts are compared whole"
            raise SettingsError("max-tokens", options.max_tokens, allowed)
    if len({one.has_ids for one in ready}) > 1:
        first, second = ("token ids" if one.has_ids else "text" for one in ready)
        raise EvidenceError(
            f"The first server gives {first}, the second {second}: ask both in a form that both have, with --body or --against-body."
        )
    if (blocking := [check.sentence for one in ready for check in one.blocking]) and not options.ignore_checks:
        raise EvidenceError(f"{' '.join(blocking)} Samples would show nothing; --ignore-checks collects them all the same.")


def _collect_samples(targets: list[AuditTarget], folder: Path) -> list[CollectionRecord]:
    """Fill the sample files. Returns the records beside them."""
    from specviz.audit.collect import collect_samples

    try:
        return collect_samples([target.build_job(folder) for target in targets], Progress("samples"))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(RESUMABLE.format(folder)) from stop
    except EndpointError as error:
        raise EndpointError(f"{error} {RESUMABLE.format(folder).replace('what', 'What', 1)}.", error.status) from error


def name_folder(command: str, url: str) -> str:
    """A name for what a command collects of a server."""
    return f"{command}-" + re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(url).netloc).strip("-")
