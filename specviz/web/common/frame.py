"""The frame around every page: the list of pages, the one style sheet, and the way in for a link to any of them."""

from __future__ import annotations

import copy
from functools import lru_cache

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from specviz.figures.common.components import styles
from specviz.web.common import untrusted, warmup

PAGES = {  # path of its address, which is also the name of its file: so a fresh server finds it before app.py has named its pages
    "one_round": "One round",
    "one_token": "Why it is exact",
    "whole_text": "Whole text",
    "exactness": "Is it exact?",
    "mistakes": "Break it",
    "serving_limits": "Serving limits",
    "speed": "How fast?",
    "drafting_methods": "Drafting methods",
}


def run() -> None:
    """Draw the frame and the page that the address asks for."""
    untrusted.guard()
    page = st.navigation([copy.copy(page) for page in _pages()], position="top")
    st.set_page_config(page_title=f"{page.title} · specviz", page_icon="🎲", layout="wide", initial_sidebar_state="collapsed")
    st.html(f"<style>\n{styles('theme', 'pages')}</style>")
    top = st.container(key="page-notes-refused")
    page.run()
    for sentence in untrusted.refused():
        top.text(sentence)


def enter() -> None:
    """What every page begins with: app.py frames it, even where no visitor has opened the front page yet, and the heavy libraries are imported.

    Streamlit takes a folder called pages/ for its older kind of app and runs a page alone until app.py has named its pages
    once. A page that finds itself alone says that this is not so, and is run again, by app.py.
    """
    if getattr(PagesManager, "uses_pages_directory", False):
        PagesManager.uses_pages_directory = False
        st.rerun()
    warmup.start()


@lru_cache(maxsize=1)
def _pages() -> tuple[st.Page, ...]:
    """Made once for each process: making one looks up where its file really lies. A run gets copies, on which Streamlit marks what is open."""
    return tuple(
        st.Page(f"pages/{path}.py", title=title, url_path=path, default=path == "one_round") for path, title in PAGES.items()
    )
