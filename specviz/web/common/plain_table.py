"""A small table whose rows have a name, and what it means on a line of its own. Everything in it is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html(columns: Sequence[str], rows: Iterable[tuple[Sequence[str], str]], words: bool = False) -> str:
    """columns  titles, that of the rows' names first; rows  (cells, meaning of the first); words  whether the last column is no number"""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in columns)
    body = "".join(map(_row, rows))
    kind = " words" if words else ""
    return f"<table class='plain-table{kind}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: tuple[Sequence[str], str]) -> str:
    (name, *cells), meaning = row
    rest = "".join(f"<td>{escape(one)}</td>" for one in cells)
    return f"<tr><th scope='row'>{escape(name)}<small>{escape(meaning)}</small></th>{rest}</tr>"
