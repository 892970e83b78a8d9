"""Pages that measure a visitor's text, and show a recorded measurement until then: their state, their fields, and the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st

from specviz.export.package import ExportOffer
from specviz.web.common import export_fold, session
from specviz.web.common.controls import Form, read_fields
from specviz.web.common.elements import show_notes
from specviz.web.common.page_state import MeasurementState, Work

State = TypeVar("State", bound=MeasurementState)


def open_state(name: str, kind: type[State], question: Any) -> State:
    """This session's state of a page. When Back opens another address, the visitor's own measurements stay."""
    by_link = session.make_opener(kind, question)

    def make_state(query: dict[str, str], before: State | None) -> State:
        state = by_link(query, before)
        state.results = before.results if before is not None else {}
        return state

    return session.open_state(name, make_state)


def show_question_fields(
    name: str, state: MeasurementState, field: str, label: str, titles: Mapping[str, str], places: tuple[Any, Any] | None = None
) -> tuple[Any, list[str]]:
    """Draw the prompt and one choice. Returns the question, and a sentence if the prompt cannot be used.

    Args:
        name: Of the page.
        state: Of the page.
        field: Of the question, chosen among the keys of ``titles``.
        label: Of the choice.
        titles: Of the values.
        places: Of the prompt and of the choice; None: side by side here.
    """
    question = state.question
    form = Form(name, state.turn, {"prompt": question.settings.prompt})
    text, side = places or st.columns([6, 4])
    form.show_prompt(text)
    chosen = form.show_choice(side, field, label, titles, getattr(question, field))
    settings, problems = read_fields(form.raw, question.settings)
    return replace(question, settings=settings, **{field: chosen}), problems


def show_controls(
    name: str, state: MeasurementState, question: Any, problems: list[str], build_offer: Callable[[Any], ExportOffer],
    label: str, work: Work, about: str, place: Any = None, progress: Any = None,
) -> None:  # fmt: skip
    """Draw what follows the fields: problems, export, the button that measures in ``place``, or here, and its progress there, or in ``progress``."""
    state.choose(question)
    show_notes(problems, f"{name}-notes-fields")
    session.sync_address(state)
    export_fold.show_export_fold(name, lambda: build_offer(state))
    place = st.container() if place is None else place
    with place, st.container(horizontal=True, vertical_alignment="center", key=f"{name}-buttons"):
        session.show_work_button(st, state, label, f"{name}-run", work, state.question, type="primary")
        st.caption(about)
    with place if progress is None else progress:
        session.show_progress(name)
        show_notes(state.failures, f"{name}-notes-failed")  # beside the button that was pressed
    show_notes(state.notes, f"{name}-notes-live")


def describe_missing_runs(state: MeasurementState, runs: int, planned: int) -> str:
    """A sentence if a visitor's numbers come from fewer runs than planned; empty otherwise."""
    if runs >= planned or not (state.has_own_result or state.partial_result):
        return ""
    if state.is_busy:
        return f" So far: {runs} of {planned} runs, and the times still change." if runs else " So far: nothing is timed yet."
    return f" Incomplete: stopped after {runs} of {planned} runs."
