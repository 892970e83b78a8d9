"""The page Why it is exact on screen: a component that is given distributions and words, and asks nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.figures.common.components import component
from specviz.figures.one_token.link import read_state
from specviz.figures.one_token.token import token_payload
from specviz.web.common import cache, download, terms
from specviz.web.common.access import unknown_keys
from specviz.web.one_round import export
from specviz.web.one_token.state import shown

_component = st.components.v2.component("specviz_token", **component("token"))


def page() -> None:
    run, recorded = st.session_state.get("step"), cache.recording()
    trace = recorded if run is None or run.shown.trace is None else run.shown.trace
    payload = token_payload(trace, trace is recorded)
    query = st.query_params.to_dict()
    start, left_out = read_state(query, [one["id"] for one in payload["positions"]])
    state = token(payload, start, [*left_out, *unknown_keys(query)])
    terms.row("token")
    download.fold(
        "token",
        lambda: export.token_offer(trace, payload, state),
        on_open=asked,
        known=state["asked"] == st.session_state.get("token-asked", 0),
    )


def token(payload: Mapping[str, Any], state: Mapping[str, Any], notices: Sequence[str]) -> dict[str, Any]:
    """Draw two distributions that can be dragged, and return what stands there: what the page has said, else where it began; and with
    it ``asked``, the number of the question that this answers.

    payload  figures.one_token.token.token_payload
    state    figures.one_token.link.read_state: where to begin; a page that is drawn already keeps what was dragged
    notices  sentences to show above
    """
    data = {"payload": payload, "state": state, "notices": notices, "asked": st.session_state.get("token-asked", 0)}
    said = _component(key="token", data=data, on_shown_change=lambda: None).shown
    answered = said.get("asked", 0) if isinstance(said, Mapping) else 0
    return shown(said, state, [one["id"] for one in payload["positions"]]) | {"asked": answered}


def asked() -> None:
    """The fold was opened: the page is to say what stands on it."""
    st.session_state["token-asked"] = st.session_state.get("token-asked", 0) + 1
