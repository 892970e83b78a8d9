"""The page Break it on screen: which mistake, the two texts, and the pictures that part while draws come in."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.evidence.mutants.mistakes import MISTAKES
from specviz.figures import mistakes as figures
from specviz.web.common.controls import WIDE, beside, from_fields
from specviz.web.common.frame import style
from specviz.web.common.queued import LOOK_AGAIN
from specviz.web.exactness import export
from specviz.web.exactness.view import MARKS
from specviz.web.mistakes import words
from specviz.web.mistakes.state import GUESSES, HIDDEN, Case, Trial

LEDE = "What does a wrong rule look like, and after how many draws is it seen? Most of these mistakes were made in real decoders."
PLOT = {"displayModeBar": False}


def head() -> None:
    with st.container(key="broken-head"):
        st.markdown(f"# Break it\n{LEDE}")


def fields(trial: Trial, turn: int) -> tuple[Case, list[str]]:
    """Two fields in sight, the seed folded: the case they ask for, and sentences where one cannot be used."""
    settings = trial.question.settings
    start = {"prompt": settings.prompt, "seed": str(settings.seed)}

    def key(name: str) -> dict[str, Any]:
        return {"key": f"broken-{name}-{turn}", "persist_state": "session"}

    which, text = st.columns([4, 6])
    names = [HIDDEN, *MISTAKES]
    mistake = which.selectbox(
        "Mistake",
        names,
        index=names.index(trial.question.mistake),
        format_func=lambda one: words.title(one, MISTAKES),
        **key("mistake"),
    )
    raw = {"prompt": text.text_area("Text to continue", value=start["prompt"], height=68, placeholder="empty: a start token is used",
                                    **key("prompt"))}  # fmt: skip
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        raw["seed"] = st.text_input("Seed", value=start["seed"], max_chars=WIDE, **key("seed"))
        st.caption(
            "Temperature, cuts, guesses and length are those that show the mistake. The address of this page holds the trial."
        )
    found, problems = from_fields(raw, settings)
    case = trial.question
    try:
        case = case if problems else Case(found, mistake)
    except SettingsError as error:
        problems = [str(error)]
    beside(top, problems)
    return case, problems


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"broken-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while draws come in; looks again by itself as long as there is work."""
    trial: Trial = st.session_state["broken"]
    trial.polling = trial.busy
    st.fragment(_live, run_every=LOOK_AGAIN if trial.polling else None)()


def _live() -> None:
    trial: Trial = st.session_state["broken"]
    if trial.ticket is not None:
        trial.ticket.look()
    if trial.busy != trial.polling or "broken-moved" in st.session_state:  # a click in here may have begun another trial
        st.rerun()
    export.broken(trial)
    kind = "dark" if st.context.theme.type == "dark" else "light"
    if not trial.question.hidden:
        st.container(key="broken-about").markdown(words.about(trial.question, trial.drawn.toy))
    _buttons(trial)
    notes(trial.notices, "live")
    notes(list(trial.drawn.notes), "distribution")
    _verdict(trial)
    if trial.drawn.arms is None:
        st.caption("The texts and pictures appear here as soon as the models are loaded.")
        return
    if trial.drawn.pairings:
        st.markdown(words.texts_title(trial))
        st.html(words.texts_html(trial.question, trial.drawn.pairings))
    _pictures(trial, kind)
    _folds(trial)


def _buttons(trial: Trial) -> None:
    case, idle = trial.question, not trial.busy
    with st.container(horizontal=True, vertical_alignment="center", key="broken-buttons"):
        if not case.hidden:
            st.button("Draw until it is caught", key="broken-until", on_click=trial.until_caught, type="primary",
                      disabled=not idle or trial.caught or not trial.next_look)  # fmt: skip
        label = f"Draw to {trial.next_look:,}" if trial.next_look else "All drawn"
        st.button(label, key="broken-next", on_click=trial.to_next_look, disabled=not idle or not trial.next_look)
        if case.hidden and trial.revealed:
            st.button("Another hidden one", key="broken-another", on_click=_another, disabled=not idle)
        if not idle:
            st.button("Stop", key="broken-stop", on_click=trial.stop)
        st.caption(f"{words.conditions(case)}" + (f" · {trial.drawn.n:,} draws of each so far" if trial.drawn.n else ""))
    place = st.container(key="broken-progress")  # always there: what stands below keeps its position, and is not drawn twice
    if trial.busy:
        place.progress(min(1.0, max(0.0, trial.ticket.share)), text=trial.progress())


def _another() -> None:
    """A game with another seed: the seed's field is made anew, so that it shows it."""
    trial: Trial = st.session_state["broken"]
    trial.stop()
    fresh = Trial(Case(replace(trial.question.settings, seed=secrets.randbelow(1_000_000)), HIDDEN))
    st.session_state["broken"], st.session_state["broken-moved"] = fresh, True
    st.session_state["broken-turn"] = st.session_state.get("broken-turn", 0) + 1


def _verdict(trial: Trial) -> None:
    said = words.verdict(trial)
    with st.container(key="broken-verdict"):
        if said.mark == "rejected":
            style("rejected")
        st.markdown(f"## {MARKS[said.mark]} {said.words}\n{said.seen}")
        if not trial.revealed:
            with st.container(horizontal=True):
                for guess in GUESSES:
                    label = "Neither is wrong" if guess == "neither" else f"{guess} is wrong"
                    st.button(
                        label, key=f"broken-guess-{guess}", on_click=trial.take_guess, args=(guess,), disabled=not trial.drawn.n
                    )


def _pictures(trial: Trial, kind: str) -> None:
    drawn, curve = trial.drawn, trial.drawn.picture(trial.question, trial.revealed)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("**How far from the exact distribution?**")
        if drawn.n:
            st.plotly_chart(figures.curve(curve, kind), key="broken-figure-curve", config=PLOT, alt=curve.conclusion)
        st.container(key="broken-said-curve").markdown(words.curve_sentence(curve, drawn.same, drawn.n, trial.question.hidden))
    with right:
        st.markdown("**How fast?**")
        one, other = drawn.speeds
        alt = f"{one.name} keeps {one.share:.1%} of its guesses, {other.name} {other.share:.1%}."
        st.plotly_chart(figures.speeds(drawn.speeds, curve.wrong, kind), key="broken-figure-speed", config=PLOT, alt=alt)
        st.container(key="broken-said-speed").markdown(words.speed_sentence(trial))
    if drawn.n and curve.wrong is not None:
        wrong = drawn.arms[curve.wrong]
        st.markdown("**Where do the wrong rule’s draws go?**")
        st.plotly_chart(figures.wrong_cells(wrong, kind), key="broken-figure-cells", config=PLOT, alt=wrong.conclusion)
        st.container(key="broken-said-cells").markdown(words.cells_sentence(trial))


def _folds(trial: Trial) -> None:
    drawn, curve = trial.drawn, trial.drawn.picture(trial.question, trial.revealed)
    with st.expander("The numbers behind the pictures"):
        st.dataframe(curve.table, hide_index=True)
        rows = [{"decoder": one.name, "texts": one.texts, "guesses tested": one.tested, "kept": one.kept, "tokens": one.tokens,
                 "target passes": one.passes} for one in drawn.speeds]  # fmt: skip
        st.dataframe(rows, hide_index=True)
        for arm in drawn.arms:
            st.caption(arm.name)
            st.dataframe(arm.table, hide_index=True)
    with st.expander("When this page looks"):
        from specviz.web.exactness.words import RULE

        st.markdown(f"{RULE} The distance is taken on {len(drawn.arms[0].probs)} cells.")
        if not trial.question.hidden:
            st.markdown("The same mistake without this page, with tests that also see inside the cells:")
            st.code(words.command(trial.question), language=None, wrap_lines=True)
