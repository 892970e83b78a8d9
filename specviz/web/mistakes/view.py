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
from specviz.web.common.verdict import RULE, verify_command
from specviz.web.mistakes import export, words, work
from specviz.web.mistakes.state import GUESSES, HIDDEN, Case, Trial

LEDE = "What does a wrong rule look like, and after how many samples is it detected? Most of these mistakes were made in real decoders."


def page() -> None:
    trial = session.current("mistakes", session.by_link(Trial, Case))
    head("mistakes", "Break it", LEDE)
    case, problems = fields(trial)
    trial.choose(case)
    notes(problems, "mistakes-notes-fields")
    trial.prepare(work.prepared)
    session.keep_link(trial)
    download.fold("mistakes", lambda: export.offer(trial))
    if not case.hidden:
        st.container(key="mistakes-about").markdown(words.about(case, trial.result.toy))
    buttons(trial)
    notes(trial.notices, "mistakes-notes-live")
    notes(trial.result.notes, "mistakes-notes-distribution")
    verdict(trial)
    if trial.result.arms is None:
        st.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    if trial.result.pairs:
        st.markdown(words.texts_title(trial))
        st.html(words.texts_html(case, trial.result.pairs))
    curve = trial.result.picture(case, trial.revealed)
    pictures(trial, curve, session.theme())
    folds(trial, curve)


def fields(trial: Trial) -> tuple[Case, list[str]]:
    """Two fields in sight, the seed folded: the case they ask for, and sentences where one cannot be used."""
    case, names = trial.question, [HIDDEN, *MISTAKES]
    form = Form("mistakes", trial.turn, {"prompt": case.settings.prompt, "seed": str(case.settings.seed)})
    which, text = st.columns([4, 6])
    mistake = which.selectbox("Mistake", names, index=names.index(case.mistake), format_func=words.title, **form.key("mistake"))
    form.prompt(text)
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
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


def buttons(trial: Trial) -> None:
    case, n, coming = trial.question, trial.result.n, trial.next_test
    with st.container(horizontal=True, vertical_alignment="center", key="mistakes-buttons"):
        if not case.hidden:
            session.ask(st, trial, "Sample until it is detected", "mistakes-until", work.until_detected, type="primary",
                        disabled=bool(trial.detected) or not coming)  # fmt: skip
        label = f"Sample to {coming:,}" if coming else "All samples drawn"
        session.ask(st, trial, label, "mistakes-next", work.to_next_test, disabled=not coming)
        if case.hidden and trial.revealed:
            st.button("Another hidden one", key="mistakes-another", on_click=another, args=(trial,), disabled=trial.busy)
        st.caption(f"{words.conditions(case)}" + (f" · {n:,} samples of each so far" if n else ""))
    session.watch("mistakes")


def another(trial: Trial) -> None:
    """Another hidden mistake: another seed, in fields of its own."""
    trial.enter()
    trial.choose(replace(trial.question, settings=replace(trial.question.settings, seed=secrets.randbelow(1_000_000))))
    trial.turn += 1


def verdict(trial: Trial) -> None:
    said = words.verdict(trial)
    place = elements.verdict("mistakes", said.mark, said.words, said.seen)
    if trial.revealed:
        return
    with place.container(horizontal=True):
        for guess in GUESSES:
            label = "Neither is wrong" if guess == "neither" else f"{guess} is wrong"
            st.button(label, key=f"mistakes-guess-{guess}", on_click=trial.take_guess, args=(guess,), disabled=not trial.result.n)


def pictures(trial: Trial, curve: figures.Curve, kind: str) -> None:
    result = trial.result
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
    result, case = trial.result, trial.question
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
