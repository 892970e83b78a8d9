"""The head of a page: its title and what it asks, the pair of models in force, the terms."""

from __future__ import annotations

import streamlit as st

from specviz.web.pair_picker import panel


def head(name: str, title: str, lede: str) -> None:
    with st.container(key=f"{name}-head"):
        st.markdown(f"# {title}\n{lede}")
    panel.row(name)
