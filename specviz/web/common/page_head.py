"""The head of a page: its title and question, the pair of models in force, and its terms with their definitions from the glossary."""

from __future__ import annotations

from html import escape

import streamlit as st

from specviz.figures.glossary import define
from specviz.figures.pages import TITLES
from specviz.web.pair_picker import panel

TERMS = {  # of each page, by the name in its keys, in the order in which a reader meets them there
    "one_round": ("round", "draft token", "target pass", "p", "q", "u", "accepted", "rejected", "not checked", "residual distribution",
             "replacement", "bonus token"),
    "one_token": ("distribution", "p", "q", "overlap", "acceptance probability", "residual distribution", "acceptance rule", "block rule"),
    "whole_text": ("target-only sampling", "draft token", "round", "tokens per target pass", "accepted", "replacement", "bonus token",
              "overlap", "95% interval"),
    "questions": ("p", "tokens per target pass", "residual distribution", "draft tree", "total variation distance",
              "sampling noise", "batch", "quantization"),
    "exactness": ("distribution", "exact", "sample", "sampling noise", "p-value", "false-alarm rate", "total variation distance", "seed",
              "temperature"),
    "mistakes": ("sample", "total variation distance", "sampling noise", "acceptance rate", "tokens per target pass", "p-value",
               "false-alarm rate", "random number"),
    "serving_limits": ("exact", "quantization", "logits processor", "total variation distance", "acceptance probability", "target-only sampling",
               "near tie", "greedy"),
    "speed": ("tokens per target pass", "gamma", "acceptance rate", "alpha", "speed-up", "95% interval", "overlap", "calibration", "batch"),
    "drafting_methods": ("exact", "lossy", "tokens per target pass", "draft tree", "block rule", "k-sequential selection", "typical acceptance",
                  "total variation distance"),
    "classroom": ("sample", "sampling noise", "p-value", "false-alarm rate", "acceptance probability", "calibration", "total variation distance", "tokens per target pass"),
}  # fmt: skip


def build_terms_panel(page: str) -> str:
    """Build the list of terms with their definitions. It takes the focus, so that keys scroll it."""
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(define(term))}</dd>" for term in TERMS[page])
    return f'<div class="terms" role="group" aria-label="Terms of this page" tabindex="0"><dl>{rows}</dl></div>'


def show_page_head(page: str, lede: str) -> None:
    """Show a page's title, what it asks, and the row below them."""
    with st.container(key=f"{page}-head"):
        st.markdown(f"# {TITLES[page]}\n{lede}")
    show_head_row(page)


def show_head_row(page: str) -> None:
    """Show one row with the pair of models in force and the page's terms; the progress of a check or a download stands below it."""
    with st.container(key=f"terms-{page}", horizontal=True, gap="medium", vertical_alignment="center"):
        panel.show_pair_panel(page)
        with st.popover("Terms", type="tertiary", key=f"definitions-{page}"):
            st.html(build_terms_panel(page))
    panel.show_progress(page)
