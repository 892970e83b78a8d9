"""The page Break it on screen: the game; then the list of mistakes, and the samples of the chosen one with the verdict."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.mistakes.comparison import DistanceCurve, TextPair
from specviz.evidence.mistakes.published import REPORTED
from specviz.web.common import elements, export_fold, session
from specviz.web.common.component import Component
from specviz.web.common.controls import Form, read_fields
from specviz.web.common.elements import open_screen, show_figure, show_notes
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.side_by_side.payload import TEXTS as HISTOGRAM
from specviz.web.common.side_by_side.payload import build_histogram, build_result_frames
from specviz.web.common.side_by_side.words import RULE, build_verify_command, describe_origin
from specviz.web.mistakes import export, figures, words, work
from specviz.web.mistakes.game import build_game_payload, build_game_texts, describe_record
from specviz.web.mistakes.state import FIRST, HIDDEN, MistakeQuestion, MistakeState

LIST, SAMPLES, GAME = "mistakes-list", "mistakes-samples", "mistakes-game"
_component = Component("mistakes")
_game = Component("mistakes/game")


@end_with_row("mistakes")
def show_page() -> None:
    """Draw the page Break it."""
    state = session.open_state("mistakes", session.make_opener(MistakeState, MistakeQuestion))
    show_page_head("mistakes", words.TEXTS["game"]["lede"] if state.question.is_hidden else words.TEXTS["lede"])
    question, problems = show_fields(state)
    state.choose(question)
    state.prepare(work.prepare_session)
    session.sync_address(state)
    export_fold.show_export_fold("mistakes", lambda: export.build_offer(state))
    if state.question.is_hidden:
        with open_screen("mistakes", "game"):
            show_notes([*problems, *state.notices], "mistakes-notes-fields")
            show_game(state)
        return
    show_list(state)
    with open_screen("mistakes", "samples"):
        show_notes(problems, "mistakes-notes-fields")
        show_samples(state)
    if state.shown_result.arms is None:
        return
    said = escape_markdown(  # it holds what a visitor typed
        " ".join(filter(None, (words.describe_run(state), words.describe_undrawn(state), *describe_origin(state)))), ALL_SIGNS
    )
    st.container(key="mistakes-conditions").caption(f"{words.describe_reports(state.question.mistake)} {said}".strip())
    if pair := words.choose_texts(state):
        with open_screen("mistakes", "texts"):
            show_texts(state, pair)
    _show_distance_fold(state)
    _show_numbers_fold(state)


def show_fields(state: MistakeState) -> tuple[MistakeQuestion, list[str]]:
    """Text and seed, folded: the question they ask, and sentences where one cannot be used. The game has a seed alone."""
    question = state.question
    form = Form("mistakes", state.turn, {"prompt": question.settings.prompt, "seed": str(question.settings.seed)})
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        if not question.is_hidden:
            form.show_prompt(st)
        form.show_text(st, "seed", "Seed")
        st.caption(words.TEXTS["game"]["share_game"] if question.is_hidden else words.TEXTS["share"])
    settings, problems = read_fields(form.raw, question.settings)
    try:
        question = question if problems else MistakeQuestion(settings, question.mistake_id)
    except SettingsError as error:
        problems = [explain_error(error)]
    show_notes(problems, place=top)
    return question, problems


def show_list(state: MistakeState) -> None:
    """The mistakes as rows; a click on one chooses it."""
    game = {"id": HIDDEN, "title": words.TEXTS["groups"]["play"], "about": words.TEXTS["groups"]["play_about"]}
    data = {"view": "list", "within": True, "game": game, "groups": words.build_groups(), "texts": words.build_list_texts()}
    _component.draw(LIST, data | {"chosen": state.question.mistake_id, "opened": state.is_list_open}, chosen=_choose_mistake)


def _choose_mistake(name: Any) -> None:
    """What the list or the game reported; an empty name opens the list. A message may hold anything."""
    state: MistakeState = st.session_state["mistakes"]
    if isinstance(name, str) and name in ("", HIDDEN, *REPORTED):
        state.begin_script_run()
        state.is_list_open, name = not name, name or FIRST
        state.choose(MistakeQuestion(state.question.settings, name))


def show_game(state: MistakeState) -> None:
    """The game of the seed."""
    payload = build_game_payload(state.question.settings.seed)
    if payload is None:
        st.caption(words.TEXTS["no_game"])
        return
    data = {"within": True, "payload": payload, "texts": build_game_texts()}
    _game.draw(GAME, data, chosen=_choose_mistake, again=_play_again)
    st.container(key="mistakes-conditions").caption(describe_record())


def _play_again(_: Any) -> None:
    """Another game, by another seed, in fields of its own."""
    state: MistakeState = st.session_state["mistakes"]
    state.begin_script_run()
    settings = replace(state.question.settings, seed=secrets.randbelow(1_000_000))
    state.choose(replace(state.question, settings=settings))
    state.turn += 1


def show_samples(state: MistakeState) -> None:
    """What goes wrong, the button that draws more, and the samples of the wrong decoder with the verdict."""
    question = state.question
    st.container(key="mistakes-about").markdown(words.describe_question(question))
    if state.shown_result.arms is None:
        session.show_progress("mistakes")
        show_notes(state.notices, "mistakes-notes-live")
        st.container(key="mistakes-empty").caption("The bars appear here as soon as the models are loaded.")
        return
    _show_buttons(state)
    payload = build_histogram(
        build_result_frames(state.shown_result, few=True),
        words.build_mistake_heading(question),
        words.build_verdict(state),
        texts=HISTOGRAM | {"answerFirst": "top"},
        is_live=state.has_own_result,
    )
    _component.draw(SAMPLES, {"view": "samples", "within": True, "payload": payload})
    show_notes(state.notices, "mistakes-notes-live")
    show_notes(state.shown_result.notes, "mistakes-notes-distribution")


def _show_buttons(state: MistakeState) -> None:
    """Draw more, and the way to the recorded samples and back."""
    n, coming, recorded = state.shown_result.n, state.next_test, state.load_recorded()
    is_detectable = state.question.mistake.can_be_sampled
    with st.container(horizontal=True, vertical_alignment="center", key="mistakes-buttons"):
        session.show_progress("mistakes")
        label = "All samples drawn"
        if coming:
            label = f"Draw {coming - n:,} more" if n else "Draw until it is detected" if is_detectable else f"Draw {coming:,}"
        draw = work.draw_until_detected if is_detectable and not n else work.draw_to_next_test
        session.show_work_button(st, state, label, "mistakes-draw", draw, disabled=not coming, type="primary")
        if state.result.n and recorded:
            label = f"Back to the {recorded.result.n:,} recorded" if state.has_own_result else f"Back to your {state.result.n:,}"
            st.button(label, key="mistakes-recorded", on_click=state.toggle_recorded, disabled=state.is_busy)


def show_texts(state: MistakeState, pair: TextPair) -> None:
    """Two texts from the same random numbers. Where they differ, the visitor guesses before their decoders are named."""
    question = state.question
    st.markdown(words.build_texts_title(state))
    is_told = state.guess is not None or pair.first[0] == pair.first[1]
    st.html(words.build_texts_html(question, pair, is_told))
    if state.guess is not None:
        st.container(key="mistakes-said-texts").markdown(words.judge_guess(question, state.guess))
    elif not is_told:
        with st.container(horizontal=True, key="mistakes-guess"):
            for place, letter in enumerate(words.LETTERS):
                label = words.TEXTS["texts"]["guess"].format(name=letter)
                st.button(label, key=f"mistakes-guess-{letter}", on_click=state.guess_wrong_text, args=(place,))


def _show_distance_fold(state: MistakeState) -> None:
    """The distance over the samples, and what both decoders accept."""
    result, kind = state.shown_result, session.get_theme()
    with st.expander("Distance from the exact distribution, and speed", key="mistakes-distance", on_change="rerun") as fold:
        if not fold.open:
            return
        curve: DistanceCurve = result.mark_curve(1)
        left, right = st.columns([3, 2], gap="large")
        with left, open_screen("mistakes", "curve"):
            show_figure(figures.plot_distances(curve, kind), "mistakes", "curve", curve.conclusion, sentence=False)
            st.container(key="mistakes-said-curve").markdown(words.describe_curve(curve, state))
        with right, open_screen("mistakes", "speed"):
            one, other = result.speeds
            alt = f"{one.name} accepts {one.acceptance_rate:.1%} of its draft tokens, {other.name} {other.acceptance_rate:.1%}."
            figure = draw_cached(figures.plot_acceptance, result.speeds, 1, kind)
            show_figure(figure, "mistakes", "speed", alt, sentence=False)
            st.container(key="mistakes-said-speed").markdown(words.describe_acceptance(state))


def _show_numbers_fold(state: MistakeState) -> None:
    """The tables behind the pictures, the tests, and the command."""
    result, question = state.shown_result, state.question
    with st.expander("Numbers, tests and the command", key="mistakes-numbers", on_change="rerun") as fold:
        if not fold.open:
            return
        speeds = [
            {"decoder": one.name, "texts": one.texts, "draft tokens checked": one.checked, "accepted": one.accepted, "tokens": one.tokens,
             "target passes": one.passes}
            for one in result.speeds
        ]  # fmt: skip
        tables = [
            ("Distance", result.mark_curve(1).table),
            ("Acceptance", speeds),
            *((arm.name, arm.table) for arm in result.arms),
        ]
        for name, rows in tables:
            st.caption(name)
            elements.show_dataframe(rows, placeholder="")
        st.markdown(
            f"{words.explain_verdict(state)} {RULE} The distance is the total variation distance on {len(result.arms[0].probs)} cells. "
            f"{words.describe_enumeration(question.mistake, result.toy)}"
        )
        if result.looks:
            elements.show_dataframe(words.build_tests_table(state))
        st.markdown(words.TEXTS["command"])
        st.code(build_verify_command(question.settings, question.mistake_id), language=None, wrap_lines=True)
