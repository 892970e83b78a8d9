"""The script and style of the two lanes: the stage's ways of making nodes and its look, then what is the lanes' own."""

from __future__ import annotations

from specviz.figures.stagecraft import ASSETS, stage_css
from specviz.figures.tokencraft import SHARED


def lanes_js() -> str:
    """One ES module: the stage's makers of nodes, then assets/lanes/ in the order of its numbers."""
    files = [*(ASSETS / "stage" / name for name in SHARED), *sorted((ASSETS / "lanes").glob("*.js"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def lanes_css() -> str:
    """The palette and the stage's look, then assets/lanes.css."""
    return stage_css() + (ASSETS / "lanes.css").read_text(encoding="utf-8")
