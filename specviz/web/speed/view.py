"""The page How fast? on screen: a text, a draft and a temperature; the verdict; tokens and speed as pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.figures.speed import plan as figures
from specviz.prediction.plan import SpeedPlan
from specviz.prediction.plans import DRAFTS, TEMPERATURES, Choice
from specviz.prediction.reported import SOURCE
from specviz.web.common.queued import LOOK_AGAIN
from specviz.web.exactness.session import keep_link
from specviz.web.speed import export, tabs
from specviz.web.speed.parts import picture, sentence
from specviz.web.speed.sections import followed
from specviz.web.speed.state import Ask, Forecasts, batches, shown_text

LEDE = (
    "What does speculation gain, and can it be known beforehand? Where the target’s own text has a token, it was a accepted draft token with "
    "probability min(1, q/p): so tokens per pass are counted at every gamma, and nothing is speculated."
)
NAMES = {
    "storybook": "draft",
    "storybook-distilled": "taught draft",
    "storybook-8bit": "taught, in 8 bits",
    "ngram": "copied from the text",
}


def head() -> None:
    with st.container(key="fast-head"):
        st.markdown(f"# How fast?\n{LEDE}")


def fields(forecasts: Forecasts, turn: int) -> tuple[Ask, list[str]]:
    """Text, draft and temperature: what they ask for, and a sentence where it cannot be used."""
    ask = forecasts.question

    def key(name: str) -> dict[str, Any]:
        return {"key": f"fast-{name}-{turn}", "persist_state": "session"}

    left, right = st.columns([6, 4])
    text = left.text_area("A text of the kind that will be written", value=ask.text, height=120, **key("text"))
    draft = right.segmented_control(
        "Who draft tokens", list(DRAFTS), default=ask.choice.draft, required=True, format_func=NAMES.get, **key("draft")
    )
    heat = right.segmented_control(
        "Temperature", list(TEMPERATURES), default=ask.choice.temperature, required=True, **key("heat")
    )
    choice = Choice(draft or ask.choice.draft, heat or ask.choice.temperature)
    moved = {} if choice == ask.choice else {"alpha": None, "c": None, "gamma": None}  # each pair stands elsewhere
    try:
        return replace(ask, text=(text or "").strip(), choice=choice, **moved), []
    except SettingsError as error:
        return ask, [str(error)]


def visited(question: Ask) -> Forecasts:
    """What a link asks for, with the plans that this visitor has made already: Back does not lose them."""
    fresh, before = Forecasts(question), st.session_state.get("fast")
    fresh.found = before.found if before is not None else {}
    return fresh


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"fast-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while a plan is made, tabs and sliders; looks again by itself as long as there is work."""
    forecasts: Forecasts = st.session_state["fast"]
    forecasts.polling = forecasts.busy
    st.fragment(_live, run_every=LOOK_AGAIN if forecasts.polling else None)()


def _live() -> None:
    forecasts: Forecasts = st.session_state["fast"]
    if forecasts.ticket is not None:
        forecasts.ticket.look()
    turn = st.session_state["fast-turn"]
    if forecasts.choose(followed(forecasts.question, forecasts.shown, batches(), st.session_state, turn)):
        st.session_state["fast-moved"] = True
    keep_link(forecasts, "fast")
    if forecasts.busy != forecasts.polling:
        st.rerun()
    export.fold(forecasts)
    _buttons(forecasts)
    notes(forecasts.notices, "live")
    plan, kind = forecasts.shown, "dark" if st.context.theme.type == "dark" else "light"
    if plan is None:
        st.caption("The plan appears here once it is made.")
    else:
        notes([measured(forecasts, plan)], "from")
        sentence(plan.in_words)
        _pictures(plan, kind)
        _folds(plan)
    tabs.sections(forecasts, plan, kind, turn)


def _buttons(forecasts: Forecasts) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="fast-buttons"):
        st.button("Plan for this text", key="fast-plan", on_click=forecasts.plan, type="primary", disabled=forecasts.busy)
        if forecasts.busy:
            st.button("Stop", key="fast-stop", on_click=forecasts.stop)
        st.caption(
            "The target writes on from sixteen places of the text; both models read that once. Only probes are timed: no text is written with draft tokens."
        )
    place = st.container(key="fast-progress")  # always there: what stands below keeps its position
    if forecasts.busy:
        place.progress(min(1.0, max(0.0, forecasts.ticket.share)), text=forecasts.progress())


def measured(forecasts: Forecasts, plan: SpeedPlan) -> str:
    """Where the numbers come from."""
    machine = plan.machine
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {machine.get('load', 0.0):.1f}"  # fmt: skip
    size = f"{plan.openings} continuations of {plan.length} tokens; {plan.date}, {where}."
    if forecasts.own:
        return f"Your plan: {size}"
    more = "" if forecasts.question.text == shown_text() else " Plan for this text to see it on yours."
    return f"Recorded for the text {plan.text['name']}, and measured beside it: {size}{more}"


def _pictures(plan: SpeedPlan, kind: str) -> None:
    left, right = st.columns(2, gap="large") if plan.costs else (st.container(), None)
    with left:
        st.markdown(
            "### Tokens per pass\nBy accepted draft tokens, with one chance for each depth or one alpha for all, and as measured on other luck."
        )
        said = figures.tokens_conclusion(plan)
        picture(figures.tokens(plan, kind), "tokens", said)
    if right is None:
        st.caption("Tokens are one half, what a round costs is the other: plan for this text to measure its speed here.")
        return
    with right:
        st.markdown("### Speed\nTokens are one half, what a round costs is the other.")
        by = ", ".join(f"{name} {gamma}" for name, gamma in plan.chosen_by.items())
        picture(figures.factors(plan, kind), "factors", f"The best gamma by each: {by}; 0 is the target alone.")


def _folds(plan: SpeedPlan) -> None:
    with st.expander("The numbers behind the pictures"):
        st.dataframe(figures.rows(plan), hide_index=True)
    with st.expander("How near was the formula to the paper’s own table?"):
        st.dataframe(figures.published(), hide_index=True)
        st.caption(f"{SOURCE}, speed-ups as reported, entered by hand; the formula at c = .02, .04 and .11 for the three drafts.")
