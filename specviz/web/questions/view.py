"""The page Eight questions: a component that gets the questions and reports nothing to the server."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import streamlit as st

from specviz.errors import TraceError
from specviz.web.common import page_head, session
from specviz.web.common.component import Component
from specviz.web.common.elements import show_notes
from specviz.web.common.links import list_host_settings, list_unknown_keys
from specviz.web.common.pairs import describe_recorded_pair
from specviz.web.questions.questions import build_questions_payload, load_recorded_runs

_component = Component("questions")


def show_page() -> None:
    """One question at a time. The address says which; the answers stay in the browser."""
    pair_left_out, query = session.sync_pair_with_address("questions"), st.query_params.to_dict()
    try:
        found = load_payload()
    except TraceError as error:
        show_notes([f"The questions are about recorded runs that come with the project. {error}"], "questions-notes-damaged")
        return
    other = describe_recorded_pair(found["pair"], session.get_pair())
    notices = [*pair_left_out, *([other] if other else []), *list_host_settings(query, pair_left_out), *list_unknown_keys(query)]
    _component.draw("questions", {"payload": found, "question": query.get("question"), "ending": "", "notices": notices})
    page_head.show_head_row("questions")


@lru_cache(maxsize=1)
def load_payload() -> dict[str, Any]:
    """Payload of the component, the same for every visitor. Raises TraceError where a record is missing or damaged."""
    return build_questions_payload(load_recorded_runs())
