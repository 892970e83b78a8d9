"""specviz: exact speculative decoding, seen motion by motion. Start with ``streamlit run app.py``.

The frame around the pages. Nothing here or on the way to the first paint imports torch; that happens in one background
thread, once the first page is out.
"""

import streamlit as st

from specviz.web.common import warmup
from specviz.web.common.frame import trim

st.set_page_config(page_title="specviz: one round", page_icon="🎲", layout="wide", initial_sidebar_state="collapsed")
trim()

pages = [
    st.Page("pages/one_round.py", title="One round", url_path="step", default=True),
    st.Page("pages/one_token.py", title="One token", url_path="token"),
    st.Page("pages/whole_text.py", title="Whole text", url_path="whole"),
    st.Page("pages/exactness.py", title="Is it exact?", url_path="exact"),
    st.Page("pages/mistakes.py", title="Break it", url_path="broken"),
    st.Page("pages/serving_limits.py", title="Around the rule", url_path="around"),
    st.Page("pages/speed.py", title="How fast?", url_path="fast"),
    st.Page("pages/drafting_methods.py", title="Other proposers", url_path="proposers"),
]
st.navigation(pages, position="top").run()
warmup.start()
