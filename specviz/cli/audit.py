"""``audit``: is a running server exact? Checks it, collects its samples, and tests their distribution."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from specviz.audit.collection.size import CollectionSize, RequestLimits
from specviz.audit.junit import JUnitCase, list_audit_cases, write_junit
from specviz.audit.many_prompts import DEFAULT, PromptReports, plan_prompts, read_audit_prompts, run_prompts
from specviz.audit.protocol.sampling_request import MAX_TOKENS
from specviz.audit.run import (
    BESIDE_CONCURRENCY,
    BESIDE_SAMPLING,
    DEFAULT_MIN_TV,
    DEFAULT_SAMPLE_TOKENS,
    AuditReport,
    AuditRequest,
    plan_audit,
    run_audit,
)
from specviz.cli.common.command_options import add_count, add_declared, add_sampling_options, add_seed_option, add_setting
from specviz.cli.common.output import add_figures_option, add_format_option, add_junit_option, print_record, read_json_object
from specviz.cli.common.progress import Progress, log_line
from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.sampling.effort import SAMPLE_TOKENS, SamplingEffort
from specviz.settings import SETTINGS

FIGURES = "figures"  # folder of tables and figures in the audit's folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", default="", help="address of an OpenAI-compatible server, such as http://HOST:PORT/v1")
    log_help = (
        "test logged samples in place of a server: JSON lines with prompt, tokens, stop and settings; needs --target or --pair"
    )
    add("--log", type=Path, metavar="FILE", help=log_help)
    add("--model", default="", metavar="NAME", help="the model's name on the server (default: not named)")
    add_setting(add, "prompt", help="text to continue; with --chat the message of the user", shown="empty")
    prompts_help = (
        f"audit after each prompt of a file (one to a line, or JSON lines with a field prompt), or of the '{DEFAULT}' set"
    )
    add("--prompts", metavar="FILE", help=prompts_help)
    chat_help = "ask the chat endpoint; with --target the tokenizer's chat template is what the model reads"
    add("--chat", action="store_true", help=chat_help)
    add_setting(add, SAMPLE_TOKENS, default=DEFAULT_SAMPLE_TOKENS, help="tokens of a sample that are tested")
    longer = "tokens to ask for; beyond --max-new-tokens, whole texts are tested as well against local weights (default: --max-new-tokens, or two rounds if --gamma is longer)"
    add_count(add, "request-tokens", 1, MAX_TOKENS, longer)
    add_setting(add, "gamma", default=None, help="draft tokens of a round, where the server does not tell; for whole texts")
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
    beside_help = "send other requests while samples are collected: a JSON object of fields, a list of them, or 'default'"
    add("--beside", metavar="JSON", help=beside_help)
    add_count(add, "beside-concurrency", 1, 64, "other requests at a time", default=BESIDE_CONCURRENCY)
    add_declared(add, CollectionSize, "concurrency", "choices")
    add_declared(add, RequestLimits, "rate", "timeout")
    key_help = "environment variable that holds the server's key; the key is never stored or shown"
    add("--api-key-variable", default="", metavar="NAME", help=key_help)
    add("--ignore-checks", action="store_true", help="collect even where a check finds that the samples will show nothing")
    add_seed_option(parser)
    add_format_option(parser, "the report as JSON")
    out_help = "folder of the samples, the record and the report; the same command continues there (default: audit-HOST-PORT, with --log audit-FILE)"
    add("--out", type=Path, metavar="DIR", help=out_help)
    add_figures_option(parser)
    add_junit_option(parser)
    parser.set_defaults(shown="")  # what was printed of the report before the audit ended


def run(options: argparse.Namespace) -> int:
    if bool(options.url) == bool(options.log):
        found = "Both a URL and --log were given" if options.url else "The URL of the server is missing"
        raise SettingsError(
            "URL", options.url, "a URL, or --log FILE in its place", f"{found}. Give a URL, or --log FILE in its place."
        )
    where = options.url or str(options.log)
    if options.junit:  # an earlier run's file must not pass for this one's
        write_junit(options.junit, "specviz audit", where, [JUnitCase("lossless", "error", "The audit did not end.")])
    try:
        report = _audit_log(options) if options.log else _audit_server(options)
    except SpecvizError as error:
        if options.junit:
            write_junit(options.junit, "specviz audit", where, list_audit_cases(error))
        raise
    if report is None:
        return 0
    if options.junit:
        write_junit(options.junit, "specviz audit", where, list_audit_cases(report))
    record = report.to_record() if isinstance(report, PromptReports) else dict(report.record)
    print_record(record, options, lambda _: _format_rest(str(report), options.shown))
    return report.exit_code


def _format_rest(text: str, shown: str) -> str:
    """The lines of a report that were not printed before."""
    before = {*shown.splitlines()}
    return "\n".join(line for line in text.splitlines() if line not in before) if shown else text


def _read_request(options: argparse.Namespace, prompts: Sequence[str]) -> AuditRequest:
    names = {one.name for one in fields(AuditRequest)}
    given = {name: value for name, value in vars(options).items() if name in names}
    given["prompt"] = options.prompt.removeprefix("\ufeff")  # a byte order mark, from "$(cat FILE)"
    given["body"] = read_json_object(options.body, "body")
    if options.against_body is not None:
        given["against_body"] = read_json_object(options.against_body, "against-body")
    given["beside"] = ()
    if options.beside is not None:
        from specviz.audit.collection.other_traffic import read_beside

        given["beside"] = read_beside(options.beside)
    return AuditRequest(**given | ({"prompt": prompts[0]} if prompts else {}))


def _audit_server(options: argparse.Namespace) -> AuditReport | PromptReports | None:
    """The audit; with ``--plan`` what it takes is printed, and nothing returned."""
    prompts = () if options.prompts is None else read_audit_prompts(options.prompts)
    if prompts and options.prompt:
        raise SettingsError("prompts", options.prompts, "left out when --prompt is given")
    request = _read_request(options, prompts)
    folder = options.out or Path(request.build_folder_name())
    if options.plan:
        if prompts:
            lines = plan_prompts(request, prompts, folder, Progress, log_line)
        else:
            lines = [*plan_audit(request, folder, Progress, log_line).summaries, BESIDE_SAMPLING]
        print("\n".join(lines))
        return None
    report = _run(request, prompts, options, folder)
    log_line(f"samples, record and report: {folder}")
    return report


def _audit_log(options: argparse.Namespace) -> AuditReport:
    """Test the samples of ``--log``."""
    from specviz.audit.logged_samples import audit_log

    request = _read_request(options, ())
    if not request.has_weights:
        allowed = "given with --target or --pair: logged samples are tested against local weights"
        sentence = "--log needs local weights, which its samples are tested against. Give --target or --pair."
        raise SettingsError("log", str(options.log), allowed, sentence)
    folder = options.out or Path(f"audit-{options.log.stem}")
    report = audit_log(
        options.log,
        request.settings,
        folder,
        min_tv=request.min_tv,
        has_draft=request.pair is not None or request.draft is not None,
        gamma=request.gamma,
        command=["specviz", "audit", "--log", str(options.log), *request.command[3:]],
        on_progress=Progress("testing"),
        show_line=log_line,
    )
    log_line(f"record and report: {folder}")
    return report


def _run(
    request: AuditRequest, prompts: tuple[str, ...], options: argparse.Namespace, folder: Path
) -> AuditReport | PromptReports:
    """The audit, and its figures where they are wanted."""
    if options.figures:
        from specviz.export.folder import check_writable

        check_writable(folder / FIGURES if folder.is_dir() else folder)

    def show_report(report: AuditReport) -> None:
        """Print it before the reproduction is run."""
        if options.format == "text":
            options.shown = str(report)
            print(options.shown, end="\n\n", flush=True)

    found: AuditReport | PromptReports = (
        run_prompts(request, prompts, folder, Progress, log_line)
        if prompts
        else run_audit(request, folder, Progress, log_line, show_report=show_report)
    )
    if options.figures:
        from specviz.export.report import write_certificate

        reports = zip(found.folders, found.reports, strict=True) if isinstance(found, PromptReports) else [("", found)]
        for name, report in reports:
            if sentence := write_certificate(folder / name / FIGURES, dict(report.record)):
                log_line(sentence)
    return found
