"""One token: why is the result exactly p?"""

import streamlit as st

from specviz.web.common import cache
from specviz.web.common.entry import through_app
from specviz.web.one_round.export import a_token
from specviz.web.one_token.component import opened, token

through_app()
st.set_page_config(page_title="specviz: one token")
visit = st.session_state.get("visit")
recorded = cache.recording()
trace = recorded if visit is None or visit.trace is None else visit.trace
payload, state, notices = opened(trace, shared=trace is recorded)
a_token(trace, payload, token(payload, state, notices))
