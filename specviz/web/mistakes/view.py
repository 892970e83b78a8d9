"""The page Break it on screen: which mistake, the two texts, and the pictures that part while samples come in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.mutants.mistakes import MISTAKES
from specviz.figures import mistakes as figures
from specviz.web.common import download, session
from specviz.web.common.controls import Form, from_fields
from specviz.web.common.parts import answer, head, notes, picture, tables
from specviz.web.exactness.words import MARKS, RULE
from specviz.web.mistakes import export, words, work
from specviz.web.mistakes.state import GUESSES, HIDDEN, Case, Trial

LEDE = "What does a wrong rule look like, and after how many samples is it detected? Most of these mistakes were made in real decoders."


def page() -> None:
    trial = session.current("broken", opened)
    head("broken", "Break it", LEDE)
    case, problems = fields(trial)
    trial.choose(case)
    notes(problems, "broken-notes-fields")
    trial.prepare(work.prepared)
    session.keep_link(trial)
    download.fold("broken", lambda: export.offer(trial))
    if not case.hidden:
        st.container(key="broken-about").markdown(words.about(case, trial.drawn.toy))
    buttons(trial)
    notes(trial.notices, "broken-notes-live")
    notes(trial.drawn.notes, "broken-notes-law")
    verdict(trial)
    if trial.drawn.arms is None:
        st.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    if trial.drawn.pairings:
        st.markdown(words.texts_title(trial))
        st.html(words.texts_html(case, trial.drawn.pairings))
    pictures(trial, session.theme())
    folds(trial)


def opened(query: Mapping[str, str], before: Trial | None) -> Trial:
    case, left_out = Case.of_link(query, session.base())
    trial = Trial(case)
    trial.said = left_out
    return trial


def fields(trial: Trial) -> tuple[Case, list[str]]:
    """Two fields in sight, the seed folded: the case they ask for, and sentences where one cannot be used."""
    case, names = trial.question, [HIDDEN, *MISTAKES]
    form = Form("broken", trial.turn, {"prompt": case.settings.prompt, "seed": str(case.settings.seed)})
    which, text = st.columns([4, 6])
    mistake = which.selectbox(
        "Mistake",
        names,
        index=names.index(case.mistake),
        format_func=lambda one: words.title(one, MISTAKES),
        **form.key("mistake"),
    )
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
    case, n, coming = trial.question, trial.drawn.n, trial.next_look
    with st.container(horizontal=True, vertical_alignment="center", key="broken-buttons"):
        if not case.hidden:
            session.ask(st, trial, "Sample until it is detected", "broken-until", work.until_caught, type="primary",
                        disabled=trial.caught or not coming)  # fmt: skip
        label = f"Sample to {coming:,}" if coming else "All samples drawn"
        session.ask(st, trial, label, "broken-next", work.to_next_look, disabled=not coming)
        if case.hidden and trial.revealed:
            st.button("Another hidden one", key="broken-another", on_click=another, args=(trial,), disabled=trial.busy)
        st.caption(f"{words.conditions(case)}" + (f" · {n:,} samples of each so far" if n else ""))
    session.watch("broken")


def another(trial: Trial) -> None:
    """A game with another seed, in fields of its own."""
    trial.enter()
    trial.choose(replace(trial.question, settings=replace(trial.question.settings, seed=secrets.randbelow(1_000_000))))
    trial.turn += 1


def verdict(trial: Trial) -> None:
    said = words.verdict(trial)
    with answer("broken", said.mark):
        st.markdown(f"## {MARKS[said.mark]} {said.words}\n{said.seen}")
        if not trial.revealed:
            with st.container(horizontal=True):
                for guess in GUESSES:
                    label = "Neither is wrong" if guess == "neither" else f"{guess} is wrong"
                    st.button(
                        label, key=f"broken-guess-{guess}", on_click=trial.take_guess, args=(guess,), disabled=not trial.drawn.n
                    )


def pictures(trial: Trial, kind: str) -> None:
    drawn, curve = trial.drawn, trial.drawn.picture(trial.question, trial.revealed)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("**How far from the exact distribution?**")
        if drawn.n:
            picture(figures.curve(curve, kind), "broken", "curve", curve.conclusion, sentence=False)
        st.container(key="broken-said-curve").markdown(words.curve_sentence(curve, drawn.same, drawn.n, trial.question.hidden))
    with right:
        st.markdown("**How fast?**")
        one, other = drawn.speeds
        alt = f"{one.name} accepts {one.share:.1%} of its draft tokens, {other.name} {other.share:.1%}."
        picture(figures.speeds(drawn.speeds, curve.wrong, kind), "broken", "speed", alt, sentence=False)
        st.container(key="broken-said-speed").markdown(words.speed_sentence(trial))
    if drawn.n and curve.wrong is not None:
        wrong = drawn.arms[curve.wrong]
        st.markdown("**Where do the wrong rule’s samples go?**")
        picture(figures.wrong_cells(wrong, kind), "broken", "cells", wrong.conclusion, sentence=False)
        st.container(key="broken-said-cells").markdown(words.cells_sentence(trial))


def folds(trial: Trial) -> None:
    drawn, curve = trial.drawn, trial.drawn.picture(trial.question, trial.revealed)
    speeds = [
        {"decoder": one.name, "texts": one.texts, "draft tokens checked": one.tested, "accepted": one.kept, "tokens": one.tokens,
         "target passes": one.passes}
        for one in drawn.speeds
    ]  # fmt: skip
    tables("The numbers behind the pictures", curve.table, speeds, *((arm.name, arm.table) for arm in drawn.arms))
    with st.expander("When this page tests"):
        st.markdown(f"{RULE} The distance is computed on {len(drawn.arms[0].probs)} cells.")
        if not trial.question.hidden:
            st.markdown("The same mistake on the command line, with tests that also look inside the cells:")
            st.code(words.command(trial.question), language=None, wrap_lines=True)
