"""The front page: one component, which reports the prompt of a visitor."""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.web.common import session
from specviz.web.common.component import Component
from specviz.web.front.payload import build_front_payload
from specviz.web.front.state import FrontState, open_race

STATE = "front"  # key of the session
_component = Component("front")


def show_page() -> None:
    """Draw the scenes, and the visitor's race where there is one."""
    state = open_state()
    passage, live = None, None
    if state is not None:
        session.wait_briefly(state)
        passage = None if state.is_busy else state.shown_result  # while a run is under way, what is on screen stays
        live = {"busy": state.describe_progress() if state.is_busy else None, "notices": state.notices, "asked": state.asked}
    data = build_front_payload(passage, state is None or not state.has_own_result, live=live)
    _component.draw("front-scenes", data, ask=take_event)
    if state is not None:
        session.show_progress(STATE, bar=False)


def open_state() -> FrontState | None:
    """This session's state; None where there is no recorded race."""
    if STATE not in st.session_state:
        made = open_race()
        if made is not None:
            made.visitor = session.get_visitor()
        st.session_state[STATE] = made
    state: FrontState | None = st.session_state[STATE]
    if state is not None:
        state.begin_script_run()
    return state


def take_event(event: Any) -> None:
    """Handle an event before the page runs, so that one run draws the page with its result."""
    state = open_state()
    if state is not None:
        state.handle_event(event)
