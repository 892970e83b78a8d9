"""Text of chart labels, as Plotly shows it."""

from __future__ import annotations

from html import escape


def safe(text: str) -> str:
    """Text without markup for Plotly, whose labels take a little HTML, and dollars for formulas."""
    return escape(text, quote=False).replace("$", "&#36;")


def short(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
