"""One round: what happens between a guess and a token?"""

import streamlit as st

from specviz.web import cache, controls
from specviz.web.entry import through_app
from specviz.web.session import current, keep_link
from specviz.web.stage import stage
from specviz.web.trace_export import a_round

through_app()
visit = current(cache.recording())
controls.fold(visit)
if visit.trace is None:
    for sentence in visit.notices:
        st.text(sentence)
event = stage(visit.payload, cursor=visit.cursor, mode=visit.mode, busy=visit.busy, notices=visit.notices, key="stage")
visit.hear(event)
a_round(visit)
asked = bool(event or visit.job)
if visit.job:
    cache.work_on(visit)
keep_link(visit)
if asked:
    st.rerun()  # the stage above still shows what was there before
