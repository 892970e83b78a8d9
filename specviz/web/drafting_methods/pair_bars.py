"""The pairs on record as bars: tokens of a round, the most first, beside how often the first draft token is accepted. HTML of plain records."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specviz.speed.records.pair import COLUMNS_GAMMA, PairRecord
from specviz.speed.records.plan import PlanRow


def build_pair_bars(records: Sequence[PairRecord]) -> str:
    """A line for each pair: its name, a bar from 1 to all draft tokens and a bonus token, and the numbers."""
    rows = sorted(((_choose_row(one), one) for one in records), key=lambda pair: pair[0].tokens.value, reverse=True)
    head = f"<p class='title'><span>target and draft</span><span>tokens of a round of {COLUMNS_GAMMA} draft tokens: a bar begins at 1, no gain, and ends at most at {COLUMNS_GAMMA + 1}</span><span>first token accepted, where a draft was found</span></p>"
    return f"<div class='pair-bars'>{head}{''.join(_build_line(row, one) for row, one in rows)}</div>"


def _choose_row(record: PairRecord) -> PlanRow:
    return next(row for row in record.plan.rows if row.gamma == min(COLUMNS_GAMMA, record.plan.rows[-1].gamma))


def _build_line(row: PlanRow, record: PairRecord) -> str:
    share = min(1.0, max(0.0, row.tokens.value - 1.0) / row.gamma)
    plan, first = record.plan, record.plan.positions[0] if record.plan.positions else None
    about = f"{plan.machine.get('processor', 'unknown')}, {plan.date}; {record.license}"
    accepted = f"{first.value:.0%}" if first else "–"
    return (
        f"<p><span><b>{escape(record.title)}</b><small>{escape(about)}</small></span>"
        f"<span class='track'><i style='width: {share:.1%}'></i><em>{row.tokens.value:.2f}</em></span><span>{accepted}</span></p>"
    )
