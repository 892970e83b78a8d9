"""``bench policies``: each policy that sets the draft length against the best fixed length."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from specviz.cli.bench.table import add_measurement_options
from specviz.cli.common.command_options import load_models, read_settings
from specviz.cli.common.output import format_estimate, format_machine, print_record
from specviz.cli.common.progress import log_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measurement_options(parser, "interleaved runs after one that warms up")


def run(options: argparse.Namespace) -> int:
    from specviz.speed.benchmarks.draft_length_policies import compare_policies
    from specviz.speed.measurement.machine import describe_machine

    pair = load_models(read_settings(options))
    found = [asdict(one) for one in compare_policies(pair, options.max_new_tokens, options.runs, log=log_line)]
    print_record({"machine": describe_machine(pair), "pair": pair.describe(), "results": found}, options, _format_policies)
    return 0


def _format_policies(record: dict[str, Any]) -> str:
    from specviz.speed.records.estimate import describe_interval

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
            lines.append(f"  {name:<20}{format_estimate(row['gain'], 3):<52}{numbers}")
    return "\n".join(
        [
            *lines,
            "",
            "The second run of the best fixed length shows what noise alone does to a ratio. The ceiling asks the target when to stop,",
            "and the time of asking is taken out: so it shows what perfect knowledge could gain.",
        ]
    )
