"""The notice on a page whose session has expired: the browser slept too long, or the server was restarted.

A browser that reconnects names the session that it had. While the server keeps that session, the page continues as it was. Otherwise the
old content stays on the screen until the visitor does something, which is the first run of a new session; the notice appears then.
"""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.figures.pages import PAGES

SENTENCE = "The server has let go of what this page had. Please compute or upload it again."
_SEEN = "reconnect-seen"


def show_reconnect_notice(path: str) -> None:
    """Show the notice once, in the first run of such a session, on a page that had state. It stays until the visitor closes it."""
    if st.session_state.get(_SEEN):
        return
    st.session_state[_SEEN] = True
    context = get_script_run_ctx()
    had = read_previous_session(st.context.headers.get("Sec-WebSocket-Protocol", ""))
    if had and not PAGES[path].keeps_no_state and context is not None and had != context.session_id:
        st.toast(SENTENCE, duration="infinite")


def read_previous_session(header: str) -> str:
    """Return the session that a browser names as it reconnects, after Streamlit's protocol and a token; empty at the first connection."""
    parts = [part.strip() for part in header.split(",")]
    return parts[2] if len(parts) > 2 else ""
