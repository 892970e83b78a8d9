"""The pairs on record as bars: tokens of a round, the most first. HTML of plain records."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specviz.speed.records.pair_record import COLUMNS_GAMMA, PairRecord


def build_pair_bars(records: Sequence[PairRecord]) -> str:
    """A line for each pair: its name, and a bar from 1 to all draft tokens and a bonus token; below them licenses, and the machine of all."""
    ordered = sorted(records, key=lambda one: one.row.tokens.value, reverse=True)
    ends = f"<span class='ends'><span>1, no gain</span><span>{COLUMNS_GAMMA + 1}, all accepted</span></span>"
    head = (
        f"<p class='title'><span>target and draft</span><span>tokens of a round of {COLUMNS_GAMMA} draft tokens{ends}</span></p>"
    )
    origins = {_describe_origin(one) for one in records}
    shared = len(origins) == 1
    lines = "".join(_build_line(one, "" if shared else _describe_origin(one)) for one in ordered)
    licenses: dict[str, list[str]] = {}
    for one in records:
        licenses.setdefault(one.license, []).append(one.title.split(",")[0].split(" + ")[0])
    named = (f"{license} ({', '.join(dict.fromkeys(names))})" for license, names in licenses.items())
    end = f"Licenses of the weights: {'; '.join(named)}."
    if shared:
        end = f"Measured on {origins.pop()}. {end}"
    return f"<div class='pair-bars'>{head}{lines}<small>{escape(end)}</small></div>"


def _describe_origin(record: PairRecord) -> str:
    return f"{record.source.machine.get('processor', 'unknown')}, {record.source.date}"


def _build_line(record: PairRecord, origin: str) -> str:
    row = record.row
    share = min(1.0, max(0.0, row.tokens.value - 1.0) / row.gamma)
    about = f"<small>{escape(origin)}</small>" if origin else ""
    return (
        f"<p><span><b>{escape(record.title)}</b>{about}</span>"
        f"<span class='track'><i style='width: {share:.1%}'></i><em>{row.tokens.value:.2f}</em></span></p>"
    )
