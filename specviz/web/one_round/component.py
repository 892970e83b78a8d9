"""The stage as a Streamlit component: registered once, mounted with a payload, answering with what a person asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.figures.common.components import stage_css, stage_js
from specviz.figures.common.narration import HEADLINE

_component = st.components.v2.component("specviz_stage", css=stage_css(), js=stage_js())


def stage(
    payload: Mapping[str, Any] | None,
    *,
    cursor: Mapping[str, int] | None = None,
    mode: str = "recorded",
    busy: str | None = None,
    notices: Sequence[str] = (),
    key: str = "stage",
) -> dict[str, Any] | None:
    """Show a run, and return what the person asked of the server since the last script run, None when nothing.

    payload  figures.stage.stage_payload(trace); None while there is no run: the headline and Go live stand alone
    cursor   {"round", "motion"}, both from 0: where to stand when the payload's id changes; else the stage stays where it is
    mode     "recorded" or "live"
    busy     a progress line while the pair loads or computes; asking is switched off as long as it shows
    notices  sentences to show above the stage

    The answer is {"kind": "live"}, {"kind": "next", "round": n}, {"kind": "undo"} or {"kind": "random number", "position", "purpose",
    "u"}; each also has "at", the cursor at that moment, to be handed back with the new payload.
    """
    data = {
        "payload": payload,
        "headline": HEADLINE,
        "cursor": dict(cursor or {"round": 0, "motion": 0}),
        "mode": mode,
        "busy": busy,
        "notices": list(notices),
    }
    answer = _component(key=key, data=data, on_ask_change=_noted).ask
    return dict(answer) if answer else None


def _noted() -> None:
    """Streamlit hands out only the triggers that have a callback; the answer itself is read from the result."""
