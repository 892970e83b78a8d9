"""The page One round: its component, and the fold with a visitor's own text and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from specviz.web.common import chat, export_fold, page_head, session
from specviz.web.common.component import Component
from specviz.web.common.controls import Form, fill_fields, read_fields
from specviz.web.hosting import cache
from specviz.web.hosting.server_options import load_options
from specviz.web.one_round import export, work
from specviz.web.one_round.payload import read_cursor, select_texts
from specviz.web.one_round.state import OneRoundState
from specviz.web.one_round.words import TEXTS

_component = Component("one_round")


def show_page() -> None:
    """Draw the page."""
    state = session.open_state("one_round", _open_state)
    _show_fold(state)
    state.submit_request(work.answer_request)
    session.wait_briefly(state)
    if state.run.trace is None:
        for sentence in state.notices:
            st.text(sentence)
    _show_round(state)
    row = page_head.show_head_row("one_round")
    at = read_cursor(st.query_params.get("at"))
    export_fold.show_export_fold(
        "one_round", lambda: export.build_offer(state.run.trace, (at or state.run.cursor)["round"]), row=row
    )
    session.sync_address(state)
    session.show_progress("one_round", bar=False)


def _open_state(query: Mapping[str, str], before: OneRoundState | None) -> OneRoundState:
    state = OneRoundState(cache.load_recording())
    state.open_link(query, load_options().own_pairs)
    return state


def _show_round(state: OneRoundState) -> None:
    """Draw the run. The component reports events with "kind" live, next ("round"), undo, or uniform ("position", "purpose", "u").

    Each has "at", the cursor at that moment. "busy" is a line that disables events while a request is computed.
    """
    data = {
        "payload": state.run.payload,
        **select_texts(state.run.settings.rule),
        "cursor": state.run.cursor,
        "plays": state.opens_playing,
        "mode": state.run.mode,
        "origin": state.origin,
        "busy": state.progress_line,
        "notices": state.notices,
    }
    _component.draw("one_round-component", data, ask=_take_event)


def _take_event(event: Any) -> None:
    """Handle an event before the page runs, so that one run draws the page with its result."""
    state: OneRoundState | None = st.session_state.get("one_round")
    if state is not None:
        state.begin_script_run()
        state.handle_event(event)


def _show_fold(state: OneRoundState) -> None:
    """A field that changed runs the pair; one that cannot be used says so and leaves what is shown."""
    if state.applied_fields is None:
        settings = state.request.settings if state.request else state.run.settings
        state.applied_fields = state.initial_fields = fill_fields(
            state.offered_request.settings if state.offered_request else settings
        )
    with st.container(key="fold"), st.popover("Your own text", width="content"):
        state.apply_fields(_show_fields(state), read_fields)
        chat.show_chat_field(state)
        st.caption(TEXTS["share"])


def _show_fields(state: OneRoundState) -> dict[str, Any]:
    form = Form("fold", state.turn, state.initial_fields)
    form.show_prompt(st, height=96)
    form.show_sampling()
    form.show_text(st.columns(2)[0], "seed", "Seed")
    return form.raw
