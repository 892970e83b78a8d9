"""``bench``: the speed table, and other measurements of speed, as text or JSON."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from specviz.cli.common.options import (
    add_cluster_option,
    add_drafting_options,
    add_pair_options,
    check_cluster,
    check_methods,
    describe_drafting,
    load_models,
    proposer_fields,
    read_settings,
    refuse_drafting_options,
)
from specviz.cli.common.output import NO_VERDICT, add_format_option, format_machine, print_record
from specviz.cli.common.progress import log_line
from specviz.errors import SettingsError
from specviz.models.pairs.names import describe_draftable
from specviz.settings import DRAFTING_FIELDS, FASTEST_GAMMA, Settings, check_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specviz.speed.bench import BenchResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair_options(parser)
    add_drafting_options(parser)
    add = parser.add_argument
    add("--gamma", type=int, default=FASTEST_GAMMA, help=f"draft tokens per round, 1 to 16 (default: {FASTEST_GAMMA})")
    add("--max-new-tokens", type=int, default=96, metavar="N", help="tokens per prompt (default: 96)")
    add("--runs", type=int, default=6, help="interleaved runs after one that warms up; fewer than 6 give no verdict (default: 6)")
    add(
        "--shapes",
        metavar="LxW,...",
        help="instead: milliseconds per pass of shapes at random weights, such as 12x256,8x384,1x256 (cost only, no text)",
    )
    add(
        "--samples",
        type=int,
        metavar="N",
        help="instead: how many samples a second: N of 3 tokens on shared distributions, beside batches and one after the other",
    )
    add("--policies", action="store_true", help="instead: each policy that sets the draft length against the best fixed length")
    add("--curve", action="store_true", help="instead: what passes over more tokens, trees and rows cost, and what follows")
    add_cluster_option(parser)
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    check_whole("gamma", options.gamma, 1, 16, "a whole number from 1 to 16 for a bench of speculation")
    check_whole("runs", options.runs, 1, 100)
    check_whole("max-new-tokens", options.max_new_tokens, 8, 1024, "a whole number from 8 to 1024 for a bench")
    others = {"shapes": print_shapes, "samples": print_sampling_rates, "policies": print_policies, "curve": print_curves}
    other = next((name for name in others if getattr(options, name) is not None and getattr(options, name) is not False), None)
    if other:
        refuse_drafting_options(options, f"--{other}")
        if options.cluster is not None:
            raise SettingsError("cluster", options.cluster, f"left out with --{other}, which measures this machine")
    check_cluster(options)
    settings = read_settings(options, **proposer_fields(options))
    if other:
        others[other](settings, options)
        return 0
    check_methods(settings)
    from specviz.jobs.remote import run_remote

    record = run_remote(options.cluster, measure_speed, settings, options.gamma, options.max_new_tokens, options.runs)
    print_record(record, options, format_results)
    return 0 if record["verdict"] == "steady" else NO_VERDICT


def measure_speed(settings: Settings, gamma: int, length: int, runs: int) -> dict[str, Any]:
    """The record of a bench on the machine where this is called."""
    from specviz.speed.bench import run_bench
    from specviz.speed.costs import time_rule
    from specviz.speed.machine import describe_machine

    pair = load_models(settings)
    results = run_bench(pair, gamma, length, runs, log=log_line, base=settings)
    return {
        "machine": describe_machine(pair),
        "pair": pair.describe(),
        "speculative": {name: getattr(settings, name) for name in DRAFTING_FIELDS},
        "results": [asdict(result) for result in results],
        "rule_at_vocabulary_152064": asdict(time_rule(152_064).times(1e3, "ms")),
        "block_gap": {kind: measure_block_gap(replace(settings, dtype=kind)) for kind in ("float32", "bfloat16")},
        "verdict": explain_no_verdict(results) or "steady",
    }


def explain_no_verdict(results: Sequence[BenchResult]) -> str:
    """A sentence where the runs of a ratio are too few or too far apart for a verdict, else nothing."""
    from specviz.speed.clock import explain_interval

    for result in results:
        for name, ratio in result.ratio.items():
            if why := explain_interval(ratio, f"{name} at temperature {result.temperature:g}"):
                return f"No verdict: {why}"
    return ""


def format_results(record: dict[str, Any]) -> str:
    from specviz.speed.estimate import describe_interval

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
            *(f"    {name:<24}{_said(rate, 1)}" for name, rate in result["rates"].items()),
            f"  ratios, run by run, median ({span}); baseline: {result['baseline']}",
            *(f"    {name:<24}{_said(ratio, 2)}" for name, ratio in result["ratio"].items()),
            f"  tokens per pass {result['tokens_per_pass']:.3f}, draft tokens per pass {result['draft_tokens']:.2f}, "
            f"accepted of tested {result['accepted_per_tested']:.3f}",
            *_costs(result),
            *_draftable(result),
            f"  a round, mean ms: {', '.join(f'{part} {1e3 * value:.2f}' for part, value in result['timeline'].items())}",
            "",
        ]
    rule = _said(record["rule_at_vocabulary_152064"], 1)
    lines.append(f"the rule at a vocabulary of 152,064: {rule} ms per round of 4 draft tokens")
    for kind, found in record["block_gap"].items():
        lines.append(
            f"distribution of a block's pass against passes of one token, {kind}: median TV {found['median']:.1e}, "
            f"largest {found['largest']:.1e}, {found['positions']} positions"
        )
    if record["verdict"] != "steady":
        lines += ["", record["verdict"]]
    return "\n".join(lines)


def _draftable(result: dict[str, Any]) -> list[str]:
    share = result["draftable"]
    return [] if share is None else [f"  of the draft's probability {share:.1%} can be proposed"]


def _costs(result: dict[str, Any]) -> list[str]:
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
    from specviz.speed.costs import measure_block_gap
    from specviz.speed.generation import PROMPTS

    pair, found = load_models(settings), []
    for prompt in PROMPTS.values():
        asked = Settings(prompt=prompt, max_new_tokens=64)
        trace = decode_run(pair, asked, bars=0)
        found += measure_block_gap(pair, asked, trace.prompt_ids + trace.output_ids)
    return {"median": statistics.median(found), "largest": max(found), "positions": len(found)}


def print_policies(settings: Settings, options: argparse.Namespace) -> None:
    """Print what each policy that sets the draft length gains over the best fixed length."""
    from specviz.speed.draft_length_policies import compare_policies
    from specviz.speed.machine import describe_machine

    pair = load_models(settings)
    found = [asdict(one) for one in compare_policies(pair, options.max_new_tokens, options.runs, log=log_line)]
    print_record({"machine": describe_machine(pair), "pair": pair.describe(), "results": found}, options, format_policies)


def format_policies(record: dict[str, Any]) -> str:
    from specviz.speed.estimate import describe_interval

    lines = [format_machine(record["machine"])]
    for one in record["results"]:
        span = describe_interval(next(iter(one["paired"].values()))["gain"]["n"])
        rates = ", ".join(f"{gamma}: {rate['value']:.0f}" for gamma, rate in one["fixed"].items())
        lines += [
            "",
            f"temperature {one['temperature']:g}: best fixed length {one['best']} (tokens per second in runs of its own: {rates})",
            f"  {'':<20}{f'times as fast ({span})':<52}{'tokens/s':>9}{'per pass':>10}{'drafted':>9}{'accepted':>10}",
        ]
        for name, row in one["paired"].items():
            numbers = (
                f"{row['rate']['value']:>9.1f}{row['tokens_per_pass']:>10.3f}{row['draft_tokens']:>9.2f}{row['accepted']:>10.3f}"
            )
            lines.append(f"  {name:<20}{_said(row['gain'], 3):<52}{numbers}")
    return "\n".join(
        [
            *lines,
            "",
            "The second run of the best fixed length shows what noise alone does to a ratio. The ceiling asks the target when to stop,",
            "and the time of asking is taken out: so it shows what perfect knowledge could gain.",
        ]
    )


def print_curves(settings: Settings, options: argparse.Namespace) -> None:
    """Print what passes over more tokens, over trees and over more rows cost."""
    from specviz.speed.costs import measure_pass_curves
    from specviz.speed.machine import describe_machine

    pair = load_models(settings)
    found = measure_pass_curves(pair, options.gamma, options.max_new_tokens, 3 * options.runs, log_line)
    record = {
        "machine": describe_machine(pair),
        "pair": pair.describe(),
        **asdict(found),
        "allowed": {rows: batch.factor(found.tokens_per_pass, found.gamma) for rows, batch in found.rows.items()},
        "best_nodes": {name: found.best(name).nodes for name in found.budgets},
    }
    print_record(record, options, format_curves)


def format_curves(record: dict[str, Any]) -> str:
    from specviz.speed.estimate import Estimate, describe_interval

    single = Estimate(**record["chain"][1])
    one = single.value
    lines = [
        format_machine(record["machine"]),
        "",
        f"one pass of the target over one token, T(1): {single.times(1e3, 'ms').said()} ms, {describe_interval(single.n)}; other passes in T(1)",
        "",
    ]
    for title, kind in (("tokens in a chain", "chain"), ("nodes of a tree, and the token before it", "tree")):
        costs = (f"{found['value'] / one:.2f}" for found in record[kind].values())
        lines += [f"  {title}", "  " + _cells(record[kind]), "  " + _cells(costs), ""]
    for name, budgets in record["budgets"].items():
        lines += [
            f"{name}: fastest with {record['best_nodes'][name]} nodes",
            f"  {'nodes':<18}" + _cells(b["nodes"] for b in budgets),
            f"  {'tokens per pass':<18}" + _cells(f"{b['tokens_per_pass']:.2f}" for b in budgets),
            f"  {'drafting, T(1)':<18}" + _cells(f"{b['drafting']['value'] / one:.2f}" for b in budgets),
            f"  {'times as fast':<18}" + _cells(f"{b['speed']:.2f}" for b in budgets),
            "",
        ]
    gamma, rows = record["gamma"], record["rows"]
    batches = rows.values()
    lost = [count for count, factor in record["allowed"].items() if factor < 1.0]
    lines += [
        f"rows at a time, {gamma} draft tokens each, {record['tokens_per_pass']:.2f} tokens per pass at temperature 1",
        f"  {'rows':<30}" + _cells(rows),
        f"  {'one token each, ms':<30}" + _cells(f"{1e3 * b['one']['value']:.1f}" for b in batches),
        f"  {f'{gamma + 1} tokens each, times that':<30}"
        + _cells(f"{b['block']['value'] / b['one']['value']:.2f}" for b in batches),
        f"  {'a draft step, times that':<30}" + _cells(f"{b['draft']['value'] / b['one']['value']:.2f}" for b in batches),
        f"  {'speed-up these costs allow':<30}" + _cells(f"{factor:.2f}" for factor in record["allowed"].values()),
        f"  speculation stops paying: {f'from {lost[0]} rows on' if lost else f'nowhere up to {max(rows)} rows'}",
    ]
    return "\n".join(lines)


def _cells(values: Iterable[Any]) -> str:
    return "".join(f"{value:>7}" for value in values)


def print_sampling_rates(settings: Settings, options: argparse.Namespace) -> None:
    """Print how many samples a second each way of sampling gives."""
    check_whole("samples", options.samples, 1, 20_000_000, "a whole number from 1 to 20,000,000")
    from specviz.speed import sampling_rates
    from specviz.speed.machine import describe_machine

    pair = load_models(settings)
    found = sampling_rates.measure_sampling_rates(pair, options.samples, log=log_line)
    record = {
        "machine": describe_machine(pair),
        "peak_mb": sampling_rates.read_peak_megabytes(),
        "results": [asdict(one) for one in found],
    }
    print_record(record, options, lambda record: f"{format_machine(record['machine'])}\n{sampling_rates.format_rates(found)}")


def print_shapes(settings: Settings, options: argparse.Namespace) -> None:
    """Print the cost table of shapes written LAYERSxWIDTH, separated by commas."""
    try:
        wanted = [tuple(int(number) for number in part.split("x")) for part in options.shapes.split(",")]
        fits = all(len(shape) == 2 and 1 <= shape[0] <= 64 and shape[1] % 64 == 0 and 64 <= shape[1] <= 2048 for shape in wanted)
    except ValueError:
        fits = False
    if not fits:
        allowed = "LAYERSxWIDTH separated by commas, 1 to 64 layers, width a multiple of 64 up to 2048"
        raise SettingsError("shapes", options.shapes, allowed)
    from specviz.speed.costs import time_shapes

    blocks = tuple(dict.fromkeys((1, 2, 3, options.gamma + 1, 9)))
    print("layers x width  " + "".join(f"{f'T({n})':>8}" for n in blocks) + "   ms, medians, random weights")
    for (layers, width), by in time_shapes(wanted, blocks).items():
        print(f"{f'{layers} x {width}':<16}" + "".join(f"{1e3 * seconds.value:8.2f}" for seconds in by.values()))


def _said(estimate: dict[str, Any], digits: int) -> str:
    return f"{estimate['value']:.{digits}f}  ({estimate['low']:.{digits}f} to {estimate['high']:.{digits}f})"
