"""``audit``: is a running server exact? Checks it, collects its samples, and tests their distribution."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from specviz.audit.collection_size import CollectionSize, RequestLimits
from specviz.audit.junit import list_audit_cases, write_junit
from specviz.audit.run import DEFAULT_MIN_TV, DEFAULT_SAMPLE_TOKENS, AuditReport, AuditRequest, plan_audit, run_audit
from specviz.audit.sampling_request import MAX_TOKENS
from specviz.cli.common.command_options import add_count, add_declared, add_sampling_options, add_seed_option, add_setting
from specviz.cli.common.output import add_figures_option, add_format_option, add_junit_option, print_record, read_json_object
from specviz.cli.common.progress import Progress, log_line
from specviz.errors import SpecvizError
from specviz.evidence.sampling.effort import SAMPLE_TOKENS, SamplingEffort
from specviz.settings import SETTINGS

FIGURES = "figures"  # folder of tables and figures in the audit's folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("url", metavar="URL", help="address of an OpenAI-compatible server, such as http://HOST:PORT/v1")
    add("--model", default="", metavar="NAME", help="the model's name on the server (default: not named)")
    add_setting(add, "prompt", help="text to continue; with --chat the message of the user", shown="empty")
    chat_help = "ask the chat endpoint; with --target the tokenizer's chat template is what the model reads"
    add("--chat", action="store_true", help=chat_help)
    add_setting(add, SAMPLE_TOKENS, default=DEFAULT_SAMPLE_TOKENS, help="tokens of a sample that are tested")
    longer = "tokens to ask for; beyond --max-new-tokens, whole texts are tested as well against local weights (default: --max-new-tokens)"
    add_count(add, "max-tokens", 1, MAX_TOKENS, longer)
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
    add_declared(add, CollectionSize, "concurrency", "choices")
    add_declared(add, RequestLimits, "rate", "timeout")
    key_help = "environment variable that holds the server's key; the key is never stored or shown"
    add("--api-key-variable", default="", metavar="NAME", help=key_help)
    add("--ignore-checks", action="store_true", help="collect even where a check finds that the samples will show nothing")
    add_seed_option(parser)
    add_format_option(parser, "the report as JSON")
    out_help = "folder of the samples, the record and the report; the same command continues there (default: audit-HOST-PORT)"
    add("--out", type=Path, metavar="DIR", help=out_help)
    add_figures_option(parser)
    add_junit_option(parser)


def run(options: argparse.Namespace) -> int:
    names = {one.name for one in fields(AuditRequest)}
    given = {name: value for name, value in vars(options).items() if name in names}
    given["prompt"] = options.prompt.removeprefix("\ufeff")  # a byte order mark, from "$(cat FILE)"
    given["body"] = read_json_object(options.body, "body")
    if options.against_body is not None:
        given["against_body"] = read_json_object(options.against_body, "against-body")
    request = AuditRequest(**given)
    folder = options.out or Path(request.build_folder_name())
    if options.plan:
        print("\n".join(plan_audit(request, folder, Progress, log_line)))
        return 0
    try:
        report = _run(request, options, folder)
    except SpecvizError as error:
        if options.junit:
            write_junit(options.junit, "specviz audit", request.url, list_audit_cases(error))
        raise
    if options.junit:
        write_junit(options.junit, "specviz audit", request.url, list_audit_cases(report))
    print_record(dict(report.record), options, lambda _: str(report))
    log_line(f"samples, record and report: {folder}")
    return report.exit_code


def _run(request: AuditRequest, options: argparse.Namespace, folder: Path) -> AuditReport:
    """The audit, and its figures where they are wanted."""
    figures = folder / FIGURES
    if options.figures:
        from specviz.export.folder import check_writable

        check_writable(figures if folder.is_dir() else folder)
    report = run_audit(request, folder, Progress, log_line)
    if options.figures:
        from specviz.export.report import write_certificate

        if sentence := write_certificate(figures, dict(report.record)):
            log_line(sentence)
    return report
