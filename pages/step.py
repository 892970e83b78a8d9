"""One round: what happens between a guess and a token?"""

import streamlit as st

from specviz.web import cache, controls
from specviz.web.session import current, keep_link
from specviz.web.stage import stage

visit = current(cache.recording())
controls.fold(visit)
if visit.trace is None:
    for sentence in visit.notices:
        st.text(sentence)
event = stage(visit.payload, cursor=visit.cursor, mode=visit.mode, busy=visit.busy, notices=visit.notices, key="stage")
visit.hear(event)
keep_link(visit)
if visit.job:
    cache.work_on(visit)
    keep_link(visit)
if visit.job or event:
    st.rerun()
