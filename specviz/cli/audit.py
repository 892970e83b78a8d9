"""``audit``: is a server that runs right now exact? Its samples are collected, its traps told, and its distribution is tested."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specviz.cli.common.options import (
    add_sampling_options,
    add_seed_option,
    add_setting,
    load_models,
    read_pair_name,
    read_settings,
)
from specviz.cli.common.output import NO_VERDICT, add_format_option, print_record
from specviz.cli.common.parser import NO_LIMIT, Number, WholeNumber
from specviz.cli.common.progress import Progress, log_line
from specviz.cli.common.report import add_min_tv
from specviz.errors import EndpointError, EvidenceError, SettingsError
from specviz.settings import DEFAULTS, LENGTH_MAX, SETTINGS, Settings

if TYPE_CHECKING:
    from specviz.audit.target import AuditTarget
    from specviz.models.pairs.loading import LoadedPair

CODES = {"consistent": 0, "rejected": 1, "too few samples": NO_VERDICT}
SAMPLES, TV = 20_000, 0.02  # defaults of --samples and --min-tv
KEPT = "what was collected is kept in '{}'; the same command goes on from there"
LENGTHS = (1, 4)  # tokens of a sample that are tested
EXAMPLES = (
    'specviz audit http://localhost:8000/v1 --model NAME --prompt "Once upon a time" --target DIR --draft DIR   # local weights',
    'specviz audit http://localhost:8000/v1 --prompt "Once upon a time" --against http://localhost:8001/v1   # on against off',
    'specviz audit http://localhost:8000/v1 --chat --prompt "Hi" --target DIR --samples 2000 --min-tv 0.05',
)
NOTES = (
    "Exit codes: 0 consistent; 1 rejected; 2 bad arguments or input, a server that fails, or a trap that makes samples worthless; "
    "3 too few samples to detect --min-tv."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("url", metavar="URL", help="address of an OpenAI-compatible server, such as http://HOST:PORT/v1")
    add("--model", default="", metavar="NAME", help="the model's name on the server (default: not named)")
    add_setting(add, "prompt", help="text to continue; with --chat the message of the user", shown="empty")
    add(
        "--chat",
        action="store_true",
        help="ask the chat endpoint; with --target the tokenizer's chat template is what the model reads",
    )
    add_setting(add, "max_new_tokens", default=LENGTHS[1], high=LENGTHS[1], help="tokens of a sample that are tested")
    add(
        "--max-tokens",
        type=WholeNumber("max-tokens", 1, LENGTH_MAX),
        metavar="N",
        help="tokens that are asked for, where a server drafts only in longer requests (default: --max-new-tokens)",
    )
    add(
        "--samples",
        type=WholeNumber("samples", 1, NO_LIMIT),
        default=SAMPLES,
        metavar="N",
        help=f"samples of each server (default: {SAMPLES:,})",
    )
    add_min_tv(add, TV)
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
    add(
        "--concurrency",
        type=WholeNumber("concurrency", 1, 256),
        default=8,
        metavar="N",
        help="requests at a time, 1 to 256 (default: 8)",
    )
    add(
        "--choices",
        type=WholeNumber("choices", 1, 128),
        default=1,
        metavar="N",
        help="samples of a request, 1 to 128, where the server gives several (default: 1)",
    )
    add("--rate", type=Number("rate"), metavar="R", help="most requests per second (default: as many as the server answers)")
    add(
        "--timeout",
        type=Number("timeout", 3600.0, " seconds"),
        default=120.0,
        metavar="S",
        help="seconds for an answer (default: 120)",
    )
    add(
        "--api-key-variable",
        default="",
        metavar="NAME",
        help="environment variable that holds the server's key; the key is never stored or shown",
    )
    add("--ignore-checks", action="store_true", help="collect even where a trap says that the samples will show nothing")
    add_seed_option(parser)
    add_format_option(parser, "the report as JSON")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the samples, who answered, and the certificate; the same command continues there (default: audit-HOST-PORT)",
    )


def run(options: argparse.Namespace) -> int:
    from specviz.audit import verdict
    from specviz.audit.target import add_server_records
    from specviz.evidence.sample_files import read_samples
    from specviz.export.folder import check_writable
    from specviz.export.report import write_certificate

    settings = read_audit_settings(options)
    folder = options.out or Path(name_folder(options.url))
    check_writable(folder / "certificate" if folder.is_dir() else folder)
    pair = load_models(settings) if has_local_reference(options) else None
    arms = build_targets(options, settings, pair)
    try:
        records = collect_samples(arms, options, folder, pair)
    finally:
        for arm in arms:
            arm.endpoint.close()
    files = [read_samples(folder / arm.file) for arm in arms]
    report = verdict.build_verdict(
        files[0],
        settings=settings,
        pair=pair,
        against=files[1] if len(files) > 1 else None,
        tv=options.min_tv,
        seed=settings.seed,
        drafted=[record.drafted for record in records],
        command=build_command(options),
        on_progress=Progress("testing"),
        request=arms[0].request,
        against_request=arms[1].request if len(arms) > 1 else None,
    )
    report = add_server_records(report, records)
    if sentence := write_certificate(folder / "certificate", report):
        log_line(sentence)
    print_record(report, options, verdict.format_verdict)
    log_line(f"samples, who answered, and the certificate: {folder}")
    return CODES[report["verdict"]]


def read_audit_settings(options: argparse.Namespace) -> Settings:
    """Settings of the options, which everything is tested under. Numbers out of range raise SettingsError before anything is asked."""
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
    return any(getattr(options, name) is not None for name in ("pair", "target", "draft"))


def read_reference_pair(options: argparse.Namespace) -> str:
    """The name of the pair; a target alone is its own draft."""
    if options.target is not None and options.draft is None and options.pair is None:
        return f"{options.target}|{options.target}"
    return read_pair_name(options)


def build_targets(options: argparse.Namespace, settings: Settings, pair: LoadedPair | None) -> list[AuditTarget]:
    """Whom to ask for what: one server, or two. Whatever is wrong with an option is said here, before anything is asked."""
    from specviz.audit.collect import CollectionSize
    from specviz.audit.endpoint import Endpoint, normalize_url, read_key
    from specviz.audit.sampling_request import SamplingRequest
    from specviz.audit.target import AuditTarget

    written = ""
    if options.chat and pair is not None:
        from specviz.models.pairs.chat import apply_template

        written = apply_template(pair.tokenizer, [{"role": "user", "content": options.prompt}])
    asked = {
        "model": options.model,
        "chat": options.chat,
        "written": written,
        "max_tokens": options.max_tokens or options.max_new_tokens,
    }
    asked |= {name: getattr(options, name) for name in ("prompt", "temperature", "top_k", "top_p", "min_p")}
    bodies = [read_json_object(options.body, "body")]
    urls, names = [normalize_url(options.url)], ["samples"]
    if pair is None:
        bodies.append(bodies[0] | read_json_object(options.against_body or "", "against-body"))
        urls, names = [*urls, normalize_url(options.against or options.url)], [*names, "against"]
        if urls[0] == urls[1] and bodies[0] == bodies[1] and options.against_model in (None, options.model):
            raise SettingsError("against", options.against, "another server, or the same one with other fields (--against-body)")
    key, arms = read_key(options.api_key_variable), []
    for number, (url, body, name) in enumerate(zip(urls, bodies, names, strict=True)):
        model = options.against_model if number and options.against_model is not None else options.model
        sampling = SamplingRequest(**asked | {"model": model, "extra": body})
        how = CollectionSize(options.samples, options.concurrency, options.choices, settings.seed, number)
        # The key is the first server's; a second one elsewhere must not learn it.
        mine = urlsplit(url).netloc == urlsplit(urls[0]).netloc
        own, variable = (key, options.api_key_variable) if mine else ("", "")
        arms.append(
            AuditTarget(
                Endpoint(url, own, options.concurrency, options.timeout, options.rate), sampling, how, f"{name}.jsonl", variable
            )
        )
    return arms


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


def collect_samples(arms: list[AuditTarget], options: argparse.Namespace, folder: Path, pair: LoadedPair | None) -> list[Any]:
    """Probe every server, say what is to be expected, and fill the sample files. Returns the records beside them."""
    from specviz.audit.collect import collect_samples
    from specviz.audit.planning import describe_needed_samples
    from specviz.audit.target import prepare_target

    log_line(describe_needed_samples(options.min_tv, options.max_new_tokens, pair is None))
    for arm in arms:
        arm.preparation = prepare_target(
            arm, folder, options.min_tv, len(arms), pair, Progress(urlsplit(arm.endpoint.url).netloc)
        )
        log_line(arm.preparation.summary)
        if pair is not None and not arm.preparation.ids and arm.sampling.max_tokens != options.max_new_tokens:
            allowed = f"{options.max_new_tokens}, the --max-new-tokens: this server gives text without token ids, and texts are compared whole"
            raise SettingsError("max-tokens", options.max_tokens, allowed)
    if len({arm.preparation.ids for arm in arms if arm.preparation}) > 1:
        first, second = ("token ids" if arm.preparation and arm.preparation.ids else "text" for arm in arms)
        raise EvidenceError(
            f"The first server gives {first}, the second {second}: ask both in a form that both have, with --body or --against-body."
        )
    if (stopping := [check.sentence for arm in arms for check in arm.preparation.blocking]) and not options.ignore_checks:
        raise EvidenceError(f"{' '.join(stopping)} Samples would show nothing; --ignore-checks collects them all the same.")
    try:
        return collect_samples([arm.job(folder) for arm in arms], Progress("samples"))
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(KEPT.format(folder)) from stop
    except EndpointError as error:
        raise EndpointError(f"{error} {KEPT.format(folder).replace('what', 'What', 1)}.", error.status) from error


def name_folder(url: str) -> str:
    """A name for the samples of a server."""
    return "audit-" + re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(url).netloc).strip("-")


def build_command(options: argparse.Namespace) -> list[str]:
    """The words that repeat this audit."""
    plain: Mapping[str, Any] = vars(_read_defaults())
    words = ["specviz", "audit", options.url]
    for name, value in vars(options).items():
        if name not in plain or name in ("url", "out", "format") or value == plain[name]:
            continue
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _read_defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["URL"])
