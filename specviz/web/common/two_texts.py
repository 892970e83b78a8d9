"""Texts one above the other, with the first word that differs marked. Everything that a model or a person wrote is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

LETTERS_AT_END, LETTERS_AT_START = re.compile(r"\w+$"), re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Line:
    """One text: whose it is; ``kind`` right or wrong, its mark's style; what came before, what it shares, its own first token, its rest."""

    name: str
    kind: str
    before: str
    same: str
    token: str | None
    rest: str


def html(lines: Iterable[Line]) -> str:
    rows = []
    for one in lines:
        same, token, rest = (one.same, None, one.rest) if one.token is None else whole_word(one.same, one.token, one.rest)
        mark = "" if token is None else _marked(token, one.kind)
        text = f"<i>{_shown(one.before)}</i>{_shown(same)}{mark}{_shown(rest)}"
        rows.append(f"<p class='{one.kind}'><span>{escape(one.name)}</span><q>{text}</q></p>")
    return f"<div class='two-texts'>{''.join(rows)}</div>"


def whole_word(same: str, token: str, rest: str) -> tuple[str, str, str]:
    """The same text with the whole word marked where the token is a part of one: a mark inside a word reads like a misprint."""
    before, after = LETTERS_AT_END.search(same), LETTERS_AT_START.match(rest)
    if before and token[:1].isalnum():
        same, token = same[: before.start()], before[0] + token
    if after and token[-1:].isalnum():
        token, rest = token + after[0], rest[after.end() :]
    return same, token, rest


def _marked(token: str, kind: str) -> str:
    """The first word that differs; its spaces stay before the mark."""
    word = token.lstrip(" ")
    return f"{' ' * (len(token) - len(word))}<b class='{kind}'>≠ {_shown(word) or '(end)'}</b>"


def _shown(text: str) -> str:
    return escape(text.replace("\n", "↵"))
