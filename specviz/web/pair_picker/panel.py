"""The line that names the pair in force on every page, and the panel that it opens: catalog, recent pairs, a pair of one's own."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import places_of
from specviz.statistics.finding import size_in_words
from specviz.web.common import pairs, session, terms
from specviz.web.common.elements import notes
from specviz.web.common.markdown import ALL, escaped
from specviz.web.hosting.options import options
from specviz.web.pair_picker import words, work
from specviz.web.pair_picker.state import PLACE_MAX, ModelsState, Wanted

NAME = "models"  # of the state in the session, and of the widgets
EIGHT_BITS = "Makes another draft model with its own distributions, faster on a CPU for large Llama-style drafts. The text still follows the target’s distribution."
PLACE = "A folder on this machine, or a name on the model hub: owner/model, or owner/model@revision with a branch, tag or commit."
SHORT_PLACE = "folder, or owner/model"
FOLDS = "Nothing of a pair’s weights is read or fetched before you say so. A check reads configurations and tokenizers."


def row(page: str) -> None:
    """A page's row with the pair in force and the page's terms; while a check or a download goes on, its progress stands below it."""
    terms.row(page, line)
    state = current()
    if state.busy and not st.session_state.get(fold_of(page)):
        session.on_progress(NAME)


def line(page: str) -> None:
    """The pair in force by name. Opened, it is the panel."""
    state, fold = current(), fold_of(page)
    with st.container(key=NAME, width="content"):
        label = escaped(pairs.named(session.pair()), ALL)
        opened = st.popover(f"Models: {label}", key=fold, type="tertiary", on_change="rerun")
    if not opened.open:
        return
    with opened, st.container(key=f"{NAME}-panel"):
        known(state, fold)
        if options().own_pairs:
            own(state, fold)


def fold_of(page: str) -> str:
    """Key of the panel's widget on a page."""
    return f"{NAME}-fold-{page}"


def current() -> ModelsState:
    """This session's state of the panel, which all pages share."""
    state = st.session_state.get(NAME)
    if state is None:
        state = st.session_state[NAME] = ModelsState()
        state.visitor = session.visitor()
    state.enter()
    asked, pair = st.query_params.get("pair", ""), session.pair()
    if state.drawn != pair:
        state.drawn, state.turn = pair, state.turn + 1
        state.start = of_name(pair) if pair not in PAIRS else state.question
    if options().own_pairs and places_of(asked) is not None and asked not in (state.offered, pair, *pairs.recent()):
        offer(state, asked)
    return state


def offer(state: ModelsState, pair: str) -> None:
    """Put a pair that a link names into the fields; it is looked at when the visitor says so."""
    state.offered, state.turn = pair, state.turn + 1
    try:
        state.start = of_name(pair)
    except SettingsError as error:
        state.said = [str(error)]


def of_name(pair: str) -> Wanted:
    """A pair of one's own as the fields hold it."""
    base = session.base()
    return Wanted(*(places_of(pair) or ("", "", False)), device=base.device, dtype=base.dtype)


def known(state: ModelsState, fold: str) -> None:
    """The catalog and the pairs that were used on this machine; one that is chosen is in force at once."""
    pair = session.pair()
    names = list(dict.fromkeys([*PAIRS, *([] if pair in PAIRS else [pair]), *pairs.recent()]))
    key = f"{NAME}-known-{state.turn}"
    st.selectbox(
        "Pair", names, index=names.index(pair), format_func=pairs.title, key=key, on_change=use_known, args=(state, key, fold)
    )
    if pair in PAIRS:
        st.caption(PAIRS[pair].note)


def use_known(state: ModelsState, key: str, fold: str) -> None:
    """Take the pair that was chosen in the list, unless it has gone."""
    pair = st.session_state.get(key)
    if pair is None:
        return
    if why := pairs.gone(pair):
        state.said, state.turn = [why], state.turn + 1
        return
    use(state, pair, fold)


def use(state: ModelsState, pair: str, fold: str) -> None:
    """Put a pair in force, and close the panel."""
    session.choose_pair(pair)
    pairs.remember(pair)
    state.said, st.session_state[fold] = [], False


def own(state: ModelsState, fold: str) -> None:
    """Two places, a check, a download where something is missing, and the pair's use."""
    st.markdown("**A pair of your own**")
    problem = fields(state)
    wanted = state.question
    with st.container(horizontal=True, key=f"{NAME}-buttons"):
        session.ask(st, state, "Check", f"{NAME}-check", work.check, wanted, disabled=bool(problem) or not wanted.whole)
        if state.found is not None and state.found.ready and state.found.download_bytes:
            label = f"Download {size_in_words(state.found.download_bytes)}"
            session.ask(st, state, label, f"{NAME}-download", work.fetch, wanted, type="primary")
        if state.usable:
            st.button("Use this pair", key=f"{NAME}-use", type="primary", on_click=use, args=(state, wanted.name, fold))
    session.on_progress(NAME)
    notes([*problem, *state.notices], f"{NAME}-notes-live")
    if state.found is None:
        st.caption(FOLDS)
        return
    notes(state.found.all_problems, f"{NAME}-notes-problems")
    st.html(words.table(state.found))
    notes([*words.summary(state.found), *state.found.notes], f"{NAME}-notes-from")


def fields(state: ModelsState) -> list[str]:
    """Target, draft and rounding as they stand in the fields; what was checked counts until they change. Sentences where they cannot be used."""
    start = state.start
    target = st.text_input(
        "Target", value=start.target, max_chars=PLACE_MAX, help=PLACE, placeholder=SHORT_PLACE, key=f"{NAME}-target-{state.turn}"
    )
    draft = st.text_input(
        "Draft", value=start.draft, max_chars=PLACE_MAX, help=PLACE, placeholder=SHORT_PLACE, key=f"{NAME}-draft-{state.turn}"
    )
    rounded = st.checkbox("Round the draft to 8 bits", value=start.rounded, help=EIGHT_BITS, key=f"{NAME}-rounded-{state.turn}")
    try:
        state.choose(replace(start, target=target.strip(), draft=draft.strip(), rounded=rounded))
    except SettingsError as error:
        return [str(error)]
    return []
