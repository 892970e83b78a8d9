"""Where a visitor's run meets Streamlit: one Visit per session, and the address that goes with it."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.trace import Trace
from specviz.web.common import access
from specviz.web.one_round.state import Visit


def current(recording: Trace | None) -> Visit:
    """This session's visit; a new one for a new session, and when Back or Forward has put another address there."""
    known = st.session_state.get("visit")
    if known is not None and not (_went_back() and _asked() != known.address):
        return known
    visit = Visit(recording)
    visit.turn = known.turn + 1 if known else 0
    visit.address = _asked()
    visit.open_link(st.query_params.to_dict(), access.own_pairs_allowed())
    st.session_state["visit"] = visit  # one step: a click may end this script run at any look into the session
    return visit


def keep_link(visit: Visit) -> None:
    """Write the address after something was done; the stage itself keeps the place up to date while it is stepped.

    A click may end the script run before the address is out: then it is still owed, and the next run writes it.
    """
    if not visit.moved:
        return
    link = visit.link()
    if {key: value for key, value in link.items() if key != "at"} != _asked():
        st.query_params.from_dict(link)  # one entry in the browser's history for each run, none for a step
    visit.address, visit.moved = _asked(), False


def _asked() -> dict[str, str]:
    """The address's parameters without the place, which the browser changes by itself."""
    return {key: value for key, value in st.query_params.to_dict().items() if key != "at"}


def _went_back() -> bool:
    """Whether the browser's Back or Forward caused this run. Any other run may carry an address that is a moment old."""
    context = get_script_run_ctx()
    return bool(context and getattr(context, "is_history_navigation", False))
