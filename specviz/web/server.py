"""The server of the pages, once for each process: what is settled before the first visitor comes."""

from __future__ import annotations

from streamlit.runtime.pages_manager import PagesManager


def prepare() -> None:
    """Before anything is served. Streamlit takes a folder called pages/ for its older kind of app, until it is told otherwise:
    it would open the pages of the first visitors by their files, without app.py around them."""
    PagesManager.uses_pages_directory = False
