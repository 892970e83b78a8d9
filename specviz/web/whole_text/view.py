"""The page Whole text on screen: prompt, length and one button; both ways side by side; below them where the models part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.figures.whole_text import divergence as figures
from specviz.figures.whole_text import lanes as words
from specviz.figures.whole_text import tables
from specviz.measure.passage import LENGTHS, Passage
from specviz.web.common.controls import WIDE, as_fields, beside, from_fields
from specviz.web.whole_text import export
from specviz.web.whole_text.component import forks, lanes
from specviz.web.whole_text.state import Ask, Writing, heap, surveys

LOOK_AGAIN = 0.35  # seconds between two looks at a text that is being written
LEDE = "What did the big model really decide? One text, written by the big model alone and with a small model’s draft tokens, token by token."
CLOCKS = (
    "Both ways share one machine in turns: whichever has worked for less time goes next, and each clock counts only its own work. "
    "A column is a round, as tall as the tokens that it gave. Choose a token of the second text to open its round on the stage, an "
    "underlined one of the first to see both distributions there."
)
PLOT = {"displayModeBar": False}


def head() -> None:
    with st.container(key="whole-head"):
        st.markdown(f"# Whole text\n{LEDE}")


def fields(writing: Writing, turn: int) -> tuple[Ask, list[str], bool]:
    """Prompt, length and one button in sight, the distribution and the luck folded: what they ask for, sentences where one cannot be used,
    and whether it was asked to be written."""
    ask = writing.question
    start = as_fields(ask.settings)

    def key(name: str) -> dict[str, Any]:
        return {"key": f"whole-{name}-{turn}", "persist_state": "session"}

    raw: dict[str, Any] = {}
    text, size, go = st.columns([6, 2.3, 1.9], vertical_alignment="bottom")
    raw["prompt"] = text.text_area("Text to continue", value=start["prompt"], height=68,
                                   placeholder="empty: a start token is used", **key("prompt"))  # fmt: skip
    length = size.segmented_control("Tokens", LENGTHS, default=ask.settings.length, required=True, **key("length"))
    pressed = go.button("Write it both ways", key="whole-write", type="primary", disabled=writing.busy, width="stretch")
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        left, right = st.columns(2)
        raw["gamma"] = left.number_input(
            "Draft tokens per round (gamma)", value=start["gamma"], step=1, help="0 to 16", **key("gamma")
        )
        hint = "0 to 5; 0: always the likeliest"
        raw["temperature"] = right.text_input(
            "Temperature", value=start["temperature"], max_chars=WIDE, help=hint, **key("temperature")
        )
        left, right = st.columns(2)
        raw["top_k"] = left.text_input("top-k", value=start["top_k"], max_chars=WIDE, placeholder="off", **key("top_k"))
        raw["top_p"] = right.text_input("top-p", value=start["top_p"], max_chars=WIDE, placeholder="off", **key("top_p"))
        raw["seed"] = st.text_input("Seed", value=start["seed"], max_chars=WIDE, **key("seed"))
        st.caption("The address of this page holds all of it: copy it to share.")
    found, problems = from_fields(raw, ask.settings)
    try:
        ask = ask if problems else Ask(replace(found, length=length or ask.settings.length))
    except SettingsError as error:
        problems = [str(error)]
    beside(top, problems)
    return ask, problems, pressed


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"whole-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while a text is written; looks again by itself as long as there is work."""
    writing: Writing = st.session_state["whole"]
    writing.polling = writing.busy
    st.fragment(_live, run_every=LOOK_AGAIN if writing.polling else None)()


def _live() -> None:
    writing: Writing = st.session_state["whole"]
    if writing.ticket is not None:
        writing.ticket.look()
    if writing.busy != writing.polling:
        st.rerun()
    export.fold(writing)
    _work(writing)
    notes(writing.notices, "live")
    one = writing.underway or writing.shown
    if one is None:
        st.caption("Both texts appear here once they have been written.")
        return
    if one.read is None:
        notes(["Being written now. The clocks count each way’s own work."], "from")
    else:
        notes([come_from(writing, one), *filter(None, [words.ended(one)])], "from")
    lanes(words.lanes_payload(one, done=one.read is not None))
    st.caption(CLOCKS)
    if one.read is not None:
        notes(words.cautions(one), "cautions")
        _said("\n\n".join(filter(None, (words.conclusion(one), words.speed(one) + " " + words.texts_sentence(one)))), "lanes")
        _parting(one, "dark" if st.context.theme.type == "dark" else "light")


def _work(writing: Writing) -> None:
    """How far the writing is, and the way to end it; nothing where there is no work."""
    place = st.container(key="whole-progress", horizontal=True, vertical_alignment="center")
    if writing.busy:
        place.progress(min(1.0, max(0.0, writing.ticket.share)), text=writing.progress())
        place.button("Stop", key="whole-stop", on_click=writing.stop)


def come_from(writing: Writing, one: Passage) -> str:
    """Where the text and its times come from; for a recorded one that answers another question, of which."""
    if writing.own:
        return f"Your run, {words.measured(one)}"
    if writing.question.settings == one.settings:
        return f"Recorded, {words.measured(one)}"
    return f"Recorded for “{one.settings.prompt}” at temperature {one.settings.temperature:g}, {words.measured(one)} Press the button to see it on yours."


def _parting(one: Passage, kind: str) -> None:
    """Where the models part: along the text, at chosen places, over all tokens, by kind of word."""
    read = one.read
    st.container(key="whole-second").markdown("### And where do the two models part?")
    said = figures.along_conclusion(read)
    st.plotly_chart(figures.along(read, kind), key="whole-figure-along", config=PLOT, alt=said)
    _said(said, "along")
    if payload := words.forks_payload(one):
        forks(payload)
    curves = figures.curves_of(read, surveys(one.settings.pair))
    own, many = curves[0][1], heap(one.settings)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("### A few places, or everywhere?")
        said = figures.lorenz_conclusion(curves)
        st.plotly_chart(figures.lorenz(curves, kind), key="whole-figure-lorenz", config=PLOT, alt=said)
        _said(said, "lorenz")
    with right:
        st.markdown("### At which words?")
        said = figures.kinds_conclusion(many or own)
        st.plotly_chart(figures.kinds(many or own, own if many else None, kind), key="whole-figure-kinds", config=PLOT, alt=said)
        _said(said, "kinds")
    with st.expander("The numbers behind the pictures"):
        for name, rows in (
            ("The big model’s text, read by both", tables.places_table(one)),
            ("How the divergence is spread, with intervals", figures.tops_table(curves)),
            ("Kinds of word", figures.kinds_table(many or own)),
            ("Every token of both ways", tables.tokens_table(one)),
        ):
            st.caption(name)
            st.dataframe(rows, hide_index=True)


def _said(text: str, name: str) -> None:
    st.container(key=f"whole-said-{name}").markdown(_escaped(text))


def _escaped(text: str) -> str:
    """Our own sentences with a token of the text in them: nothing of it is taken for a sign of markdown."""
    for sign in "\\`*_{}[]()#+-!|<>$~:&":
        text = text.replace(sign, f"\\{sign}")
    return text
