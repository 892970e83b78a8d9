"""The pairs on record as bars: tokens of a round, the most first, beside how often the first draft token is accepted. HTML of plain records."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specviz.speed.records.pair import COLUMNS_GAMMA, PairRecord


def build_pair_bars(records: Sequence[PairRecord]) -> str:
    """A line for each pair: its name, a bar from 1 to all draft tokens and a bonus token, and the numbers."""
    ordered = sorted(records, key=lambda one: one.row.tokens.value, reverse=True)
    head = f"<p class='title'><span>target and draft</span><span>tokens of a round of {COLUMNS_GAMMA} draft tokens: a bar begins at 1, no gain, and ends at most at {COLUMNS_GAMMA + 1}</span><span>first draft token accepted, of rounds with a draft</span></p>"
    origins = {_describe_origin(one) for one in records}
    shared = len(origins) == 1
    lines = "".join(_build_line(one, "" if shared else f"{_describe_origin(one)}; ") for one in ordered)
    end = f"<small>Measured on {escape(origins.pop())}.</small>" if shared else ""
    return f"<div class='pair-bars'>{head}{lines}{end}</div>"


def _describe_origin(record: PairRecord) -> str:
    return f"{record.source.machine.get('processor', 'unknown')}, {record.source.date}"


def _build_line(record: PairRecord, origin: str) -> str:
    source, row = record.source, record.row
    share = min(1.0, max(0.0, row.tokens.value - 1.0) / row.gamma)
    about = f"{origin}license of the weights: {record.license}"
    accepted = f"{source.positions[0].value:.0%}" if source.positions else "–"
    drafted = "" if record.drafted is None else f"<small>{record.drafted:.0%} have a draft</small>"
    return (
        f"<p><span><b>{escape(record.title)}</b><small>{escape(about)}</small></span>"
        f"<span class='track'><i style='width: {share:.1%}'></i><em>{row.tokens.value:.2f}</em></span><span>{accepted}{drafted}</span></p>"
    )
