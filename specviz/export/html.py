"""Figures and their captions on one page for a browser; it opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1f26;background:#fff}"
    ".figure{overflow-x:auto}.figure>div{min-width:40rem}p{max-width:80ch}"
)


def html_page(figures: Mapping[str, Any], title: str, captions: Sequence[str]) -> str:
    """Plotly figures by name, plotly's script in the page once. Titles and captions are escaped: markup in them is shown as text."""
    parts = [
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=not place, div_id=name, config={"displaylogo": False, "responsive": True}
        )
        for place, (name, figure) in enumerate(figures.items())
    ]
    words = "\n".join(f"<p>{escape(caption)}</p>" for caption in captions)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(f'<div class="figure">{part}</div>' for part in parts)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{words}\n{body}\n</body></html>\n"
    )
