"""The components of Whole text: two lanes, and the places where the models part. They are given payloads and ask nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from specviz.figures.common.components import lanes_css, lanes_js

_component = st.components.v2.component("specviz_lanes", css=lanes_css(), js=lanes_js())


def lanes(payload: Mapping[str, Any]) -> None:
    """Draw both ways. payload: figures.lanes.lanes_payload(passage)."""
    _component(key="whole-lanes", data={"payload": payload})


def forks(payload: Mapping[str, Any]) -> None:
    """Draw where the models part. payload: figures.lanes.forks_payload(passage)."""
    _component(key="whole-forks", data={"payload": payload})
