"""The JavaScript and CSS of the components as strings, read from assets/, with the palette of theme.py in front.

Each component shares the stage's ways of making nodes and its look, and adds its own.
"""

from __future__ import annotations

from specviz.figures.common.theme import css_variables
from specviz.records import ASSETS

SHARED = ("10-make.js",)  # of the stage's script


def stage_js() -> str:
    """The script of *One round*, one ES module: the files of assets/stage/ in the order of their numbers."""
    return _scripts("stage", "*.js")


def stage_css() -> str:
    """The palette as custom properties, then assets/stage.css."""
    return css_variables() + _text("stage.css")


def token_js() -> str:
    """The script of *One token*: the stage's makers of nodes, then assets/token/."""
    return f"{_shared()}\n{_scripts('token', '*.js')}"


def token_css() -> str:
    return stage_css() + _text("token.css")


def arithmetic_js() -> str:
    """The files of *One token* that compute, alone: tests hold them to Python's numbers."""
    return _scripts("token", "[12]0-*.js")


def tree_js() -> str:
    """The script of the walked tree."""
    return f"{_shared()}\n{_scripts('tree', '*.js')}"


def tree_css() -> str:
    return stage_css() + _text("tree.css")


def lanes_js() -> str:
    """The script of the two lanes of *Whole text*."""
    return f"{_shared()}\n{_scripts('lanes', '*.js')}"


def lanes_css() -> str:
    return stage_css() + _text("lanes.css")


def _text(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _scripts(folder: str, pattern: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / folder).glob(pattern)))


def _shared() -> str:
    return "\n".join(_text(f"stage/{name}") for name in SHARED)
