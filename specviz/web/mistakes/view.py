"""The page Break it on screen: which mistake, the two texts, and pictures that separate while samples come in."""

from __future__ import annotations

import secrets
from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.mutants.mistakes import MISTAKES
from specviz.figures import mistakes as figures
from specviz.web.common import download, elements, session
from specviz.web.common.controls import Form, from_fields
from specviz.web.common.elements import notes, picture, tables
from specviz.web.common.pictures import drawn
from specviz.web.common.title import head
from specviz.web.common.verdict import RULE, told, verify_command
from specviz.web.mistakes import export, words, work
from specviz.web.mistakes.state import GUESSES, HIDDEN, Case, Trial

LEDE = "What does a wrong rule look like, and after how many samples is it detected? Most of these mistakes were made in real decoders."


def page() -> None:
    trial = session.current("mistakes", session.by_link(Trial, Case))
    head("mistakes", "Break it", LEDE)
    quiz(trial)
    case, problems = fields(trial)
    trial.choose(case)
    notes(problems, "mistakes-notes-fields")
    trial.prepare(work.prepared)
    session.keep_link(trial)
    download.fold("mistakes", lambda: export.offer(trial))
    if not case.hidden:
        st.container(key="mistakes-about").markdown(words.about(case, trial.shown.toy))
    buttons(trial)
    notes(trial.notices, "mistakes-notes-live")
    notes(trial.shown.notes, "mistakes-notes-distribution")
    verdict(trial)
    if trial.shown.arms is None:
        st.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    if trial.shown.pairs:
        st.markdown(words.texts_title(trial))
        st.html(words.texts_html(case, trial.shown.pairs))
    curve = trial.shown.picture(case.wrong_arm if trial.revealed else None)
    pictures(trial, curve, session.theme())
    folds(trial, curve)


def fields(trial: Trial) -> tuple[Case, list[str]]:
    """The mistake in sight, text and seed folded: the case they ask for, and sentences where one cannot be used."""
    case, names = trial.question, [HIDDEN, *MISTAKES]
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
    notes(problems, place=top)
    return case, problems


def quiz(trial: Trial) -> None:
    """The way into the game: a mistake that the visitor is to find."""
    if trial.question.hidden:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="mistakes-quiz"):
        st.button(
            "Find the wrong decoder", key="mistakes-hide", on_click=another, args=(trial,), disabled=trial.busy, type="primary"
        )
        st.markdown(
            "Two decoders, and perhaps one of them makes a mistake. Sample both, then say which. Or choose a mistake and watch:"
        )


def buttons(trial: Trial) -> None:
    case, n, coming = trial.question, trial.result.n, trial.next_test
    with st.container(horizontal=True, vertical_alignment="center", key="mistakes-buttons"):
        if not case.hidden and not trial.detected:
            session.ask(st, trial, "Sample until it is detected", "mistakes-until", work.until_detected, disabled=not coming)
        else:
            label = f"Sample to {coming:,}" if coming else "All samples drawn"
            session.ask(
                st,
                trial,
                label,
                "mistakes-next",
                work.to_next_test,
                disabled=not coming,
                type="primary" if case.hidden else "secondary",
            )
        if case.hidden and trial.revealed:
            st.button("Another hidden one", key="mistakes-another", on_click=another, args=(trial,), disabled=trial.busy)
        st.caption(f"{words.conditions(case)}" + (f" · {n:,} samples of each so far" if n else ""))
    session.watch("mistakes")


def another(trial: Trial) -> None:
    """A hidden mistake under another seed, in fields of its own."""
    trial.enter()
    settings = replace(trial.question.settings, seed=secrets.randbelow(1_000_000))
    trial.choose(replace(trial.question, settings=settings, mistake=HIDDEN))
    trial.turn += 1


def verdict(trial: Trial) -> None:
    said = words.verdict(trial)
    place = elements.verdict("mistakes", said.mark, said.words, said.seen)
    notes(told(trial), "mistakes-notes-from")
    if trial.revealed:
        return
    with place.container(horizontal=True):
        for guess in GUESSES:
            label = "Neither is wrong" if guess == "neither" else f"{guess} is wrong"
            st.button(label, key=f"mistakes-guess-{guess}", on_click=trial.take_guess, args=(guess,), disabled=not trial.result.n)


def pictures(trial: Trial, curve: figures.Curve, kind: str) -> None:
    result = trial.shown
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("**How far from the exact distribution?**")
        if result.n:
            picture(figures.curve(curve, kind), "mistakes", "curve", curve.conclusion, sentence=False)
        said = words.curve_sentence(curve, result.same, result.n, trial.question.hidden)
        st.container(key="mistakes-said-curve").markdown(said)
    with right:
        st.markdown("**How fast?**")
        one, other = result.speeds
        alt = f"{one.name} accepts {one.acceptance_rate:.1%} of its draft tokens, {other.name} {other.acceptance_rate:.1%}."
        picture(drawn(figures.speeds, result.speeds, curve.wrong, kind), "mistakes", "speed", alt, sentence=False)
        st.container(key="mistakes-said-speed").markdown(words.speed_sentence(trial))
    if result.n and curve.wrong is not None:
        wrong = result.arms[curve.wrong]
        st.markdown("**Where do the wrong rule’s samples go?**")
        picture(figures.wrong_cells(wrong, kind), "mistakes", "cells", wrong.conclusion, sentence=False)
        st.container(key="mistakes-said-cells").markdown(words.cells_sentence(trial))


def folds(trial: Trial, curve: figures.Curve) -> None:
    result, case = trial.shown, trial.question
    speeds = [
        {"decoder": one.name, "texts": one.texts, "draft tokens checked": one.checked, "accepted": one.accepted, "tokens": one.tokens,
         "target passes": one.passes}
        for one in result.speeds
    ]  # fmt: skip
    tables("The numbers behind the pictures", curve.table, speeds, *((arm.name, arm.table) for arm in result.arms))
    with st.expander("When this page tests"):
        st.markdown(f"{RULE} The distance is computed on {len(result.arms[0].probs)} cells.")
        if not case.hidden:
            st.markdown("The same mistake on the command line, with tests that also look inside the cells:")
            st.code(verify_command(case.settings, case.mistake), language=None, wrap_lines=True)
