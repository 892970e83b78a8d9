"""A link to a page may be the first thing that a fresh server is asked for."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager


def through_app() -> None:
    """Let app.py frame this page, even where no visitor has opened the front page yet.

    Streamlit takes a folder called pages/ for its older kind of app and runs a page alone until app.py has named its pages
    once. A page that finds itself alone says that this is not so, and is run again, by app.py.
    """
    if getattr(PagesManager, "uses_pages_directory", False):
        PagesManager.uses_pages_directory = False
        st.rerun()
