"""Other proposers: who may draft?"""

import streamlit as st

from specviz.web.common import warmup
from specviz.web.common.entry import through_app
from specviz.web.drafting_methods import view
from specviz.web.drafting_methods.state import Ask, Gallery
from specviz.web.exactness.session import current, keep_link

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
