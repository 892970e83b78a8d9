"""Markdown and HTML made of texts: escaping, small tables, and texts with the first word that differs marked. Everything is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

ALL_SIGNS = "\\`*_{}[]()#+-!|<>$~:&"  # whatever markdown could take as a sign


def escape_markdown(text: str, signs: str = "$~") -> str:
    """Escape signs that markdown would interpret; by default those that our own sentences may hold."""
    return "".join(f"\\{sign}" if sign in signs else sign for sign in text)


def build_plain_table(
    columns: Sequence[str], rows: Iterable[tuple[Sequence[str], str]], words: bool = False, wide: bool = False
) -> str:
    """Build a small table whose rows have a name, and below it a meaning.

    Args:
        columns: Titles, that of the rows' names first.
        rows: (cells, meaning of the first cell or "").
        words: Whether the last column holds words rather than numbers.
        wide: Whether it is as wide as its place.
    """
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in columns)
    body = "".join(_build_row(columns[1:], row) for row in rows)
    kind = f"plain-table{' words' * words}{' wide' * wide}"
    return f"<table class='{kind}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _build_row(titles: Sequence[str], row: tuple[Sequence[str], str]) -> str:
    """A row; each cell carries its column's title, which a phone shows beside it."""
    (name, *cells), meaning = row
    below = f"<small>{escape(meaning)}</small>" if meaning else ""
    rest = "".join(f"<td data-title='{escape(title)}'>{escape(one)}</td>" for title, one in zip(titles, cells, strict=True))
    return f"<tr><th scope='row'>{escape(name)}{below}</th>{rest}</tr>"


LETTERS_AT_END, LETTERS_AT_START = re.compile(r"\w+$"), re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TextLine:
    """One text: whose it is; ``kind`` right, wrong or untold, its mark's style; what came before, what it shares, its own first token, its rest."""

    name: str
    kind: str
    before: str
    same: str
    token: str | None
    rest: str


def build_two_texts(lines: Iterable[TextLine]) -> str:
    """Build texts one above the other, each with the first word that differs marked."""
    rows = []
    for one in lines:
        same, token, rest = (one.same, None, one.rest) if one.token is None else extend_to_word(one.same, one.token, one.rest)
        mark = "" if token is None else _mark_word(token, one.kind)
        text = f"<i>{_escape_text(one.before)}</i>{_escape_text(same)}{mark}{_escape_text(rest)}"
        rows.append(f"<p class='{one.kind}'><span>{escape(one.name)}</span><q>{text}</q></p>")
    return f"<div class='two-texts'>{''.join(rows)}</div>"


def extend_to_word(same: str, token: str, rest: str) -> tuple[str, str, str]:
    """The same text with the whole word marked where the token is a part of one: a mark inside a word reads like a misprint."""
    before, after = LETTERS_AT_END.search(same), LETTERS_AT_START.match(rest)
    if before and token[:1].isalnum():
        same, token = same[: before.start()], before[0] + token
    if after and token[-1:].isalnum():
        token, rest = token + after[0], rest[after.end() :]
    return same, token, rest


def _mark_word(token: str, kind: str) -> str:
    """The first word that differs; its spaces stay before the mark."""
    word = token.lstrip(" ")
    return f"{' ' * (len(token) - len(word))}<b class='{kind}'>{_escape_text(word) or '(end)'}</b>"


def _escape_text(text: str) -> str:
    return escape(re.sub(r"\n+", " ↵ ", text))
