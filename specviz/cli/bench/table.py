"""``bench``: the speed table, as text or JSON."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from specviz.cli.common.command_options import (
    add_cluster_option,
    add_count,
    add_drafting_options,
    add_pair_options,
    add_setting,
    check_cluster,
    describe_drafting,
    load_models,
    read_settings,
)
from specviz.cli.common.output import NO_VERDICT, add_format_option, format_estimate, format_machine, print_record
from specviz.cli.common.progress import log_line
from specviz.decoding.method_checks import check_methods
from specviz.models.pairs.names import describe_draftable
from specviz.settings import DRAFTING_FIELDS, FASTEST_GAMMA, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specviz.speed.benchmarks.bench import BenchResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair_options(parser)
    add_drafting_options(parser)
    add_length_options(parser)
    add_runs_option(parser, "interleaved runs after one that warms up; fewer than 6 give no verdict")
    add_cluster_option(parser)
    add_format_option(parser)


def add_measurement_options(parser: argparse.ArgumentParser, runs: str) -> None:
    """Add the options of a measurement of one pair. runs: what is repeated."""
    add_pair_options(parser)
    add_length_options(parser)
    add_runs_option(parser, runs)
    add_format_option(parser)


def add_length_options(parser: argparse.ArgumentParser) -> None:
    """Add the draft length and the tokens after each prompt."""
    add_setting(parser.add_argument, "gamma", default=FASTEST_GAMMA, low=1)
    add_setting(parser.add_argument, "max_new_tokens", default=96, low=8, high=1024, help="tokens per prompt")


def add_runs_option(parser: argparse.ArgumentParser, measured: str) -> None:
    """Add the number of runs."""
    add_count(parser.add_argument, "runs", 1, 100, measured, 6)


def run(options: argparse.Namespace) -> int:
    check_cluster(options)
    settings = read_settings(options)
    check_methods(settings)
    from specviz.jobs.remote import run_remote

    record = run_remote(options.cluster, measure_speed, settings, options.gamma, options.max_new_tokens, options.runs)
    print_record(record, options, _format_results)
    return 0 if record["verdict"] == "steady" else NO_VERDICT


def measure_speed(settings: Settings, gamma: int, length: int, runs: int) -> dict[str, Any]:
    """The record of a bench on the machine where this is called."""
    from specviz.speed.benchmarks.bench import run_bench
    from specviz.speed.measurement.costs import time_rule
    from specviz.speed.measurement.machine import describe_machine

    pair = load_models(settings)
    results = run_bench(pair, gamma, length, runs, log=log_line, base=settings)
    return {
        "machine": describe_machine(pair),
        "pair": pair.describe(),
        "speculative": {name: getattr(settings, name) for name in DRAFTING_FIELDS},
        "results": [asdict(result) for result in results],
        "rule_at_vocabulary_152064": asdict(time_rule(152_064).convert(1e3, "ms")),
        "block_gap": {kind: measure_block_gap(replace(settings, dtype=kind)) for kind in ("float32", "bfloat16")},
        "verdict": explain_no_verdict(results) or "steady",
    }


def explain_no_verdict(results: Sequence[BenchResult]) -> str:
    """A sentence where the runs of a ratio are too few or too far apart for a verdict, else nothing."""
    from specviz.speed.records.estimate import explain_interval

    for result in results:
        for name, ratio in result.ratio.items():
            if why := explain_interval(ratio, f"{name} at temperature {result.temperature:g}"):
                return f"No verdict: {why}"
    return ""


def _format_results(record: dict[str, Any]) -> str:
    from specviz.speed.records.estimate import describe_interval

    lines = [format_machine(record["machine"])]
    if said := describe_drafting(Settings(**record["speculative"])):
        lines.append(f"speculative: {said.strip()}")
    lines += filter(None, (describe_draftable(record["pair"]),))
    lines.append("")
    for result in record["results"]:
        span = describe_interval(result["runs"])
        lines += [
            f"temperature {result['temperature']:g}, gamma {result['gamma']}",
            f"  tokens per second, median ({span})",
            *(f"    {name:<24}{format_estimate(rate, 1)}" for name, rate in result["rates"].items()),
            f"  ratios, run by run, median ({span}); baseline: {result['baseline']}",
            *(f"    {name:<24}{format_estimate(ratio, 2)}" for name, ratio in result["ratio"].items()),
            f"  tokens per pass {result['tokens_per_pass']:.3f}, draft tokens per pass {result['draft_tokens']:.2f}, "
            f"accepted of tested {result['accepted_per_tested']:.3f}",
            *_format_costs(result),
            *([] if (share := result["draftable"]) is None else [f"  of the draft's probability {share:.1%} can be proposed"]),
            f"  a round, mean ms: {', '.join(f'{part} {1e3 * value:.2f}' for part, value in result['timeline'].items())}",
            "",
        ]
    rule = format_estimate(record["rule_at_vocabulary_152064"], 1)
    lines.append(f"the rule at a vocabulary of 152,064: {rule} ms per round of 4 draft tokens")
    for kind, found in record["block_gap"].items():
        lines.append(
            f"distribution of a block's pass against passes of one token, {kind}: median TV {found['median']:.1e}, "
            f"largest {found['largest']:.1e}, {found['positions']} positions"
        )
    if record["verdict"] != "steady":
        lines += ["", record["verdict"]]
    return "\n".join(lines)


def _format_costs(result: dict[str, Any]) -> list[str]:
    ms = {name: 1e3 * cost["value"] for name, cost in result["costs"].items()}
    allowed = f"  speed-up that these costs allow {result['allowed']:.2f}, reached {100 * result['share']:.0f}% of it"
    if result["leviathan"] is None:
        head = f"  ms: T(1) {ms['one']:.2f}; in each round drafting {ms['draft']:.2f}, target {ms['block']:.2f}, rule {ms['rule']:.2f}"
        return [head, allowed]
    return [
        f"  ms: T(1) {ms['one']:.2f}, T(gamma+1) {ms['block']:.2f}, draft step {ms['draft']:.2f}, rule {ms['rule']:.2f}",
        f"{allowed}; Leviathan's formula (a block costs one pass) {result['leviathan']:.2f}",
    ]


def measure_block_gap(settings: Settings) -> dict[str, float]:
    """How far the distribution of a block's pass is from that of passes of one token, over a text that the pair writes itself."""
    from specviz.decoding.run import record_run as decode_run
    from specviz.speed.measurement.costs import measure_block_gap
    from specviz.speed.measurement.timed_decoding import PROMPTS

    pair, found = load_models(settings), []
    for prompt in PROMPTS.values():
        asked = Settings(prompt=prompt, max_new_tokens=64)
        trace = decode_run(pair, asked, bars=0)
        found += measure_block_gap(pair, asked, trace.prompt_ids + trace.output_ids)
    return {"median": statistics.median(found), "largest": max(found), "positions": len(found)}
