"""The ending of the tour, at the end of the last page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from specviz import __version__
from specviz.records import load_toml

ENDING = load_toml("texts/ending")


def show_ending() -> None:
    """Show what was learned; in a fold what to read, how to cite, and how to go on with one's own models."""
    with st.container(key="onward-ending"):
        st.markdown(f"## {ENDING['title']}")
        summary, reading, citation, usage = ENDING["part"]
        st.markdown(summary["text"])  # under the heading of the whole
        with st.expander(ENDING["fold"]):
            show_part(st, usage)
            for column, part in zip(st.columns(2, gap="large"), (reading, citation), strict=True):
                show_part(column, part)


def show_part(place: Any, part: Mapping[str, str]) -> None:
    """Show a part of the ending: a title, a text, and lines to copy if it has some."""
    place.markdown(f"### {part['title']}\n{part['text']}")
    if "code" in part:
        place.code(part["code"].strip().replace("VERSION", __version__), language=None)  # a line scrolls: no option is torn
