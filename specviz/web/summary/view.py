"""The page Summary: what was shown on the others, and how to go on with one's own models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from specviz.figures.pages_and_glossary import PAGES
from specviz.web.common import session
from specviz.web.common.elements import show_notes
from specviz.web.common.html import escape_markdown
from specviz.web.common.links import list_host_settings, list_unknown_keys
from specviz.web.common.page_head import show_head_row, show_page_head
from specviz.web.summary.words import SUMMARY, list_commands, list_sentences


def show_page() -> None:
    """Draw three points, each with the page that shows it; below them what to read, how to cite, and commands for one's own models."""
    pair_left_out, query = session.sync_pair_with_address("summary"), st.query_params.to_dict()
    show_page_head("summary", SUMMARY["lede"])
    st.html(build_sentences(list_sentences()))
    left_out = [*pair_left_out, *list_host_settings(query, pair_left_out), *list_unknown_keys(query)]
    show_notes(left_out, "summary-notes-link")
    usage, reading, citation = SUMMARY["part"]
    with st.container(key="summary-parts"):
        show_part(st, usage)
        for column, part in zip(st.columns(2, gap="large"), (reading, citation), strict=True):
            show_part(column, part)
    show_head_row("summary")


def build_sentences(sentences: Sequence[Mapping[str, str]]) -> str:
    """Build the list of what was shown: a sentence, and the name of the page that shows it."""
    rows = "".join(
        f"<li><p><b>{escape(one['short'])}</b> {escape(one['text'])}</p><a href='{one['page']}' target='_self'>{escape(PAGES[one['page']].title)}</a></li>"
        for one in sentences
    )
    return f"<ol class='in-short'>{rows}</ol>"


def show_part(place: Any, part: Mapping[str, Any]) -> None:
    """Show a part: a title, a text, and lines to copy if it has some, each by itself."""
    place.markdown(f"## {part['title']}\n{escape_markdown(part['text'])}")
    for n, (says, code) in enumerate(list_commands(part)):
        row = place.container(horizontal=True, vertical_alignment="center", key=f"summary-command-{n}") if says else place
        if says:
            row.caption(escape_markdown(says), width=340)
        row.code(code, language=None, wrap_lines=True)
