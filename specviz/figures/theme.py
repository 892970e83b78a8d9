"""The colors of the charts, read from assets/styles/theme.css: a color has one meaning in charts, components and pages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specviz.records import ASSETS

THEME = ASSETS / "styles" / "theme.css"
PAIR = re.compile(r"^\s*--([a-z-]+): light-dark\((#[0-9A-Fa-f]{6}), (#[0-9A-Fa-f]{6})\);", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shade:
    """One meaning: the fill of shapes and the ink of words, on light and on dark pages; each "#RRGGBB"."""

    light: str
    dark: str
    light_ink: str
    dark_ink: str


def read_meanings(sheet: str) -> dict[str, Shade]:
    """Every token of a style sheet that has both a fill, ``--name``, and an ink, ``--name-ink``."""
    pairs = {name: (light, dark) for name, light, dark in PAIR.findall(sheet)}
    return {name: Shade(*pair, *pairs[f"{name}-ink"]) for name, pair in pairs.items() if f"{name}-ink" in pairs}


MEANINGS = read_meanings(THEME.read_text(encoding="utf-8"))  # target, draft, residual, rejected, bonus

GRAY = {"light": "#5b6673", "dark": "#9aa6b4"}  # samples, measurements and words in a chart
FADED = {
    kind: f"rgba({int(gray[1:3], 16)}, {int(gray[3:5], 16)}, {int(gray[5:], 16)}, 0.5)" for kind, gray in GRAY.items()
}  # in the legend as well
MARK_OVER_BARS = {"light": "#1d2733", "dark": "#e8edf3"}
REPORT_MARK = "#444444"  # lines and marks of a verification report, which has no dark form
INK = {
    "light": "#15191f",
    "dark": "#e9edf2",
}  # as dark as the text: a wrong decoder, lines and marks that mean none of the colors
BAND = "rgba(128, 140, 155, 0.30)"  # sampling noise
GRID = "rgba(128, 140, 155, 0.22)"
PERCENT = ".4~%"  # of ticks: 20%, 0.5% and 0.05% alike, so that no two ticks of a flat distribution read the same
LEGEND = {  # one line over the whole width, also on a phone: one that wraps stays as high when the page grows wide again, and covers the data
    "orientation": "h", "xref": "container", "x": 0, "yref": "container", "y": 1, "yanchor": "top", "traceorder": "normal",
    "font": {"size": 13}, "itemwidth": 30,
}  # fmt: skip
