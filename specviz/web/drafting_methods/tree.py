"""The walked tree as a Streamlit component: it is given a payload, and asks nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from specviz.figures.common.components import tree_css, tree_js

_component = st.components.v2.component("specviz_tree", css=tree_css(), js=tree_js())


def tree(payload: Mapping[str, Any], key: str = "lineup-tree") -> None:
    """Draw one round to be walked. payload: figures.tree.tree_payload(trace)."""
    _component(key=key, data={"payload": payload})
