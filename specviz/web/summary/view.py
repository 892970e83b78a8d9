"""The page Summary: what was shown on the others, and how to go on with one's own models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from specviz.errors import TraceError
from specviz.figures.pages_and_glossary import PAGES
from specviz.web.common import session
from specviz.web.common.elements import show_notes
from specviz.web.common.html import escape_markdown
from specviz.web.common.links import list_host_settings, list_unknown_keys
from specviz.web.common.page_head import show_head_row, show_page_head
from specviz.web.questions.figures import BarPicture
from specviz.web.summary.pictures import build_conclusions, build_picture_html, build_pictures, describe_conditions
from specviz.web.summary.words import SUMMARY, list_commands, set_variables


def show_page() -> None:
    """Draw three points, each with the page that shows it; below them what to read, how to cite, and commands for one's own models."""
    pair_left_out, query = session.sync_pair_with_address("summary"), st.query_params.to_dict()
    show_page_head("summary", SUMMARY["lede"])
    try:
        pictures, conclusions = build_pictures(), build_conclusions()
    except TraceError as error:
        pictures, conclusions = {}, {}
        show_notes([str(error)], "summary-notes-damaged")
    st.html(build_points(SUMMARY["sentence"], pictures, conclusions))
    left_out = [*pair_left_out, *list_host_settings(query, pair_left_out), *list_unknown_keys(query)]
    show_notes(left_out, "summary-notes-link")
    usage, reading, citation = SUMMARY["part"]
    with st.container(key="summary-parts"):
        show_part(st, usage)
        for column, part in zip(st.columns(2, gap="large"), (reading, citation), strict=True):
            show_part(column, part)
    with st.expander(SUMMARY["fold"], key="summary-fold"):
        said = [f"{set_variables(one['more'])} {link_pages(one['pages'])}" for one in SUMMARY["sentence"]]
        said += [escape(describe_conditions())] if pictures else []
        st.html("".join(f"<p class='conditions'>{one}</p>" for one in said))
    show_head_row("summary")


def build_points(points: Sequence[Mapping[str, Any]], pictures: Mapping[str, BarPicture], conclusions: Mapping[str, str]) -> str:
    """Build the list of what was shown: what was found, its picture and what that says where there is one, and the page that shows it first."""
    built = (_build_point(one, pictures.get(one["key"]), conclusions.get(one["key"], "")) for one in points)
    return f"<ol class='in-short'>{''.join(built)}</ol>"


def _build_point(point: Mapping[str, Any], picture: BarPicture | None, conclusion: str) -> str:
    drawn = build_picture_html(picture, conclusion) if picture else ""
    return f"<li><h2>{set_variables(point['short'])}</h2>{drawn}<nav>{link_pages(point['pages'][:1])}</nav></li>"


def link_pages(paths: Sequence[str]) -> str:
    """Build links to pages, each with its title."""
    return " ".join(f"<a href='{path}' target='_self'>{escape(PAGES[path].title)}</a>" for path in paths)


def show_part(place: Any, part: Mapping[str, Any]) -> None:
    """Show a part: a title, a text, and lines to copy if it has some, each by itself."""
    place.markdown(f"## {part['title']}\n{escape_markdown(part['text'])}")
    commands = list_commands(part)
    grid = place.container(key="summary-commands") if len(commands) > 1 else place
    for n, (says, gets, code) in enumerate(commands):
        row = grid.container(key=f"summary-command-{n}") if says else grid
        if says:
            row.markdown(escape_markdown(f"{says}\n\n{gets}".strip()))
        row.code(code, language=None)
