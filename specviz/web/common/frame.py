"""The frame around every page: the list of pages, the one style sheet, and the way in for a link to any of them."""

from __future__ import annotations

import copy
from functools import lru_cache

import streamlit as st

from specviz.figures.common.components import styles
from specviz.web.common import comeback, untrusted, warmup
from specviz.web.hosting import metrics

PAGES = {  # path of its address, which is also the name of its file and of its folder in web/
    "one_round": "One round",
    "one_token": "Why it is exact",
    "whole_text": "Whole text",
    "questions": "Eight questions",
    "exactness": "Is it exact?",
    "mistakes": "Break it",
    "serving_limits": "Serving limits",
    "speed": "How fast?",
    "drafting_methods": "Drafting methods",
}
FIRST = next(iter(PAGES))  # at the root


def run() -> None:
    """Draw the frame and the page that the address asks for."""
    untrusted.guard()
    page = st.navigation([copy.copy(page) for page in _pages()], position="top")
    st.set_page_config(page_title=f"{page.title} · specviz", page_icon="🎲", layout="wide", initial_sidebar_state="collapsed")
    st.html(f"<style>\n{styles('theme', 'pages', 'matrix')}</style>")
    top = st.container(key="page-notes-refused")
    metrics.RUNS.labels(page.url_path or FIRST).inc()
    comeback.greet()
    page.run()
    for sentence in untrusted.refused():
        top.text(sentence)


def enter() -> None:
    """What every page begins with: the heavy libraries are imported in the background."""
    warmup.start()


@lru_cache(maxsize=1)
def _pages() -> tuple[st.Page, ...]:
    """Made once for each process: making one looks up where its file really lies. A run gets copies, on which Streamlit marks what is open."""
    return tuple(st.Page(f"pages/{path}.py", title=title, url_path=path, default=path == FIRST) for path, title in PAGES.items())
