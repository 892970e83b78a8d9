"""Other proposers: who may guess?"""

import streamlit as st

from specviz.web import lineup_view as view
from specviz.web import warmup
from specviz.web.entry import through_app
from specviz.web.exact_session import current, keep_link
from specviz.web.lineup import Ask, Gallery

through_app()
warmup.start()
gallery, turn = current("lineup", Gallery, Ask.of_link)
view.head()
ask, problems = view.fields(gallery, turn)
if gallery.choose(ask):
    st.session_state["lineup-moved"] = True
view.notes(problems, "fields")
keep_link(gallery, "lineup")
view.live()
