"""Texts one above the other, with the first different token marked. Everything that a model or a person wrote is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape


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
        mark = "" if one.token is None else _marked(one.token, one.kind)
        text = f"<i>{_shown(one.before)}</i>{_shown(one.same)}{mark}{_shown(one.rest)}"
        rows.append(f"<p class='{one.kind}'><span>{escape(one.name)}</span><q>{text}</q></p>")
    return f"<div class='two-texts'>{''.join(rows)}</div>"


def _marked(token: str, kind: str) -> str:
    """The first different token; its spaces stay before the mark."""
    word = token.lstrip(" ")
    return f"{' ' * (len(token) - len(word))}<b class='{kind}'>≠ {_shown(word) or '(end)'}</b>"


def _shown(text: str) -> str:
    return escape(text.replace("\n", "↵"))
