"""How fast? What speculation gains, and whether it can be known before it is run."""

import streamlit as st

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.exactness.session import current
from specviz.web.speed import view
from specviz.web.speed.state import Ask

through_app()
warmup.start()
forecasts, turn = current("fast", view.visited, Ask.of_link)
view.head()
ask, problems = view.fields(forecasts, turn)
if forecasts.choose(ask):
    st.session_state["fast-moved"] = True
view.notes(problems, "fields")
view.live()
