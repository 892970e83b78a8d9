"""Around the rule: what does exactness not cover?"""

import streamlit as st

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.exactness.session import current, keep_link
from specviz.web.serving_limits import view
from specviz.web.serving_limits.state import Ask, Surroundings

through_app()
warmup.start()
surroundings, turn = current("around", Surroundings, Ask.of_link)
view.head()
ask, problems = view.fields(surroundings, turn)
if surroundings.choose(ask):
    st.session_state["around-moved"] = True
view.notes(problems, "fields")
keep_link(surroundings, "around")
view.live()
