"""One round: what happens between a draft token and a token?"""

import streamlit as st

from specviz.web.common import cache, controls
from specviz.web.common.entry import through_app
from specviz.web.one_round.component import stage
from specviz.web.one_round.export import a_round
from specviz.web.one_round.session import current, keep_link

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
