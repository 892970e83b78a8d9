"""The script and style of the page One token: the stage's ways of making nodes and its look, then what is this page's own."""

from __future__ import annotations

from specviz.figures.stagecraft import ASSETS, stage_css

SHARED = ("10-make.js",)  # of the stage's script


def arithmetic_js() -> str:
    """The rooms that compute, alone: what the tests hold to Python's numbers."""
    return _rooms("[12]0-*.js")


def token_js() -> str:
    """One ES module: the stage's makers of nodes, then assets/token/ in the order of its numbers."""
    shared = "\n".join((ASSETS / "stage" / name).read_text(encoding="utf-8") for name in SHARED)
    return f"{shared}\n{_rooms('*.js')}"


def token_css() -> str:
    """The palette and the stage's look, then assets/token.css."""
    return stage_css() + (ASSETS / "token.css").read_text(encoding="utf-8")


def _rooms(pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / "token").glob(pattern)))
