"""Figures and their captions on one page for a browser. It opens without a network, and its own policy lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

TICKS = {"automargin": True, "ticklabelstandoff": 5}
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1f26;background:#fff}"
    ".figure{overflow-x:auto}.figure>div{min-width:40rem}p{max-width:80ch}"
    "@media print{body{margin:0;zoom:.72}.figure{break-inside:avoid;overflow:visible}}"
)


def build_html_page(figures: Mapping[str, Any], title: str, captions: Sequence[str]) -> str:
    """Plotly figures by name, plotly's script in the page once. Titles and captions are escaped: markup in them is shown as text."""
    for figure in (
        figures.values()
    ):  # fonts of other machines are wider: ticks get the room that they need, and none meets one of the other axis
        figure.update_layout(template="plotly_white").update_xaxes(**TICKS).update_yaxes(**TICKS)
    parts = [
        figure.to_html(
            full_html=False, include_plotlyjs=not place, div_id=name, config={"displaylogo": False, "responsive": True}
        )
        for place, (name, figure) in enumerate(figures.items())
    ]
    words = "\n".join(f"<p>{escape(caption)}</p>" for caption in captions)
    body = "\n".join(f'<div class="figure">{part}</div>' for part in parts)
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{build_policy(body)}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{words}\n{body}\n</body></html>\n"
    )


def build_policy(body: str) -> str:
    """A Content-Security-Policy for a page with this body: its own scripts by their hashes, its own styles, pictures that they draw."""
    scripts = re.findall(r"<script\b[^>]*>(.*?)</script>", body, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(): None for script in scripts}
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
