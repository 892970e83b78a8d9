"""A field for a chat message, where the pair in force has a chat template: the templated text becomes the prompt, and is shown as that."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.web.common import cache
from specviz.web.common.elements import notes
from specviz.web.common.page import PageState
from specviz.web.hosting.limits import checked_text

ABOUT = "Written with the model’s own chat template, into the field above. What stands there is what the model reads."


def field(state: PageState) -> None:
    """Nothing before the pair is loaded, and for a pair without a template."""
    tokenizer = cache.tokenizer(state.pair)
    if tokenizer is None or not tokenizer.chat_template:
        return
    name = state.page
    message = st.text_area("Or a chat message", key=f"{name}-chat-{state.turn}", height=68, persist_state="session")
    system = st.text_input("System message", placeholder="none", key=f"{name}-chat-system-{state.turn}", persist_state="session")
    if st.button("Write it as a prompt", key=f"{name}-chat-go", disabled=not (message or "").strip()) and not state.overtaken:
        from specviz.models.pairs.chat import templated

        messages = [{"role": "system", "content": system}] if (system or "").strip() else []
        try:
            state.fill(checked_text("prompt", templated(tokenizer, [*messages, {"role": "user", "content": message}])))
        except SpecvizError as error:
            notes([str(error)], f"{name}-notes-chat")
            return
        st.rerun()
    st.caption(ABOUT)
