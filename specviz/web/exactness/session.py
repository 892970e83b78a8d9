"""Where an examination meets Streamlit: one per session, and the address that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.settings import Settings
from specviz.web.common import cache
from specviz.web.common.queued import Queued
from specviz.web.exactness.state import Exam, Question
from specviz.web.one_round.session import _asked, _went_back


def current(name: str = "exact", make: type[Queued] = Exam, read: Callable = Question.of_link) -> tuple[Any, int]:
    """This session's examination, and how many the fields have been made anew for: a link, and Back or Forward, fill them.

    name  under which the session keeps it: one for each page; read  (query, base) -> question and sentences
    """
    exam, turn = st.session_state.get(name), st.session_state.get(f"{name}-turn", -1)
    if exam is not None and not (_went_back() and _asked() != st.session_state.get(f"{name}-address")):
        return exam, turn
    if exam is not None:
        exam.stop()
    question, said = read(st.query_params.to_dict(), base())
    exam = make(question)
    exam.said = said
    st.session_state[f"{name}-address"] = _asked()
    st.session_state[f"{name}-turn"] = turn + 1
    st.session_state[name] = exam
    return exam, turn + 1


def base() -> Settings:
    """What is examined where the address says nothing: the text and settings of the run on the page One round."""
    visit, recording = st.session_state.get("visit"), cache.recording()
    if visit is not None:
        return visit.settings
    return Settings.from_record(recording.settings) if recording else Settings(prompt="Once upon a time")


def replace_exam(exam: Exam, question: Question, name: str = "exact") -> Exam:
    """The same examination, or a new one where the fields ask another question; work for the old one stops."""
    if question == exam.question:
        return exam
    exam.stop()
    fresh = type(exam)(replace(question))
    st.session_state[name] = fresh
    st.session_state[f"{name}-moved"] = True
    return fresh


def keep_link(exam: Queued, name: str = "exact") -> None:
    """Write the address after the question was changed, and when the page is come back to."""
    link = exam.question.link()
    moved = st.session_state.pop(f"{name}-moved", False)
    if (moved or (not _asked() and st.session_state[f"{name}-address"])) and link != _asked():
        st.query_params.from_dict(link)
    st.session_state[f"{name}-address"] = _asked()
