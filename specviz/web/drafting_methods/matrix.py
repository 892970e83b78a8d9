"""Every proposer under every rule, recorded: the tables of ``verify --all`` below the gallery."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from specviz.figures.drafting_methods import matrix as figures
from specviz.records import ASSETS, of_file

RECORDED = ASSETS / "traces" / "matrix.json"
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
