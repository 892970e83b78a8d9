"""``bench``: the speed table, as text or JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specviz.commands.curve import curve
from specviz.commands.options import (
    in_words,
    pair_name,
    pair_options,
    proposer_fields,
    proposer_options,
    refuse_proposer,
    refuse_unknown,
)
from specviz.errors import SettingsError
from specviz.settings import PROPOSER_FIELDS, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specviz.measure.bench import BenchResult
    from specviz.models.pairs.loading import Pair

NO_VERDICT = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    proposer_options(parser)
    parser.add_argument("--gamma", type=int, default=2, help="tokens drafted per round, 1 to 16 (default: 2)")
    parser.add_argument("--max-new-tokens", type=int, default=96, metavar="N", help="tokens per prompt (default: 96)")
    parser.add_argument(
        "--runs", type=int, default=6, help="interleaved runs after one that warms up; fewer than 6 give no verdict (default: 6)"
    )
    parser.add_argument(
        "--shapes",
        metavar="LxW,...",
        help="instead: milliseconds per pass of shapes at random weights, such as 12x256,8x384,1x256 (cost only, no text)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="instead: N draws of 3 tokens on shared distributions, beside draws in batches and one after the other",
    )
    parser.add_argument(
        "--policies", action="store_true", help="instead: each policy of how far to draft against the best fixed length"
    )
    parser.add_argument(
        "--curve", action="store_true", help="instead: what passes over more tokens, trees and rows cost, and what follows"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.gamma <= 16:
        raise SettingsError("gamma", options.gamma, "a whole number from 1 to 16 for a bench of speculation")
    if not 1 <= options.runs <= 100:
        raise SettingsError("runs", options.runs, "a whole number from 1 to 100")
    if not 8 <= options.max_new_tokens <= 1024:
        raise SettingsError("max-new-tokens", options.max_new_tokens, "a whole number from 8 to 1024 for a bench")
    if other := next(
        (name for name in ("shapes", "samples", "policies", "curve") if getattr(options, name) not in (None, False)), None
    ):
        refuse_proposer(options, f"--{other}")
    if options.shapes:
        return shapes(options.shapes, options.gamma)
    name = pair_name(options)
    if options.samples is not None:
        return draws(name, options)
    if options.policies:
        return policies(name, options)
    if options.curve:
        return curve(name, options)
    settings = Settings(**proposer_fields(options))
    refuse_unknown(settings)
    from specviz.measure.bench import bench, machine
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(name, options.device, options.dtype)
    results = bench(pair, options.gamma, options.max_new_tokens, options.runs, say=_told, base=settings)
    from specviz.measure.costs import rule_seconds

    record = {
        "machine": machine(pair),
        "pair": pair.describe(),
        "speculative": {name: getattr(settings, name) for name in PROPOSER_FIELDS},
        "results": [asdict(result) for result in results],
        "rule_at_vocabulary_152064": asdict(rule_seconds(152_064).times(1e3, "ms")),
        "block_gap": {kind: gap(load_pair(name, options.device, kind)) for kind in ("float32", "bfloat16")},
    }
    record["verdict"] = unsteady(results) or "steady"
    print(json.dumps(record, indent=1) if options.format == "json" else as_text(record))
    return 0 if record["verdict"] == "steady" else NO_VERDICT


def unsteady(results: Sequence[BenchResult]) -> str:
    """A sentence where the runs of a ratio are too few or lie too far apart for a verdict, else nothing."""
    from specviz.measure.clock import unsure

    for result in results:
        for name, ratio in result.ratio.items():
            if why := unsure(ratio, f"{name} at temperature {result.temperature:g}"):
                return f"No verdict: {why}"
    return ""


def as_text(record: dict) -> str:
    from specviz.measure.estimate import interval_of

    lines = ["  ".join(f"{key} {value}" for key, value in record["machine"].items()), ""]
    if said := in_words(Settings(**record["speculative"])):
        lines[1:1] = [f"speculative: {said.strip()}"]
    for result in record["results"]:
        span = interval_of(result["runs"])
        lines += [
            f"temperature {result['temperature']:g}, gamma {result['gamma']}",
            f"  tokens per second, median ({span})",
        ]
        lines += [f"    {name:<24}{_said(rate, 1)}" for name, rate in result["rates"].items()]
        lines += [f"  ratios, run by run, median ({span}); baseline: {result['baseline']}"]
        lines += [f"    {name:<24}{_said(ratio, 2)}" for name, ratio in result["ratio"].items()]
        lines += [
            f"  tokens per pass {result['tokens_per_pass']:.3f}, draft tokens per pass {result['draft_tokens']:.2f}, "
            f"accepted of tested {result['accepted_per_tested']:.3f}",
            *_costs(result),
            f"  a round, ms in the mean: {', '.join(f'{part} {1e3 * value:.2f}' for part, value in result['timeline'].items())}",
            "",
        ]
    lines.append(
        f"the rule at a vocabulary of 152,064: {_said(record['rule_at_vocabulary_152064'], 1)} ms per round of 4 draft tokens"
    )
    for kind, found in record["block_gap"].items():
        lines.append(
            f"distribution of a block's pass against passes of one token, {kind}: TV {found['median']:.1e} in the middle, "
            f"{found['largest']:.1e} at most, {found['positions']} positions"
        )
    if record["verdict"] != "steady":
        lines += ["", record["verdict"]]
    return "\n".join(lines)


def _costs(result: dict) -> list[str]:
    ms = {name: 1e3 * cost["value"] for name, cost in result["costs"].items()}
    allowed = f"  factor these costs allow {result['allowed']:.2f}, reached {100 * result['share']:.0f}% of it"
    if result["leviathan"] is None:
        head = f"  ms: T(1) {ms['one']:.2f}; in each round drafting {ms['draft']:.2f}, target {ms['block']:.2f}, rule {ms['rule']:.2f}"
        return [head, allowed]
    return [
        f"  ms: T(1) {ms['one']:.2f}, T(gamma+1) {ms['block']:.2f}, draft step {ms['draft']:.2f}, rule {ms['rule']:.2f}",
        f"{allowed}; Leviathan's formula (a block costs one pass) {result['leviathan']:.2f}",
    ]


def policies(name: str, options: argparse.Namespace) -> int:
    """Print what each policy of how far to draft gains over the best fixed length."""
    from specviz.measure.bench import machine
    from specviz.measure.policies import compare
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(name, options.device, options.dtype)
    found = [asdict(one) for one in compare(pair, options.max_new_tokens, options.runs, say=_told)]
    record = {"machine": machine(pair), "pair": pair.describe(), "results": found}
    print(json.dumps(record, indent=1) if options.format == "json" else policies_as_text(record))
    return 0


def policies_as_text(record: dict) -> str:
    from specviz.measure.estimate import interval_of

    lines = ["  ".join(f"{key} {value}" for key, value in record["machine"].items())]
    for one in record["results"]:
        span = interval_of(next(iter(one["paired"].values()))["gain"]["n"])
        rates = ", ".join(f"{gamma}: {rate['value']:.0f}" for gamma, rate in one["fixed"].items())
        lines += [
            "",
            f"temperature {one['temperature']:g}: best fixed length {one['best']} (tokens per second in runs of its own: {rates})",
            f"  {'':<20}{f'times as fast ({span})':<52}{'tokens/s':>9}{'per pass':>10}{'drafted':>9}{'accepted':>10}",
        ]
        for name, row in one["paired"].items():
            numbers = (
                f"{row['rate']['value']:>9.1f}{row['tokens_per_pass']:>10.3f}{row['draft_tokens']:>9.2f}{row['kept']:>10.3f}"
            )
            lines.append(f"  {name:<20}{_said(row['gain'], 3):<52}{numbers}")
    lines += [
        "",
        "The second run of the best fixed length shows what noise alone does to a ratio. The ceiling asks the target when to stop,",
    ]
    return "\n".join([*lines, "and the time of asking is taken out: so much could be gained by knowing."])


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def draws(name: str, options: argparse.Namespace) -> int:
    """Print how many draws a second each way of drawing gives."""
    if not 1 <= options.samples <= 20_000_000:
        raise SettingsError("draws", options.samples, "a whole number from 1 to 20,000,000")
    from specviz.measure import sampling_rates
    from specviz.measure.bench import machine
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(name, options.device, options.dtype)
    found = sampling_rates.sampling_rates(pair, options.samples, say=_told)
    if options.format == "json":
        record = {"machine": machine(pair), "peak_mb": sampling_rates.peak_megabytes(), "results": [asdict(one) for one in found]}
        print(json.dumps(record, indent=1))
    else:
        print("  ".join(f"{key} {value}" for key, value in machine(pair).items()) + "\n" + sampling_rates.as_text(found))
    return 0


def gap(pair: Pair) -> dict[str, float]:
    """How far the distribution of a block's pass is from that of passes of one token, over a text that the pair writes itself."""
    from specviz.decoding.run import run as decode_run
    from specviz.measure.bench import PROMPTS
    from specviz.measure.costs import block_gap

    found = []
    for prompt in PROMPTS.values():
        settings = Settings(prompt=prompt, length=64)
        trace = decode_run(pair, settings, bars=0)
        found += block_gap(pair, settings, trace.prompt_ids + trace.output_ids)
    return {"median": statistics.median(found), "largest": max(found), "positions": len(found)}


def shapes(text: str, gamma: int) -> int:
    """Print the cost table of shapes written LAYERSxWIDTH, separated by commas."""
    try:
        wanted = [tuple(int(number) for number in part.split("x")) for part in text.split(",")]
        fits = all(len(shape) == 2 and 1 <= shape[0] <= 64 and shape[1] % 64 == 0 and 64 <= shape[1] <= 2048 for shape in wanted)
    except ValueError:
        fits = False
    if not fits:
        raise SettingsError("shapes", text, "LAYERSxWIDTH separated by commas, 1 to 64 layers, width a multiple of 64 up to 2048")
    from specviz.measure.costs import shape_seconds

    blocks = (1, 2, 3, gamma + 1, 9)
    print("layers x width  " + "".join(f"{f'T({n})':>8}" for n in dict.fromkeys(blocks)) + "   ms, medians, random weights")
    for (layers, width), by in shape_seconds(wanted, tuple(dict.fromkeys(blocks))).items():
        print(f"{f'{layers} x {width}':<16}" + "".join(f"{1e3 * seconds.value:8.2f}" for seconds in by.values()))
    return 0


def _said(estimate: dict[str, Any], digits: int) -> str:
    return f"{estimate['value']:.{digits}f}  ({estimate['low']:.{digits}f} to {estimate['high']:.{digits}f})"
