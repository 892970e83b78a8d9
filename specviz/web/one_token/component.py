"""The page One token as a Streamlit component: it is given distributions and words, and asks nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.figures.common.components import token_css, token_js
from specviz.figures.one_token.link import read_state, write_distribution
from specviz.figures.one_token.token import GRID, token_payload
from specviz.trace import Trace

_component = st.components.v2.component("specviz_token", css=token_css(), js=token_js())


def token(
    payload: Mapping[str, Any], state: Mapping[str, Any], notices: Sequence[str] = (), key: str = "token"
) -> dict[str, Any]:
    """Draw two distributions that can be dragged, and return what stands there: what the page has said, else where it began; and with it
    ``asked``, the number of the question that this answers.

    payload  figures.token.token_payload
    state    figures.token_link.read_state: where to begin; a page that is drawn already keeps what was dragged
    notices  sentences to show above
    """
    data = {"payload": payload, "state": state, "notices": list(notices), "asked": st.session_state.get("token-asked", 0)}
    said = _component(key=key, data=data, on_shown_change=lambda: None).shown
    answered = said.get("asked", 0) if isinstance(said, Mapping) else 0
    return shown(said, state, [one["id"] for one in payload["positions"]]) | {"asked": answered}


def shown(said: Any, state: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What the browser says of its bars, where that can be: nothing in it is trusted. Else ``state``."""
    if not isinstance(said, Mapping):
        return dict(state)
    query = {key: said[key] for key in ("preset", "from") if isinstance(said.get(key), str)}
    try:
        query |= {key: write_distribution(tuple(round(GRID * x) for x in said[key])) for key in ("p", "q") if said.get(key)}
    except (TypeError, ValueError, OverflowError):
        return dict(state)
    found, wrong = read_state(query, known)
    return dict(state) if wrong else found


def opened(trace: Trace | None, shared: bool) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The payload, where the address says to begin, and a sentence for each of its values that cannot be used."""
    payload = token_payload(trace, shared)
    state, said = read_state(st.query_params.to_dict(), [one["id"] for one in payload["positions"]])
    return payload, state, said
