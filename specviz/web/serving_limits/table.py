"""The table of Serving limits: a row for each setup, its meaning under its name. Everything in it is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specviz.figures.serving_limits.setups import COLUMNS, Line


def html(lines: Sequence[Line]) -> str:
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in COLUMNS)
    return f"<table class='setups-table'><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, lines))}</tbody></table>"


def _row(line: Line) -> str:
    name, *numbers, verdict = map(escape, line.cells)
    cells = "".join(f"<td>{one}</td>" for one in numbers)
    sign = "" if verdict == "–" else f"{line.mark} "
    return f"<tr><th scope='row'>{name}<small>{escape(line.meaning)}</small></th>{cells}<td>{sign}{verdict}</td></tr>"
