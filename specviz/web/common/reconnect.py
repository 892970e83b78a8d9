"""A page that comes back too late: its browser slept, or its server is another one. Its address is all that it still has, and it says so.

A browser whose socket was cut names, as it connects again, the session that it had. Within the time that the server keeps one it gets
it back as it was. Otherwise what it shows stays on the screen until the visitor does something: that is the first run of the new session.
"""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

SENTENCE = "The server has let go of what this page had. Please compute or upload it again."
_SEEN = "comeback-seen"
_HOLDS_NOTHING = ("one_token", "questions", "classroom")  # pages whose state is in the browser or in a room's store


def show_reconnect_notice(path: str) -> None:
    """Say the sentence once, in the first run of such a session, on a page that had something. It stays until the visitor closes it."""
    if st.session_state.get(_SEEN):
        return
    st.session_state[_SEEN] = True
    context = get_script_run_ctx()
    had = read_previous_session(st.context.headers.get("Sec-WebSocket-Protocol", ""))
    if had and path not in _HOLDS_NOTHING and context is not None and had != context.session_id:
        st.toast(SENTENCE, duration="infinite")


def read_previous_session(header: str) -> str:
    """The session that a browser names as it connects again: Streamlit's protocol, a token, and the session; empty at the first time."""
    parts = [part.strip() for part in header.split(",")]
    return parts[2] if len(parts) > 2 else ""
