"""Every proposer under every rule, recorded: the tables of ``verify --all`` below the gallery."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from specviz.figures.drafting_methods import matrix as figures
from specviz.records import ASSETS, of_file

RECORDED = ASSETS / "traces" / "matrix.json"
CSS = """
<style>
.matrix { display: flex; flex-wrap: wrap; gap: 1.2rem 2.4rem; font-size: 0.86rem; }
.matrix table { border-collapse: separate; border-spacing: 2px; flex: 1 1 20rem; max-width: 27rem; table-layout: fixed; }
.matrix caption { text-align: left; font-weight: 620; padding: 0 0 0.2rem; }
.matrix th { font-weight: 450; text-align: center; padding: 0.1rem 0.2rem; }
.matrix th:first-child { text-align: left; width: 8.4rem; overflow-wrap: anywhere; }
.matrix td { text-align: center; padding: 0.1rem; border-radius: 0.2rem; height: 1.5rem; font-weight: 650; background: rgba(128, 140, 155, 0.08); }
.matrix td span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.matrix td.exact { background: rgba(0, 114, 178, 0.26); }
.matrix td.same { background: rgba(0, 114, 178, 0.10); outline: 1.5px dashed rgba(0, 114, 178, 0.7); outline-offset: -2px; }
.matrix td.lossy { background: repeating-linear-gradient(135deg, rgba(213, 94, 0, 0.5) 0 0.12rem, rgba(213, 94, 0, 0.12) 0.12rem 0.4rem); }
.matrix td.wrong { background: #D55E00; color: #fff; }
.st-key-lineup-blank { gap: 0.3rem; }
.st-key-lineup-blank [data-testid="stText"] { white-space: pre-wrap; overflow-wrap: anywhere; font-family: inherit; font-size: 0.86rem; }
.matrix td.blank { font-weight: 400; opacity: 0.6; }
</style>
"""
LEGEND = "✓ exact: draws follow the target’s distribution. ✗ lossy: caught, as its distribution demands. = lossy, and yet the target’s text. Blank cells:"


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any] | None:
    """The matrix that was recorded; None where there is none."""
    return of_file(RECORDED, figures.read, None)


def show() -> None:
    """The tables, a sentence of meaning, and why cells are blank."""
    record = recorded()
    if record is None:
        return
    st.html(CSS)
    with st.expander("Every proposer under every rule"):
        st.text(
            f"Recorded for the text “{record['settings']['prompt']}”; python -m specviz verify --all --tv {record['tv']:g} makes it again."
        )
        st.html(figures.html(record))
        st.container(key="lineup-said-matrix").markdown(figures.conclusion(record))
        st.caption(LEGEND)
        with st.container(key="lineup-blank"):
            for row in figures.blanks(record):
                st.text(f"{row['cells']}: {row['blank because']}")
