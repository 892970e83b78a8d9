"""The page Break it on screen: which mistake, the two texts, and pictures that separate while samples come in."""

from __future__ import annotations

import secrets
from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.mistakes import comparison
from specviz.web.common import elements, export_fold, session
from specviz.web.common.controls import Form, read_fields
from specviz.web.common.elements import open_screen, show_figure, show_notes, show_tables
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.side_by_side.words import RULE, build_verify_command, describe_origin
from specviz.web.mistakes import export, figures, words, work
from specviz.web.mistakes.state import GUESSES, HIDDEN, MistakeQuestion, MistakeState

ANSWERS = {"A": "Decoder A", "B": "Decoder B", "neither": "Neither"}


@end_with_row("mistakes")
def show_page() -> None:
    """Draw the page Break it."""
    state = session.open_state("mistakes", session.make_opener(MistakeState, MistakeQuestion))
    show_page_head("mistakes", words.TEXTS["lede"])
    with open_screen("mistakes", "game"):
        place, chooser = st.columns([8, 5], gap="large", vertical_alignment="bottom")
        with chooser:
            question, problems = show_fields(state)
        left, right = st.columns([8, 5], gap="large")
    state.choose(question)
    with place:
        show_notes(problems, "mistakes-notes-fields")
    state.prepare(work.prepare_session)
    session.sync_address(state)
    export_fold.show_export_fold("mistakes", lambda: export.build_offer(state))
    with place:
        _show_buttons(state)
        show_notes(state.notices, "mistakes-notes-live")
    with right:
        if not question.is_hidden:
            st.container(key="mistakes-about").markdown(words.describe_question(question))
        said = words.build_verdict(state)
        elements.show_verdict("mistakes", said.mark, said.words, said.details)
        show_notes(state.shown_result.notes, "mistakes-notes-distribution")
        show_notes(describe_origin(state), "mistakes-notes-from")
    if state.shown_result.arms is None:
        left.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    drawn_curve = state.shown_result.mark_curve(question.wrong_index if state.is_revealed else None)
    with left:
        show_distance(state, drawn_curve, session.get_theme())
    if state.shown_result.pairs:
        with open_screen("mistakes", "texts"):
            st.markdown(words.build_texts_title(state))
            st.html(words.build_texts_html(question, state.shown_result.pairs))
    _show_pictures(state, drawn_curve, session.get_theme())
    st.container(key="mistakes-conditions").caption(
        escape_markdown(words.describe_run(state), ALL_SIGNS)
    )  # it holds what a visitor typed
    _show_folds(state, drawn_curve)


def show_fields(state: MistakeState) -> tuple[MistakeQuestion, list[str]]:
    """The mistake in sight, text and seed folded: the case they ask for, and sentences where one cannot be used."""
    question, names = state.question, [HIDDEN, *words.order_mistakes()]
    form = Form("mistakes", state.turn, {"prompt": question.settings.prompt, "seed": str(question.settings.seed)})
    mistake = st.container(key="mistakes-which").selectbox(
        "Mistake", names, index=names.index(question.mistake_id), format_func=words.title_mistake, **form.build_key("mistake")
    )
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        form.show_prompt(st)
        form.show_text(st, "seed", "Seed")
        st.caption(words.TEXTS["share"])
    settings, problems = read_fields(form.raw, question.settings)
    try:
        question = question if problems else MistakeQuestion(settings, mistake)
    except SettingsError as error:
        problems = [explain_error(error)]
    show_notes(problems, place=top)
    return question, problems


def _show_buttons(state: MistakeState) -> None:
    """What to do next: draw, answer in the game, or begin it."""
    question, n, coming = state.question, state.shown_result.n, state.next_test
    can_be_sampled = question.mistake is None or question.mistake.can_be_sampled
    is_playing = question.is_hidden and not state.is_revealed
    with st.container(horizontal=True, vertical_alignment="bottom", key="mistakes-buttons"):
        if is_playing and n:
            st.segmented_control(
                "Which one is wrong?",
                GUESSES,
                format_func=ANSWERS.__getitem__,
                key=f"mistakes-guess-{state.turn}",
                on_change=_take_answer,
                args=(state,),
                width="content",
            )
        if question.is_hidden or not can_be_sampled or state.first_rejection:
            more = (
                f"Draw {coming - n:,} {'more ' * bool(n)}of each{'' if question.is_hidden or can_be_sampled else ', anyway'}"
                if coming
                else ""
            )
            label = more or "All samples drawn"
            kind = "primary" if is_playing else "secondary"
            session.show_work_button(st, state, label, "mistakes-next", work.draw_to_next_test, disabled=not coming, type=kind)
        else:
            session.show_work_button(
                st,
                state,
                "Sample until it is detected",
                "mistakes-until",
                work.draw_until_detected,
                disabled=not coming,
                type="primary",
            )
        if not is_playing:
            label = "Play again" if question.is_hidden else "Find the wrong decoder"
            st.button(
                label,
                key="mistakes-another" if question.is_hidden else "mistakes-hide",
                on_click=start_new_quiz,
                args=(state,),
                disabled=state.is_busy,
                type="primary" if question.is_hidden else "secondary",
            )
    session.show_progress("mistakes")


def _take_answer(state: MistakeState) -> None:
    state.record_guess(st.session_state.get(f"mistakes-guess-{state.turn}"))


def start_new_quiz(state: MistakeState) -> None:
    """A hidden mistake under another seed, in fields of its own."""
    state.begin_script_run()
    settings = replace(state.question.settings, seed=secrets.randbelow(1_000_000))
    state.choose(replace(state.question, settings=settings, mistake_id=HIDDEN))
    state.turn += 1


def show_distance(state: MistakeState, curve: comparison.DistanceCurve, kind: str) -> None:
    """The picture that tells a wrong rule from a right one."""
    st.markdown("**How far from the exact distribution?**")
    show_figure(figures.plot_distances(curve, kind), "mistakes", "curve", curve.conclusion, sentence=False)
    said = words.describe_curve(curve, state)
    st.container(key="mistakes-said-curve").markdown(said)


def _show_pictures(state: MistakeState, curve: comparison.DistanceCurve, kind: str) -> None:
    result = state.shown_result
    left, right = st.columns([3, 2], gap="large")
    if result.n and curve.wrong is not None:
        wrong = result.arms[curve.wrong]
        with left, open_screen("mistakes", "cells"):
            st.markdown("**Where do the wrong rule’s samples go?**")
            show_figure(figures.plot_wrong_cells(wrong, kind), "mistakes", "cells", wrong.conclusion, sentence=False)
            st.container(key="mistakes-said-cells").markdown(words.describe_cells(state))
    with right if result.n and curve.wrong is not None else left, open_screen("mistakes", "speed"):
        st.markdown("**How fast?**")
        one, other = result.speeds
        alt = f"{one.name} accepts {one.acceptance_rate:.1%} of its draft tokens, {other.name} {other.acceptance_rate:.1%}."
        show_figure(
            draw_cached(figures.plot_acceptance, result.speeds, curve.wrong, kind), "mistakes", "speed", alt, sentence=False
        )
        st.container(key="mistakes-said-speed").markdown(words.describe_acceptance(state))


def _show_folds(state: MistakeState, curve: comparison.DistanceCurve) -> None:
    result, question = state.shown_result, state.question
    speeds = [
        {"decoder": one.name, "texts": one.texts, "draft tokens checked": one.checked, "accepted": one.accepted, "tokens": one.tokens,
         "target passes": one.passes}
        for one in result.speeds
    ]  # fmt: skip
    show_tables("The numbers behind the pictures", curve.table, speeds, *((arm.name, arm.table) for arm in result.arms))
    with st.expander("When this page tests, and what each test found"):
        st.markdown(
            f"{RULE} The distance is the total variation distance on {len(result.arms[0].probs)} cells. {words.describe_enumeration(question.mistake, result.toy)}"
        )
        if result.looks and state.is_revealed:
            elements.show_dataframe(words.build_tests_table(state))
        if not question.is_hidden:
            st.markdown(words.TEXTS["command"])
            st.code(build_verify_command(question.settings, question.mistake_id), language=None, wrap_lines=True)
