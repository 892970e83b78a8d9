"""Around the rule: what does exactness not cover?"""

import streamlit as st

from specviz.web import around_view as view
from specviz.web import warmup
from specviz.web.around import Ask, Surroundings
from specviz.web.entry import through_app
from specviz.web.exact_session import current, keep_link

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
