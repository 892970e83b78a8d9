"""What the page Exactness test says: the verdict with what could have been detected, its tests, the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.evidence.testing.results import NO_DRAFT, NOTHING_TESTED, SEEDS, ExactnessResult, SeedPValues, describe_unreached
from specviz.export.manifest import build_drafting_options, build_sampling_options
from specviz.models.pairs.names import format_options
from specviz.records import load_toml
from specviz.settings import CUT_FIELDS, SAMPLING_FIELDS, Settings
from specviz.statistics.finding import format_p_for_table, tested_nothing
from specviz.web.common.side_by_side.words import (
    PageVerdict,
    announce_next_test,
    build_early_verdict,
    build_verify_command,
    count_samples,
    describe_agreement,
    describe_excess,
    describe_rejection,
    explain_distance,
    format_percent,
)
from specviz.web.exactness.state import AT_ONCE, SERVER_SAMPLES, SOURCES, ExactnessQuestion, ExactnessState

if TYPE_CHECKING:
    from specviz.evidence.testing.results import InterimTest

EACH = 0.1  # seconds of an answer, for an example
FOUND = {"consistent": "no difference", "rejected": "a difference"}  # by a test
TEXTS = load_toml("texts/exactness")


def build_verdict(state: ExactnessState) -> PageVerdict:
    """The answer so far. One rejection at any test stays."""
    if early := build_early_verdict(state, "Draw samples: a dot shows how far each text’s share is from the target’s."):
        return early
    looks = [look for (look,) in state.shown_result.looks]
    found = next((one for one in looks if one.verdict == "rejected"), looks[-1])
    samples, who = count_samples(found.n), SOURCES[state.question.source]
    if found.verdict == "rejected":
        excess = describe_excess(state.shown_result.arms[0])
        details = f"{excess[0].upper()}{excess[1:]}. {describe_rejection(found)}" if excess else describe_rejection(found)
        return PageVerdict("rejected", f"Not exact: {samples} do not follow the target’s distribution.", details)
    if found.verdict == NOTHING_TESTED:
        return PageVerdict("untold", "Nothing was tested.", f"{who}: {samples}, and {NO_DRAFT}")
    verdict = describe_agreement(found)
    unreached = describe_unreached(found.exercised, state.question.source == "target")
    more = unreached if verdict.mark == "consistent" else [announce_next_test(state)]
    return replace(verdict, details=" ".join(filter(None, (verdict.details, *more))))


def describe_models(name: str, models: Mapping[str, Any]) -> str:
    """The pair, and how large its models are where that is known. name: of the pair."""
    sizes = [
        f"{role} {models[role]['parameters'] / 1e6:,.0f} million"
        for role in ("target", "draft")
        if models.get(role, {}).get("parameters", 0) >= 1e6
    ]
    return f"Models: {name}" + (f" ({', '.join(sizes)} parameters)" if sizes else "")


def describe_more(state: ExactnessState, count: int) -> str:
    """What ``count`` more samples would add to the picture and to the test; nothing before the first samples."""
    if not (n := state.shown_result.n):
        return ""
    narrower = TEXTS["more"].format(count=f"{count:,}", share=format_percent(1.0 - (n / (n + count)) ** 0.5))
    return f"{narrower} {announce_next_test(state)}"


def describe_limits(state: ExactnessState) -> str:
    """What the verdict leaves open: its distance, differences inside a cell, how samples were drawn, and the test that comes next."""
    if not (looks := state.shown_result.looks):
        return ""
    last = looks[-1][0]
    return " ".join(
        filter(
            None,
            (
                explain_distance(last),
                _describe_pooling(last),
                describe_sampling_mode(state.shown_result, state.question),
                announce_next_test(state),
            ),
        )
    )


def _describe_pooling(test: InterimTest) -> str:
    if test.pooled < 5e-4:
        return ""
    share = "All cells hold" if test.pooled > 0.9995 else f"{test.pooled:.0%} of the probability lies in cells that hold"
    return f"{share} several texts each; differences inside a cell are not seen here."


def build_tests_table(result: ExactnessResult, plan: list[dict[str, float]]) -> list[dict[str, object]]:
    """The plan as rows, with what each test found."""
    looks = [look for (look,) in result.looks] + [None] * (len(plan) - len(result.looks))
    return [
        {"samples": f"{one['n']:,}", "level of each test": format_p_for_table(one["level"]), "cells": str(found.cells) if found else f"at most {one['cells']:.0f}",
         "detects a distance of": f"{found.detectable_tv:.2g}" if found else f"about {one['sees']:.2g}",
         "chi-square p": format_p_for_table(found.tests[0].p_value) if found else "",
         "G p": format_p_for_table(found.tests[1].p_value) if found else "", "found": FOUND.get(found.verdict, found.verdict) if found else "not reached"}
        for found, one in zip(looks, plan, strict=True)
    ]  # fmt: skip


def describe_undrawn(result: ExactnessResult) -> str:
    """What the bars leave out; empty where they leave out nothing."""
    left_out = result.arms[0].undrawn_mass if result.arms else 0.0
    return f"Not drawn: all other texts together, {left_out:.0%}." if left_out else ""


def describe_sampling_mode(result: ExactnessResult, question: ExactnessQuestion) -> str:
    """Which samples ran through the cached decoder itself."""
    if not result.n or question.source == "assisted":
        return ""
    if result.engine == result.n:
        return "All samples ran through the decoder and its caches, round by round."
    engine = f" {result.engine:,} of them also ran through the decoder and its caches." if result.engine else ""
    return f"To save time, each distribution is computed once and used for every sample that needs it. This changes no sample.{engine}"


def build_seed_verdict(p_values: SeedPValues) -> PageVerdict:
    """What the p-values of many runs say, once all are there."""
    runs = len(p_values.values)
    if runs < SEEDS:
        return PageVerdict("waiting", f"{runs} of {SEEDS} runs so far.", "The answer comes when all are there.")
    if p_values.is_uniform:
        return PageVerdict("consistent", "As even as chance allows.", "No dot is outside the blue.")
    return PageVerdict(
        "rejected",
        "Not spread evenly.",
        "Some dots are outside the blue, which happens to an exact decoder in 1 of 100 tests.",
    )


def describe_server_test(settings: Settings) -> str:
    """What asking a server takes, before it is asked."""
    tokens = "1 token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    seconds = SERVER_SAMPLES / AT_ONCE * EACH
    return (
        f"The page asks the server {SERVER_SAMPLES:,} times to continue the text, by {tokens} each, {AT_ONCE} requests at a time: about {seconds:.0f} s "
        f"if an answer takes {EACH:g} s. It tests the answers against the exact distribution of the target in force, under the settings of "
        "this page. Before that, a few requests look for what would spoil the samples, such as a cache of answers."
    )


def list_audit_words(settings: Settings, url: str, model: str = "", samples: str = "") -> list[Any]:
    """The command that tests a server without the page, word by word."""
    words: list[Any] = ["specviz", "audit", url, *(["--model", model] if model else []), "--prompt", settings.prompt]
    words += ["--max-new-tokens", settings.max_new_tokens, *(["--samples", samples] if samples else []), "--seed", settings.seed]
    words += format_options(settings.pair)
    return words + build_sampling_options({name: getattr(settings, name) for name in ("temperature", *CUT_FIELDS)})


def build_command(state: ExactnessState) -> str:
    """The command that tests the same decoder without the page, and inside the cells too."""
    settings, source, plain = state.question.settings, state.question.source, Settings()
    options: list[Any] = ["--max-new-tokens", settings.max_new_tokens, "--samples", max(state.shown_result.n, 10_000)]
    for name in ("gamma", *SAMPLING_FIELDS):
        if getattr(settings, name) != getattr(plain, name):
            options += [f"--{name.replace('_', '-')}", getattr(settings, name)]
    return build_verify_command(
        settings, source, *options, *(build_drafting_options(settings.to_record()) if source == "speculative" else [])
    )


def describe_files(report: Mapping[str, Any]) -> str:
    """Which files, how many samples, after which words."""
    files = " and ".join(f"'{one['name']}' ({one['draws']:,} samples)" for one in report["files"])
    prompt = report["settings"]["prompt"]
    return f"{files}, after “{prompt if len(prompt) <= 80 else '…' + prompt[-79:]}”."


def build_report_verdict(report: Mapping[str, Any]) -> PageVerdict:
    """The answer of a report on samples. Its marks are those of a verdict on samples."""
    mark = report["verdict"] if report["verdict"] in FOUND else "untold"
    return PageVerdict(mark, report["sentence"], TEXTS["alarms"])


def build_report_tests_table(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every test of a report as a row."""
    return [
        {"test": test["name"], "p-value": "tested nothing" if tested_nothing(test) else format_p_for_table(test['p_value']),
         "corrected": "" if tested_nothing(test) else format_p_for_table(test['adjusted_p']),
         "detects a distance of": "" if test["detectable_tv"] is None else f"{test['detectable_tv']:.2g}"}
        for test in report["tests"]
    ]  # fmt: skip


def list_audit_sentences(report: Mapping[str, Any]) -> list[str]:
    """What an audit of a server says besides its verdict; nothing for a report on files."""
    if not (audit := report.get("audit")):
        return []
    from specviz.audit.findings.verdict import list_server_remarks

    servers = list_server_remarks(audit)
    said = [
        (audit.get(part) or {}).get("sentence")
        for part in ("speculation", "precision", "diagnosis", "reproduction", "confirmation")
    ]
    return [line for line in (said[0], audit.get("window"), *servers, said[1], audit.get("where"), *said[2:]) if line]


def build_audit_tables(report: Mapping[str, Any]) -> list[tuple[str, list[dict[str, str]]]]:
    """Where a server's samples part, and the known mistakes that were compared; nothing where none were."""
    from specviz.audit.findings.diagnosis import format_power_of_ten

    found = (report.get("audit") or {}).get("diagnosis") or {}
    parting, matches = found.get("parting"), found.get("matches")
    shifts = [*parting["gains"], *parting["loses"]] if parting else []
    tokens = [{"token": one["text"], "seen": f"{one['seen']:.4f}", "exact": f"{one['exact']:.4f}"} for one in shifts]
    mistakes = [
        {
            "mistake": one["mistake"],
            "likelihood ratio": format_power_of_ten(one["log10_ratio"]),
            "explains": f"{one['explained']:.0%}",
            "as": one["words"],
        }
        for one in matches or ()
    ]
    named = (("Tokens that come too often or too rarely", tokens), ("Known mistakes, the likeliest first", mistakes))
    return [(name, rows) for name, rows in named if rows]
