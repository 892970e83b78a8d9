"""The terms of a page with their definitions from the one glossary, in one panel that a click or a key opens."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from specviz.figures.glossary import define

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


def row(page: str, before: Callable[[str], None]) -> None:
    """One row: what ``before`` draws, given the page, and the panel of the page's terms. All of it is our own text."""
    with st.container(key=f"terms-{page}", horizontal=True, gap="medium", vertical_alignment="center"):
        before(page)
        with st.popover("Terms", type="tertiary", key=f"definitions-{page}"):
            st.html(panel(page))


def panel(page: str) -> str:
    """The terms with what they mean. It takes the focus, so that keys scroll it."""
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(define(term))}</dd>" for term in TERMS[page])
    return f'<div class="terms" role="group" aria-label="Terms of this page" tabindex="0"><dl>{rows}</dl></div>'
