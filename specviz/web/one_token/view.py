"""The page Why it is exact on screen: a component that is given distributions and words, and asks nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from specviz.settings import Settings
from specviz.web.common import download, session
from specviz.web.common.component import Component
from specviz.web.common.elements import notes
from specviz.web.common.links import left_to_the_host, unknown_keys
from specviz.web.common.pairs import recorded_with
from specviz.web.jobs import cache
from specviz.web.one_round import export
from specviz.web.one_token.link import read_state
from specviz.web.one_token.state import shown
from specviz.web.one_token.token import token_payload
from specviz.web.pair_picker import panel

ASKED = "one_token-asked"
_component = Component("one_token")


def page() -> None:
    """Two distributions that can be dragged. What was dragged stays in the browser, which says it when an export is made: ``asked`` is
    the number of the question that its answer belongs to."""
    pair_left_out = session.keep_pair("one_token")
    run, recorded = st.session_state.get("one_round"), cache.recording()
    trace = recorded if run is None or run.shown.trace is None else run.shown.trace
    payload, query, question = token_payload(trace, trace is recorded), st.query_params.to_dict(), st.session_state.get(ASKED, 0)
    known = [one["id"] for one in payload["positions"]]
    start, left_out = read_state(query, known)
    data = {
        "payload": payload,
        "state": start,
        "notices": [*left_out, *pair_left_out, *left_to_the_host(query, pair_left_out), *unknown_keys(query)],
        "asked": question,
    }
    said = _component.draw("one_token", data, shown=None)["shown"]
    state = shown(said, start, known)
    if trace is not None and (other := recorded_with(Settings.from_record(trace.settings).pair, session.pair())):
        notes([f"{other} Open One round to run it."], "one_token-notes-from")
    panel.row("one_token")
    download.fold(
        "one_token",
        lambda: export.token_offer(trace, payload, state),
        on_open=ask,
        known=question == (said.get("asked", 0) if isinstance(said, Mapping) else 0),
    )


def ask() -> None:
    """The fold was opened: the page is to say what stands on it."""
    st.session_state[ASKED] = st.session_state.get(ASKED, 0) + 1
