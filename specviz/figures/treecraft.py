"""The script and style of the walked tree: the stage's ways of making nodes and its look, then what is the tree's own."""

from __future__ import annotations

from specviz.figures.stagecraft import ASSETS, stage_css
from specviz.figures.tokencraft import SHARED


def tree_js() -> str:
    """One ES module: the stage's makers of nodes, then assets/tree/ in the order of its numbers."""
    files = [*(ASSETS / "stage" / name for name in SHARED), *sorted((ASSETS / "tree").glob("*.js"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def tree_css() -> str:
    """The palette and the stage's look, then assets/tree.css."""
    return stage_css() + (ASSETS / "tree.css").read_text(encoding="utf-8")
