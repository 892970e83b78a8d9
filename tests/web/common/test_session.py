"""A page that waits is asked again by a clock. A clock of an earlier run, or of another page, must not reach the fragment of a later one."""

from __future__ import annotations

from streamlit.runtime import fragment
from streamlit.testing.v1 import AppTest


def show_waiting_page() -> None:
    """A page whose work waits without end."""
    import time

    import streamlit as st

    from specviz.jobs.queue import FairQueue
    from specviz.web.common import session
    from specviz.web.common.page_state import PageState

    if "page" not in st.session_state:
        st.session_state.page = PageState(None, FairQueue())
        st.session_state.page.submit(lambda state, ticket: [(ticket.tick(0.0), time.sleep(0.01)) for _ in range(6000)])
    session.show_progress("page")


def test_no_two_runs_have_a_fragment_of_one_name(monkeypatch):
    names, named = [], fragment._make_fragment_identity

    def record_name(*given, **more):
        names.append(found := named(*given, **more))
        return found

    monkeypatch.setattr(fragment, "_make_fragment_identity", record_name)
    page = AppTest.from_function(show_waiting_page).run()
    for _ in range(3):
        page.run()
    page.session_state.page.stop()
    ids = [one.fragment_id for one in names]
    assert len(ids) == 4 and len(set(ids)) == 4
