"""Colours with one meaning each, for light and for dark pages.

Okabe and Ito's palette, which stays distinct for the common kinds of colour blindness. Each meaning has a fill, and an ink:
a darker (on dark pages lighter) shade that reaches a contrast of 4.5 as text. Nothing is said by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shade:
    """One meaning: the fill of shapes and the ink of words, on light and on dark pages."""

    light: str
    dark: str
    light_ink: str
    dark_ink: str


MEANINGS = {
    "target": Shade("#0072B2", "#3FA0DB", "#0067A1", "#6FBBEA"),  # the big model, and its authority: what it keeps
    "draft": Shade("#E69F00", "#E69F00", "#7F5700", "#F0B840"),  # the small model's draft tokens
    "residual": Shade("#009E73", "#22B88C", "#00704F", "#4CCBA4"),  # what the draft left out, and nothing else
    "rejected": Shade("#D55E00", "#EE7B2B", "#A84600", "#FF9A57"),  # refused; always hatched as well
    "bonus": Shade("#CC79A7", "#D98DB7", "#94416F", "#E9AACB"),  # the token after a full block
}


LEGEND = {  # one line over the whole width, also on a phone: one that wraps stays as high when the page grows wide again, and covers the data
    "orientation": "h", "xref": "container", "x": 0, "yref": "container", "y": 1, "yanchor": "top", "traceorder": "normal",
    "font": {"size": 11.5}, "itemwidth": 30,
}  # fmt: skip


def css_variables() -> str:
    """The palette as CSS custom properties that follow the page's colour scheme."""
    lines = []
    for name, shade in MEANINGS.items():
        lines.append(f"  --{name}: light-dark({shade.light}, {shade.dark});")
        lines.append(f"  --{name}-ink: light-dark({shade.light_ink}, {shade.dark_ink});")
    return ".stage {\n" + "\n".join(lines) + "\n}\n"
