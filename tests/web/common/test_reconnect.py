"""A browser that connects again names the session that it had; only where that is gone the page says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import streamlit as st

from specviz.web.common import frame
from specviz.web.common.frame import SESSION_GONE, read_previous_session, show_reconnect_notice


@pytest.mark.parametrize(
    ("header", "before"),
    [("", ""), ("streamlit", ""), ("streamlit, token", ""), ("streamlit, 2|a|b|1, abc", "abc"), ("streamlit,,abc", "abc")],
)
def test_the_session_before_is_the_third_word(header, before):
    assert read_previous_session(header) == before


@pytest.mark.parametrize(
    ("header", "page", "says"),
    [
        ("streamlit", "speed", []),
        ("streamlit, t, mine", "speed", []),
        ("streamlit, t, other", "speed", [SESSION_GONE]),
        ("streamlit, t, other", "classroom", []),  # a room is in its store, and nothing is gone
    ],
)
def test_a_page_says_once_that_what_it_held_is_gone(monkeypatch, header, page, says):
    said = []
    monkeypatch.setattr(frame, "get_script_run_ctx", lambda: SimpleNamespace(session_id="mine"))
    monkeypatch.setattr(st, "session_state", {})
    monkeypatch.setattr(st, "context", SimpleNamespace(headers={"Sec-WebSocket-Protocol": header}))
    monkeypatch.setattr(st, "toast", lambda sentence, duration: said.append(sentence))
    for _ in range(3):
        show_reconnect_notice(page)
    assert said == says
