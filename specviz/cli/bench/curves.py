"""``bench curves``: what passes over more tokens, trees and rows cost, and what follows."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from specviz.cli.bench.table import add_measurement_options
from specviz.cli.common.command_options import load_models, read_settings
from specviz.cli.common.output import format_machine, print_record
from specviz.cli.common.progress import log_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measurement_options(parser, "a third of the runs of each cost")


def run(options: argparse.Namespace) -> int:
    from specviz.speed.measurement.costs import measure_pass_curves
    from specviz.speed.measurement.machine import describe_machine

    pair = load_models(read_settings(options))
    found = measure_pass_curves(pair, options.gamma, options.max_new_tokens, 3 * options.runs, log_line)
    record = {
        "machine": describe_machine(pair),
        "pair": pair.describe(),
        **asdict(found),
        "allowed": {rows: batch.compute_factor(found.tokens_per_pass, found.gamma) for rows, batch in found.rows.items()},
        "best_nodes": {name: found.find_best(name).nodes for name in found.budgets},
    }
    print_record(record, options, _format_curves)
    return 0


def _format_curves(record: dict[str, Any]) -> str:
    from specviz.speed.records.estimate import Estimate, describe_interval

    single = Estimate(**record["chain"][1])
    one = single.value
    lines = [
        format_machine(record["machine"]),
        "",
        f"one pass of the target over one token, T(1): {single.convert(1e3, 'ms').format()} ms, {describe_interval(single.n)}; other passes in T(1)",
        "",
    ]
    for title, kind in (("tokens in a chain", "chain"), ("nodes of a tree, and the token before it", "tree")):
        costs = (f"{found['value'] / one:.2f}" for found in record[kind].values())
        lines += [f"  {title}", "  " + _format_cells(record[kind]), "  " + _format_cells(costs), ""]
    for name, budgets in record["budgets"].items():
        lines += [
            f"{name}: fastest with {record['best_nodes'][name]} nodes",
            f"  {'nodes':<18}" + _format_cells(b["nodes"] for b in budgets),
            f"  {'tokens per pass':<18}" + _format_cells(f"{b['tokens_per_pass']:.2f}" for b in budgets),
            f"  {'drafting, T(1)':<18}" + _format_cells(f"{b['drafting']['value'] / one:.2f}" for b in budgets),
            f"  {'times as fast':<18}" + _format_cells(f"{b['speed']:.2f}" for b in budgets),
            "",
        ]
    gamma, rows = record["gamma"], record["rows"]
    batches = rows.values()
    lost = [count for count, factor in record["allowed"].items() if factor < 1.0]
    lines += [
        f"rows at a time, {gamma} draft tokens each, {record['tokens_per_pass']:.2f} tokens per pass at temperature 1",
        f"  {'rows':<30}" + _format_cells(rows),
        f"  {'one token each, ms':<30}" + _format_cells(f"{1e3 * b['one']['value']:.1f}" for b in batches),
        f"  {f'{gamma + 1} tokens each, times that':<30}"
        + _format_cells(f"{b['block']['value'] / b['one']['value']:.2f}" for b in batches),
        f"  {'a draft step, times that':<30}" + _format_cells(f"{b['draft']['value'] / b['one']['value']:.2f}" for b in batches),
        f"  {'speed-up these costs allow':<30}" + _format_cells(f"{factor:.2f}" for factor in record["allowed"].values()),
        f"  speculation stops paying: {f'from {lost[0]} rows on' if lost else f'nowhere up to {max(rows)} rows'}",
    ]
    return "\n".join(lines)


def _format_cells(values: Iterable[Any]) -> str:
    return "".join(f"{value:>7}" for value in values)
