"""The page One round on screen: the stage, and the fold with a visitor's own text and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from specviz.figures.common.components import stage_css, stage_js
from specviz.figures.common.narration import HEADLINE
from specviz.figures.one_round.stage import read_cursor
from specviz.models.pairs.catalogue import PAIRS
from specviz.models.pairs.names import Places, places_of
from specviz.web.common import access, cache, download, session, terms
from specviz.web.common.controls import Form, as_fields, from_fields
from specviz.web.one_round import export, work
from specviz.web.one_round.state import Visit

EIGHT_BITS = "Makes another draft model with its own distributions, faster on a CPU for Llama-style drafts. The text still follows the target’s distribution."
_component = st.components.v2.component("specviz_stage", css=stage_css(), js=stage_js())


def page() -> None:
    visit = session.current("visit", opened)
    fold(visit)
    visit.begin(work.answer)
    session.wait_a_moment(visit)
    if visit.trace is None:
        for sentence in visit.notices:
            st.text(sentence)
    stage(visit)
    terms.row("step")
    at = read_cursor(st.query_params.get("at"))
    download.fold("step", lambda: export.round_offer(visit.trace, (at or visit.cursor)["round"]))
    session.keep_link(visit)
    session.watch("visit", bar=False)


def opened(query: Mapping[str, str], before: Visit | None) -> Visit:
    visit = Visit(cache.recording())
    visit.open_link(query, access.own_pairs_allowed())
    return visit


def stage(visit: Visit) -> None:
    """Draw the run and take what a person asks of the server: {"kind": "live"}, {"kind": "next", "round": n}, {"kind": "undo"} or
    {"kind": "coin", "position", "purpose", "u"}, each with "at", the cursor at that moment.

    The component gets the payload of figures/one_round/stage.py, where to stand in it when it is another one, the mode, a line that
    switches asking off while there is work, and sentences to show above.
    """
    scene, busy = visit.scene, visit.waiting
    data = given(scene.payload, scene.cursor, scene.mode, busy, visit.notices)
    _component(key="stage", data=data, on_ask_change=_hear)


def given(
    payload: Mapping[str, Any], cursor: Mapping[str, int], mode: str, busy: str | None, notices: Sequence[str]
) -> dict[str, Any]:
    return {
        "payload": payload,
        "headline": HEADLINE,
        "cursor": dict(cursor),
        "mode": mode,
        "busy": busy,
        "notices": list(notices),
    }


def _hear() -> None:
    """Streamlit calls this before the page runs: so the page is drawn once for a click, with what came of it."""
    visit: Visit | None = st.session_state.get("visit")
    if visit is not None:
        visit.enter()
        visit.hear(st.session_state["stage"].get("ask"))


def fold(visit: Visit) -> None:
    """A field that changed runs the pair; one that cannot be used says so and leaves what is shown."""
    if visit.seen is None:
        settings = visit.job.settings if visit.job else visit.settings
        visit.seen = visit.start = as_fields(visit.offer.settings if visit.offer else settings)
    with st.container(key="fold"), st.popover("Your own text", width="content"):
        top = st.container(key="problems")
        visit.take(fields(visit), from_fields)
        for sentence in visit.problems:
            top.text(sentence)  # the one sink of Streamlit that takes $x$ and :red[a] as the text they are
        if access.own_pairs_allowed():
            own_pair(visit)
        elif refused := access.own_pairs_refused():
            st.text(refused)
        st.caption("Every change runs the real models. To share the run, copy the address of the page.")


def fields(visit: Visit) -> dict[str, Any]:
    form = Form("fold", visit.turn, visit.start)
    form.prompt(st, height=96)
    if "pair" in visit.start:
        chosen, names = visit.start["pair"], list(PAIRS)
        names += [] if chosen in names else [chosen]  # a pair of one's own, from a link or loaded before
        form.raw["pair"] = st.selectbox("Pair", names, index=names.index(chosen), format_func=title, **form.key("pair"))
    form.sampling()
    form.text(st.columns(2)[0], "seed", "Seed")
    return form.raw


def title(pair: str) -> str:
    """A pair in the list: the catalogue's title, or the two places of one's own."""
    own = places_of(pair)
    return PAIRS[pair].title if pair in PAIRS else f"{own.target} with {own.draft}" if own else pair


def own_pair(visit: Visit) -> None:
    """Two fields, a choice and a button: nothing is looked for or fetched before it is pressed."""
    pair = (visit.offer or visit).settings.pair
    offered = places_of(pair) or Places("", "")
    target = st.text_input("Target: folder or hub name", value=offered.target, key="own-target", max_chars=500)
    draft = st.text_input("Draft: folder or hub name", value=offered.draft, key="own-draft", max_chars=500)
    rounded = st.checkbox("Round the draft to 8 bits", value=offered.rounded, key="own-rounded", help=EIGHT_BITS)
    if st.button("Load this pair", key="own-load") and not visit.overtaken:
        visit.load_own(target, draft, rounded)
