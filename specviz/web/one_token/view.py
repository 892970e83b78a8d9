"""The page Why it is exact: a component that gets distributions and words."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from specviz.settings import Settings
from specviz.web.common import export_fold, page_head, session
from specviz.web.common.component import Component
from specviz.web.common.elements import show_notes
from specviz.web.common.links import list_host_settings, list_unknown_keys
from specviz.web.common.pairs import describe_recorded_pair
from specviz.web.hosting import cache
from specviz.web.one_token import export
from specviz.web.one_token.payload import build_token_payload
from specviz.web.one_token.state import read_reported_state, read_state

ASKED = "one_token-asked"
_component = Component("one_token")


def show_page() -> None:
    """Draw two distributions that can be dragged. The browser keeps them, and reports them with the number ``asked`` for an export."""
    pair_left_out = session.sync_pair_with_address("one_token")
    run, recorded = st.session_state.get("one_round"), cache.load_recording()
    trace = recorded if run is None or run.run.trace is None else run.run.trace
    payload, query, question = (
        build_token_payload(trace, trace is recorded),
        st.query_params.to_dict(),
        st.session_state.get(ASKED, 0),
    )
    known = [one["id"] for one in payload["positions"]]
    start, left_out = read_state(query, known)
    data = {
        "payload": payload,
        "state": start,
        "notices": [*left_out, *pair_left_out, *list_host_settings(query, pair_left_out), *list_unknown_keys(query)],
        "asked": question,
    }
    said = _component.draw("one_token", data, shown=None)["shown"]
    state = read_reported_state(said, start, known)
    if trace is not None and (other := describe_recorded_pair(Settings.from_record(trace.settings).pair, session.get_pair())):
        show_notes([f"{other} Open One round to run it."], "one_token-notes-from")
    row = page_head.show_head_row("one_token")
    export_fold.show_export_fold(
        "one_token",
        lambda: export.build_offer(trace, payload, state),
        on_open=ask_for_bars,
        is_ready=question == (said.get("asked", 0) if isinstance(said, Mapping) else 0),
        row=row,
    )


def ask_for_bars() -> None:
    """The fold was opened: the page is to say what stands on it."""
    st.session_state[ASKED] = st.session_state.get(ASKED, 0) + 1
