"""A small table whose rows have a name, and what it means on a line of its own. Everything in it is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html(columns: Sequence[str], rows: Iterable[tuple[Sequence[str], str]], words: bool = False) -> str:
    """columns  titles, that of the rows' names first; rows  (cells, meaning of the first, may be empty); words  whether the last column is no number"""
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in columns)
    body = "".join(_row(columns[1:], row) for row in rows)
    kind = " words" if words else ""
    return f"<table class='plain-table{kind}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(titles: Sequence[str], row: tuple[Sequence[str], str]) -> str:
    """A row; each cell carries its column's title, which a phone shows beside it."""
    (name, *cells), meaning = row
    below = f"<small>{escape(meaning)}</small>" if meaning else ""
    rest = "".join(f"<td data-title='{escape(title)}'>{escape(one)}</td>" for title, one in zip(titles, cells, strict=True))
    return f"<tr><th scope='row'>{escape(name)}{below}</th>{rest}</tr>"
