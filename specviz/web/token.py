"""The page One token as a Streamlit component: it is given laws and words, and asks nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.figures.token import token_payload
from specviz.figures.token_link import read_state
from specviz.figures.tokencraft import token_css, token_js
from specviz.trace import Trace

_component = st.components.v2.component("specviz_token", css=token_css(), js=token_js())


def token(payload: Mapping[str, Any], state: Mapping[str, Any], notices: Sequence[str] = (), key: str = "token") -> None:
    """Draw two laws that can be dragged.

    payload  figures.token.token_payload
    state    figures.token_link.read_state: where to begin; a page that is drawn already keeps what was dragged
    notices  sentences to show above
    """
    _component(key=key, data={"payload": payload, "state": state, "notices": list(notices)})


def opened(trace: Trace | None, shared: bool) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The payload, where the address says to begin, and a sentence for each of its values that cannot be used."""
    payload = token_payload(trace, shared)
    state, said = read_state(st.query_params.to_dict(), [one["id"] for one in payload["positions"]])
    return payload, state, said
