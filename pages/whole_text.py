"""Whole text: what did the big model really decide?"""

import streamlit as st

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.exactness.session import current, keep_link
from specviz.web.whole_text import view
from specviz.web.whole_text.state import Ask, Writing

through_app()
warmup.start()
writing, turn = current("whole", Writing, Ask.of_link)
view.head()
ask, problems, pressed = view.fields(writing, turn)
if writing.choose(ask):
    st.session_state["whole-moved"] = True
if pressed and not problems:
    writing.ask()
    st.rerun()  # the button above does not know yet that there is work
view.notes(problems, "fields")
keep_link(writing, "whole")
view.live()
