"""``pays``: does speculation make a running server faster? Streams prompts to it with speculation and without, in turns."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specviz.audit.collection.size import RequestLimits
from specviz.audit.junit import JUnitCase, write_junit
from specviz.audit.protocol.body_fields import refuse_request_fields
from specviz.audit.run import RECORD, REPORT, name_folder
from specviz.cli.common.command_options import add_declared, add_number, load_models, read_pair_name
from specviz.cli.common.output import (
    NO_VERDICT,
    add_figures_option,
    add_format_option,
    add_junit_option,
    format_command,
    print_record,
    read_json_object,
)
from specviz.cli.common.progress import Progress, log_line
from specviz.errors import EndpointError, SettingsError, SpecvizError
from specviz.records import write
from specviz.settings import Settings, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specviz.audit.pays.load import Arm, LoadPlan
    from specviz.audit.pays.streams import Prompt

FIGURES = "figures"  # folder of table and figures beside the report
DEFAULT_USERS = "1,2,4,8"
MAX_WHAT_IF_TOKENS = 96  # tokens of a continuation that is counted
TIMEOUT = 300.0  # seconds for an answer
TAKEN = (
    "prompt",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "model",
    "seed",
    "sampling_seed",
    "n",
)  # fields of a request that options set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from specviz.audit.pays.load import LoadPlan

    add = parser.add_argument
    add("url", metavar="URL", help="address of an OpenAI-compatible server with speculation on, such as http://HOST:PORT/v1")
    add("--model", default="", metavar="NAME", help="the model's name on the server (default: not named)")
    group = parser.add_argument_group("speculation off: a second server, or the same one with other fields").add_argument
    group("--without", metavar="URL2", help="address of the same server without speculation")
    group("--without-model", metavar="NAME", help="the model's name there (default: --model)")
    group("--without-body", metavar="JSON", help="fields that switch speculation off; without --without, at the first address")
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="your prompts: one to a line, or .jsonl with prompt or messages (default: a set of ours)",
    )
    add("--chat", action="store_true", help="send prompts as messages to the chat endpoint")
    users = "clients at a time, levels in ascending order"
    add("--concurrency", default=DEFAULT_USERS, metavar="N,N,...", help=f"{users} (default: {DEFAULT_USERS})")
    add_declared(add, LoadPlan, "turns", "prompts_per_user", "max_new_tokens")
    group = parser.add_argument_group("what another draft or method would give, at this server's costs").add_argument
    group("--target", metavar="T", help="folder or hub name of the server's model")
    group("--draft", metavar="D", help="folder or hub name of a draft model; copied tokens are forecast beside it")
    add("--temperature", type=float, metavar="T", help="temperature of all requests (default: the server's own)")
    add("--body", default="", metavar="JSON", help="further fields of every request")
    add_declared(add, RequestLimits, "timeout", default=TIMEOUT, shown=f"{TIMEOUT:g}")
    key_help = "environment variable that holds the server's key; the key is never stored or shown"
    add("--api-key-variable", default="", metavar="NAME", help=key_help)
    at_least = "exit code 1 where the server is not so many times as fast at some level"
    add_number(add, "at-least", 100.0, f"{at_least} (default: no threshold)", "X")
    add_format_option(parser, "the report as JSON")
    out_help = "folder of the times, the record and the report; the same command continues there (default: pays-HOST-PORT)"
    add("--out", type=Path, metavar="DIR", help=out_help)
    add_figures_option(parser)
    add_junit_option(parser)
    add(
        "--prometheus",
        type=Path,
        metavar="FILE",
        help="also write the numbers for Prometheus' text-file collector to FILE, such as pays.prom",
    )


def run(options: argparse.Namespace) -> int:
    if options.junit:  # an earlier run's file must not pass for this one's
        write_junit(
            options.junit, "specviz pays", options.url, [JUnitCase("speculation pays", "error", "The measurement did not end.")]
        )
    try:
        return _run(options)
    except SpecvizError as error:
        if options.junit:
            write_junit(options.junit, "specviz pays", options.url, [JUnitCase("the server answers", "error", str(error))])
        raise


def _run(options: argparse.Namespace) -> int:
    from specviz.audit.pays.block_log import BlockLog
    from specviz.audit.pays.load import ON, LoadPlan, run_load
    from specviz.audit.pays.record import SCHEMA
    from specviz.audit.pays.report import build_case, build_report, choose_exit_code, format_prometheus, format_report
    from specviz.audit.profiles.recognition import recognize_server, refuse_unknown_model
    from specviz.speed.measurement.machine import format_today

    plan = LoadPlan(_read_users(options.concurrency), options.turns, options.prompts_per_user, options.max_new_tokens)
    _read_pair_settings(options)  # before the first request
    prompts, described = _read_prompts(options)
    folder = options.out or Path(name_folder("pays", options.url))
    arms = _build_arms(options, plan)
    ended: KeyboardInterrupt | EndpointError | None = None  # what ended the measurement early
    try:
        servers: dict[str, Any] = {}
        for number, arm in enumerate(arms):
            server = recognize_server(arm.endpoint)
            arms[number] = replace(arm, profile=server.profile)
            servers[arm.name] = {"url": arm.endpoint.url, "name": server.name, "about": server.about}
            log_line(f"speculation {arm.name}: {server.name} at {arm.endpoint.url}")
        log = BlockLog(folder, arms, prompts, plan)
        if log.blocks:
            log_line(f"{len(log.blocks)} blocks are there already.")
        try:
            blocks = run_load(arms, prompts, plan, log.blocks, log.append, Progress("load"))
        except EndpointError as error:
            for arm in arms:
                if arm.endpoint.url in str(error) and arm.name not in {block.arm for block in log.blocks}:
                    refuse_unknown_model(arm.endpoint, arm.request.model, error, "model" if arm.name == ON else "without-model")
            if not log.blocks:
                raise
            sentence = f"{error} The report covers what was measured before; the same command goes on from there."
            ended, blocks = EndpointError(sentence, error.status), log.blocks
        except KeyboardInterrupt as stop:
            ended = KeyboardInterrupt(f"what was measured is kept in '{folder}'; the same command goes on from there")
            if not log.blocks:
                raise KeyboardInterrupt("no turn was measured to its end, so there are no numbers") from stop
            blocks = log.blocks
    finally:
        for arm in arms:
            arm.endpoint.close()
    extra = {name: value for arm in arms for name, value in dict(arm.request.extra or {}).items()}
    report = build_report(
        blocks,
        plan,
        servers,
        described,
        extra,
        format_command("pays", add_arguments, options),
        format_today(),
        {arm.name: arm.endpoint.counts.retries for arm in arms},
    )
    if options.target is not None and ended is None:
        _add_what_if(report, options, prompts)
    text = format_report(report)
    write(folder / RECORD, SCHEMA.format_record(report, indent=1) + "\n", over=True)
    write(folder / REPORT, text + "\n", over=True)
    if options.prometheus:
        write(options.prometheus, format_prometheus(report), over=True, name="prometheus")
    if options.figures:
        from specviz.export.server_speed import write_server_speed

        if sentence := write_server_speed(folder / FIGURES, report):
            log_line(sentence)
    print_record(report, options, lambda _: text)
    log_line(f"times, record and report: {folder}")
    if ended is not None:
        raise ended
    code = choose_exit_code(report, options.at_least, NO_VERDICT)
    if options.junit:
        write_junit(options.junit, "specviz pays", options.url, [build_case(report, options.at_least, code)])
    return code


def _add_what_if(report: dict[str, Any], options: argparse.Namespace, prompts: Sequence[Prompt]) -> None:
    """Add what the draft of ``--draft`` and copied tokens would give. A sentence where that cannot be computed."""
    from specviz.audit.pays.what_if import describe_assumption, forecast_methods
    from specviz.models.pairs.chat import apply_template

    settings = _read_pair_settings(options)
    assert settings is not None
    try:
        pair = load_models(settings, rules=False)
        texts = [
            one if isinstance(one, str) else apply_template(pair.tokenizer, [dict(message) for message in one]) for one in prompts
        ]
        report["what_if"] = forecast_methods(pair, settings, texts, report, Progress("what if"))
        report["remarks"].append(describe_assumption(report))
    except SpecvizError as error:
        report["remarks"].append(f"What another draft would give was not computed. {error}")


def _read_pair_settings(options: argparse.Namespace) -> Settings | None:
    """Pair, temperature and length of the forecasts; None without ``--target``. Raises SettingsError for half a pair."""
    if options.target is None and options.draft is None:
        return None
    values = {"max_new_tokens": min(MAX_WHAT_IF_TOKENS, options.max_new_tokens)}
    values |= {} if options.temperature is None else {"temperature": options.temperature}
    given = argparse.Namespace(target=options.target, draft=options.draft, pair=None)
    return Settings(pair=read_pair_name(given), **values)


def _read_users(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise SettingsError("concurrency", text, "whole numbers in ascending order, such as 1,2,4,8") from None


def _read_prompts(options: argparse.Namespace) -> tuple[list[Prompt], str]:
    """The prompts and what they are, in a few words."""
    from specviz.audit.pays.prompts import load_default_prompts, read_prompts

    if options.prompts is None:
        prompts = load_default_prompts(options.chat)
        return prompts, f"the default set of {len(prompts)}"
    prompts = read_prompts(options.prompts, options.chat)
    return prompts, f"{len(prompts)} of '{options.prompts.name}'"


def _build_arms(options: argparse.Namespace, plan: LoadPlan) -> list[Arm]:
    """The arms, the one that speculates first. Raises SettingsError before the first request."""
    from specviz.audit.pays.load import OFF, ON, Arm
    from specviz.audit.pays.streams import StreamRequest
    from specviz.audit.profiles.base import ServerProfile
    from specviz.audit.protocol.endpoint import Endpoint, normalize_url, read_key

    if options.temperature is not None:
        check_number("temperature", options.temperature, 0.0, 2.0, "a number from 0 (greedy) to 2")
    body, url = _read_body(options.body, "body"), normalize_url(options.url)
    places = [(ON, url, options.model, body)]
    if options.without is not None or options.without_body is not None:
        model = options.model if options.without_model is None else options.without_model
        second = (
            normalize_url(options.without or options.url),
            model,
            body | _read_body(options.without_body or "", "without-body"),
        )
        if second == places[0][1:]:
            allowed = "another server, or the same one with other fields (--without-body)"
            sentence = f"The server without a draft, '{second[0]}', is the measured server itself. --without takes {allowed}."
            raise SettingsError("without", options.without, allowed, sentence)
        places.append((OFF, *second))
    elif options.without_model is not None:
        raise SettingsError("without-model", options.without_model, "given with --without or --without-body")
    key, arms = read_key(options.api_key_variable), []
    for name, address, model, extra in places:
        # The key is the first server's; a second one elsewhere must not learn it.
        own = key if urlsplit(address).netloc == urlsplit(url).netloc else ""
        request = StreamRequest(model, plan.max_new_tokens, options.temperature, extra)
        arms.append(Arm(name, Endpoint(address, own, max(plan.users), options.timeout), ServerProfile(), request))
    return arms


def _read_body(text: str, name: str) -> dict[str, Any]:
    found = read_json_object(text, name)
    refuse_request_fields(found, name, TAKEN)
    return found
