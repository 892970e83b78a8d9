"""The head of a page: its title and question, the pair of models in force, and its terms with their definitions from the glossary."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from html import escape
from typing import Any, ParamSpec

import streamlit as st

from specviz.figures.pages_and_glossary import PAGES, define_term, split_at_terms
from specviz.web.pair_picker import panel

P = ParamSpec("P")


def build_terms_panel(page: str) -> str:
    """Build the list of terms with their definitions. It takes the focus, so that keys scroll it."""
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(define_term(term))}</dd>" for term in PAGES[page].terms)
    return f'<div class="terms" role="group" aria-label="Terms of this page" tabindex="0"><dl>{rows}</dl></div>'


def show_page_head(page: str, lede: str) -> None:
    """Show a page's title and what it asks, with its terms marked. lede: our own markdown."""
    with st.container(key=f"{page}-head"):
        st.markdown(f"# {PAGES[page].title}\n{mark_terms(lede)}", unsafe_allow_html=True)


def mark_terms(text: str) -> str:
    """Mark the first place of each known term in a text of our own, with its definition as a tip (styles/terms.css)."""
    return "".join(
        f'<span class="term" tabindex="0" role="term" aria-describedby="tip-{n}">{words}<span class="tip" role="tooltip" id="tip-{n}">{escape(means)}</span></span>'
        if means
        else words
        for n, (words, means) in enumerate(split_at_terms(text))
    )  # fmt: skip


def end_with_row(page: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of the function that draws a page: the row of ``show_head_row`` stands at its end."""

    def decorate(show: Callable[P, None]) -> Callable[P, None]:
        @wraps(show)
        def show_with_row(*arguments: P.args, **named: P.kwargs) -> None:
            panel.open_state()  # it reads the pair of the address, which the page may write anew
            show(*arguments, **named)
            show_head_row(page)

        return show_with_row

    return decorate


def show_head_row(page: str) -> Any:
    """Show one quiet row with the pair of models in force and the page's terms; the progress of a check or a download stands below it. Returns the row."""
    row = st.container(key=f"terms-{page}", horizontal=True, gap="medium", vertical_alignment="center")
    with row:
        panel.show_pair_panel(page)
        with st.popover("Terms", type="tertiary", key=f"definitions-{page}"):
            st.html(build_terms_panel(page))
    panel.show_progress(page)
    return row
