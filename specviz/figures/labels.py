"""Labels of charts: a cell of continuations as text, and text as Plotly shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from specviz.figures.glyphs import glyphs, piece

REST = "any other text"


def label(begins: Sequence[int], whole: bool, pieces: Mapping[int, str]) -> str:
    """A cell's name: its tokens with their spaces shown, and … where several texts that begin like this share the cell."""
    if not begins:
        return "(nothing)" if whole else REST
    shown = "".join(glyph["t"] for token in begins for glyph in glyphs(piece(pieces, token), token))
    return shown if whole else f"{shown} …"


def safe(text: str) -> str:
    """Text without markup for Plotly, whose labels take a little HTML, and dollars for formulas."""
    return escape(text, quote=False).replace("$", "&#36;")


def short(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
