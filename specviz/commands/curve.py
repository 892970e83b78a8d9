"""``bench --curve``: what passes over more tokens, over trees and over more rows cost, as text or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from specviz.measure.estimate import Estimate, interval_of


def curve(name: str, options: argparse.Namespace) -> int:
    """Measure and print."""
    from specviz.measure.bench import machine
    from specviz.measure.curves import measure
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(name, options.device, options.dtype)
    found = measure(pair, options.gamma, options.max_new_tokens, 3 * options.runs, _told)
    record = {
        "machine": machine(pair),
        "pair": pair.describe(),
        **asdict(found),
        "allowed": {rows: batch.factor(found.tokens_per_pass, found.gamma) for rows, batch in found.rows.items()},
        "best_nodes": {name: found.best(name).nodes for name in found.budgets},
    }
    print(json.dumps(record, indent=1) if options.format == "json" else as_text(record))
    return 0


def as_text(record: dict[str, Any]) -> str:
    single = Estimate(**record["chain"][1])
    one = single.value
    lines = ["  ".join(f"{key} {value}" for key, value in record["machine"].items()), ""]
    lines += [
        f"one pass of the target over one token, T(1): {single.times(1e3, 'ms').said()} ms, {interval_of(single.n)}; other passes in T(1)",
        "",
    ]
    lines += _two_rows("tokens in a chain", record["chain"], one)
    lines += ["", *_two_rows("nodes of a tree, and the token before it", record["tree"], one), ""]
    for name, budgets in record["budgets"].items():
        lines += [
            f"{name}: fastest with {record['best_nodes'][name]} nodes",
            f"  {'nodes':<18}" + _cells(b["nodes"] for b in budgets),
        ]
        lines.append(f"  {'tokens per pass':<18}" + _cells(f"{b['tokens_per_pass']:.2f}" for b in budgets))
        lines.append(f"  {'drafting, T(1)':<18}" + _cells(f"{b['drafting']['value'] / one:.2f}" for b in budgets))
        lines += [f"  {'times as fast':<18}" + _cells(f"{b['speed']:.2f}" for b in budgets), ""]
    return "\n".join([*lines, *_rows(record)])


def _rows(record: dict[str, Any]) -> list[str]:
    gamma, rows = record["gamma"], record["rows"]
    lines = [f"rows at a time, {gamma} draft tokens each, {record['tokens_per_pass']:.2f} tokens per pass at temperature 1"]
    lines.append(f"  {'rows':<30}" + _cells(rows))
    lines.append(f"  {'one token each, ms':<30}" + _cells(f"{1e3 * b['one']['value']:.1f}" for b in rows.values()))
    lines.append(
        f"  {f'{gamma + 1} tokens each, times that':<30}"
        + _cells(f"{b['block']['value'] / b['one']['value']:.2f}" for b in rows.values())
    )
    lines.append(
        f"  {'a draft step, times that':<30}" + _cells(f"{b['draft']['value'] / b['one']['value']:.2f}" for b in rows.values())
    )
    lines.append(f"  {'factor these costs allow':<30}" + _cells(f"{factor:.2f}" for factor in record["allowed"].values()))
    lost = [count for count, factor in record["allowed"].items() if factor < 1.0]
    said = f"from {lost[0]} rows on" if lost else f"nowhere up to {max(rows)} rows"
    return [*lines, f"  speculation stops paying: {said}"]


def _two_rows(title: str, seconds: dict[int, dict[str, Any]], one: float) -> list[str]:
    return [f"  {title}", "  " + _cells(seconds), "  " + _cells(f"{found['value'] / one:.2f}" for found in seconds.values())]


def _cells(values: Any) -> str:
    return "".join(f"{value:>7}" for value in values)


def _told(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
