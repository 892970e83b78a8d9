"""'A click counts': also one that comes at the moment at which a page runs itself again."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def page(again: str) -> None:
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

    from specviz.web.common import session

    if "clicked" not in st.session_state:
        st.session_state.clicked = True
        get_script_run_ctx().script_requests.request_rerun(RerunData(query_string="to=another"))  # as the server does at a click
        {"streamlit": st.rerun, "page": session.rerun}[again]()
    st.text(st.query_params.get("to", "lost"))


@pytest.mark.parametrize("again, to", [("streamlit", "lost"), ("page", "another")])
def test_a_page_that_runs_itself_again_does_not_lose_a_click_on_another_address(again, to):
    assert AppTest.from_function(page, kwargs={"again": again}).run().text[0].value == to
