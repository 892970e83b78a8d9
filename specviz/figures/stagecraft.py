"""The stage's JavaScript and CSS as two strings: what is read from assets/, with the palette of theme.py in front."""

from __future__ import annotations

from pathlib import Path

from specviz.figures.theme import css_variables

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def stage_js() -> str:
    """One ES module: the rooms of assets/stage/ in the order of their numbers; the last one exports the entry."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / "stage").glob("*.js")))


def stage_css() -> str:
    """The palette as custom properties, then assets/stage.css."""
    return css_variables() + (ASSETS / "stage.css").read_text(encoding="utf-8")
