"""The head of a page: its title and what it asks, the pair of models in force, the terms."""

from __future__ import annotations

import streamlit as st

from specviz.web.models import panel


def head(name: str, title: str, lede: str, row: bool = True) -> None:
    """row: whether the pair and the terms follow at once; without it the page puts them below its first picture."""
    with st.container(key=f"{name}-head"):
        st.markdown(f"# {title}\n{lede}")
    if row:
        panel.row(name)
