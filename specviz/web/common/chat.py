"""A field for chat messages, where the pair in force has a chat template: the templated text becomes the prompt, and is shown as that."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.web.common.elements import show_notes
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.page_state import PageState
from specviz.web.hosting import cache
from specviz.web.hosting.limits import check_text

ABOUT = "Written with the model’s own chat template, into the field above. The model reads exactly this text."
HELP = "One message, or several, each beginning at a line with system:, user: or assistant:. The last one is the user’s."


def show_chat_field(state: PageState) -> None:
    """Nothing before the pair is loaded, and for a pair without a template."""
    tokenizer = cache.find_tokenizer(state.pair)
    if tokenizer is None:
        return
    from specviz.models.pairs.chat import apply_template, find_template, parse_messages

    if not (template := find_template(tokenizer)):
        return
    name = state.page
    chat = st.text_area("Or chat messages", key=f"{name}-chat-{state.turn}", height=96, help=HELP, persist_state="session")
    if st.button("Write it as a prompt", key=f"{name}-chat-go", disabled=not (chat or "").strip()) and not state.is_overtaken:
        try:
            state.fill_prompt(check_text("prompt", apply_template(tokenizer, parse_messages(chat))))
        except SpecvizError as error:
            show_notes([explain_error(error)], f"{name}-notes-chat")
            return
        st.rerun()
    st.caption(ABOUT)
    with st.expander("The template"):
        st.code(template, language=None, wrap_lines=True)
