"""The page Break it on screen: which mistake, the two texts, and pictures that separate while samples come in."""

from __future__ import annotations

import secrets
from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.bugs import comparison
from specviz.figures import mistakes as figures
from specviz.web.common import elements, export_fold, session
from specviz.web.common.controls import Form, from_fields
from specviz.web.common.elements import show_figure, show_notes, show_tables
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.page_head import show_page_head
from specviz.web.mistakes import export, words, work
from specviz.web.mistakes.state import GUESSES, HIDDEN, Case, Trial
from specviz.web.sampling.words import RULE, conditions, continued, told, verify_command

ANSWERS = {"A": "Decoder A", "B": "Decoder B", "neither": "Neither"}


def page() -> None:
    trial = session.open_state("mistakes", session.make_opener(Trial, Case))
    show_page_head("mistakes", words.lede())
    first, chooser = st.columns([3, 2], gap="large")
    with chooser:
        case, problems = fields(trial)
    told_first = first.container(key="mistakes-top")
    left, right = st.columns([3, 2], gap="large")
    trial.choose(case)
    with right:
        show_notes(problems, "mistakes-notes-fields")
    trial.prepare(work.prepared)
    session.sync_address(trial)
    export_fold.show_export_fold("mistakes", lambda: export.build_offer(trial))
    with right:
        buttons(trial)
        show_notes(trial.notices, "mistakes-notes-live")
        show_notes(trial.shown.notes, "mistakes-notes-distribution")
        show_notes(told(trial), "mistakes-notes-from")
        quiz(trial)
    with told_first:
        if not case.hidden:
            st.container(key="mistakes-about").markdown(words.about(case))
        said = words.verdict(trial)
        elements.show_verdict("mistakes", said.mark, said.words, said.seen)
    if trial.shown.arms is None:
        left.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    drawn_curve = trial.shown.picture(case.wrong_arm if trial.revealed else None)
    with left:
        distance(trial, drawn_curve, session.get_theme())
    pictures(trial, drawn_curve, session.get_theme())
    if trial.shown.pairs:
        st.markdown(words.texts_title(trial))
        st.html(words.texts_html(case, trial.shown.pairs))
    folds(trial, drawn_curve)


def fields(trial: Trial) -> tuple[Case, list[str]]:
    """The mistake in sight, text and seed folded: the case they ask for, and sentences where one cannot be used."""
    case, names = trial.question, [HIDDEN, *words.ordered()]
    form = Form("mistakes", trial.turn, {"prompt": case.settings.prompt, "seed": str(case.settings.seed)})
    mistake = st.container(key="mistakes-which").selectbox(
        "Mistake", names, index=names.index(case.mistake), format_func=words.title, **form.key("mistake")
    )
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        form.prompt(st)
        form.text(st, "seed", "Seed")
        st.caption(
            "Temperature, cuts, gamma and length are chosen to show the mistake. To share this comparison, copy the address of the page."
        )
    settings, problems = from_fields(form.raw, case.settings)
    try:
        case = case if problems else Case(settings, mistake)
    except SettingsError as error:
        problems = [str(error)]
    show_notes(problems, place=top)
    return case, problems


def quiz(trial: Trial) -> None:
    """The way into the game: a mistake that the visitor is to find."""
    if trial.question.hidden:
        return
    with st.container(key="mistakes-quiz"):
        st.button(
            "Find the wrong decoder", key="mistakes-hide", on_click=another, args=(trial,), disabled=trial.busy, type="primary"
        )
        st.caption("A game: two decoders, and perhaps one of them makes a mistake. Sample both, then say which.")


def buttons(trial: Trial) -> None:
    case, n, coming = trial.question, trial.result.n, trial.next_test
    over = case.hidden and trial.revealed
    with st.container(horizontal=True, vertical_alignment="center", key="mistakes-buttons"):
        if not case.hidden and words.showable(case.known) and not trial.detected:
            session.show_work_button(
                st, trial, "Sample until it is detected", "mistakes-until", work.until_detected, disabled=not coming
            )
        else:
            asked = "Sample anyway, to" if not (case.hidden or words.showable(case.known)) else "Sample to"
            label = f"{asked} {coming:,}" if coming else "All samples drawn"
            kind = "primary" if case.hidden and not over else "secondary"
            session.show_work_button(st, trial, label, "mistakes-next", work.to_next_test, disabled=not coming, type=kind)
        if over:
            st.button("Play again", key="mistakes-another", on_click=another, args=(trial,), disabled=trial.busy, type="primary")
    if case.hidden and not over and n:
        st.segmented_control(
            "Which one is wrong?",
            GUESSES,
            format_func=ANSWERS.get,
            key=f"mistakes-guess-{trial.turn}",
            on_change=answered,
            args=(trial,),
        )
    under = f"{continued(case.settings.prompt)}: {conditions(case.settings)}" + (f" · {n:,} samples of each so far" if n else "")
    other = (
        ""
        if case.hidden
        else ". Each mistake has the settings that show it best, so the pictures differ from those of Is it exact?"
    )
    st.container(key="mistakes-conditions").caption(escape_markdown(under + other, ALL_SIGNS))  # it holds what a visitor typed
    session.show_progress("mistakes")


def answered(trial: Trial) -> None:
    trial.take_guess(st.session_state.get(f"mistakes-guess-{trial.turn}"))


def another(trial: Trial) -> None:
    """A hidden mistake under another seed, in fields of its own."""
    trial.enter()
    settings = replace(trial.question.settings, seed=secrets.randbelow(1_000_000))
    trial.choose(replace(trial.question, settings=settings, mistake=HIDDEN))
    trial.turn += 1


def distance(trial: Trial, curve: comparison.DistanceCurve, kind: str) -> None:
    """The picture that tells a wrong rule from a right one."""
    st.markdown("**How far from the exact distribution?**")
    show_figure(figures.curve(curve, kind), "mistakes", "curve", curve.conclusion, sentence=False)
    said = words.curve_sentence(curve, trial)
    st.container(key="mistakes-said-curve").markdown(said)


def pictures(trial: Trial, curve: comparison.DistanceCurve, kind: str) -> None:
    result = trial.shown
    left, right = st.columns([3, 2], gap="large")
    if result.n and curve.wrong is not None:
        wrong = result.arms[curve.wrong]
        with left:
            st.markdown("**Where do the wrong rule’s samples go?**")
            show_figure(figures.wrong_cells(wrong, kind), "mistakes", "cells", wrong.conclusion, sentence=False)
            st.container(key="mistakes-said-cells").markdown(words.cells_sentence(trial))
    with right if result.n and curve.wrong is not None else left:
        st.markdown("**How fast?**")
        one, other = result.speeds
        alt = f"{one.name} accepts {one.acceptance_rate:.1%} of its draft tokens, {other.name} {other.acceptance_rate:.1%}."
        show_figure(draw_cached(figures.speeds, result.speeds, curve.wrong, kind), "mistakes", "speed", alt, sentence=False)
        st.container(key="mistakes-said-speed").markdown(words.speed_sentence(trial))


def folds(trial: Trial, curve: comparison.DistanceCurve) -> None:
    result, case = trial.shown, trial.question
    speeds = [
        {"decoder": one.name, "texts": one.texts, "draft tokens checked": one.checked, "accepted": one.accepted, "tokens": one.tokens,
         "target passes": one.passes}
        for one in result.speeds
    ]  # fmt: skip
    show_tables("The numbers behind the pictures", curve.table, speeds, *((arm.name, arm.table) for arm in result.arms))
    with st.expander("When this page tests, and what each test found"):
        st.markdown(
            f"{RULE} The distance is the total variation distance on {len(result.arms[0].probs)} cells. {words.enumerated(case, result.toy)}"
        )
        if result.looks and trial.revealed:
            elements.show_dataframe(words.tests_table(trial))
        if not case.hidden:
            st.markdown("The same mistake on the command line, with tests that also look inside the cells:")
            st.code(verify_command(case.settings, case.mistake), language=None, wrap_lines=True)
