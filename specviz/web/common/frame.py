"""The look of every page: the one place where style sheets reach a page of Streamlit's."""

from __future__ import annotations

import streamlit as st

from specviz.figures.common.components import styles

EVERYWHERE = ("tokens", "pages/frame", "pages/page", "pages/exactness", "pages/mistakes", "pages/drafting_methods")


def trim() -> None:
    """The style sheets of all pages."""
    style(*EVERYWHERE)


def style(*names: str) -> None:
    """Put style sheets of assets/styles/ on the page, by their names without .css. Only fixed text reaches them."""
    st.html(f"<style>\n{styles(*names)}</style>")
