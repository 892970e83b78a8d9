"""The line that names the pair in force on every page, and the panel that it opens: catalog, recent pairs, a pair of one's own."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.errors import SettingsError
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import parse_pair_name
from specviz.statistics.finding import format_bytes
from specviz.web.common import pairs, session
from specviz.web.common.elements import show_notes
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.hosting.server_options import load_options
from specviz.web.pair_picker import words, work
from specviz.web.pair_picker.state import PLACE_MAX, PairPickerState, PairRequest

NAME = "models"  # of the state in the session, and of the widgets
EIGHT_BITS = "Makes another draft model with its own distributions, faster on a CPU for large Llama-style drafts. The text still follows the target’s distribution."
PLACE = "A folder on this machine, or a name on the model hub: owner/model, or owner/model@revision with a branch, tag or commit."
SHORT_PLACE = "folder, or owner/model"
FOLDS = "Nothing of a pair’s weights is read or fetched before you say so. A check reads configurations and tokenizers."


def show_pair_panel(page: str) -> None:
    """The pair in force by name. Opened, it is the panel."""
    state, fold = open_state(), build_panel_key(page)
    with st.container(key=NAME, width="content"):
        label = escape_markdown(pairs.name_pair(session.get_pair()), ALL_SIGNS)
        opened = st.popover(f"Models: {label}", key=fold, type="tertiary", on_change="rerun")
    if not opened.open:
        return
    with opened, st.container(key=f"{NAME}-panel"):
        show_known_pairs(state, fold)
        if load_options().own_pairs:
            show_own_pair(state, fold)


def show_progress(page: str) -> None:
    """Show how far a check or a download is, while the panel that holds its own line is closed."""
    if open_state().is_busy and not st.session_state.get(build_panel_key(page)):
        session.show_progress(NAME)


def build_panel_key(page: str) -> str:
    """Key of the panel's widget on a page."""
    return f"{NAME}-fold-{page}"


def open_state() -> PairPickerState:
    """This session's state of the panel, which all pages share."""
    state = st.session_state.get(NAME)
    if state is None:
        state = st.session_state[NAME] = PairPickerState()
        state.visitor = session.get_visitor()
    state.begin_script_run()
    asked, pair = st.query_params.get("pair", ""), session.get_pair()
    if state.drawn != pair:
        state.drawn, state.turn = pair, state.turn + 1
        state.start = parse_pair(pair) if pair not in PAIRS else state.question
    if (
        load_options().own_pairs
        and parse_pair_name(asked) is not None
        and asked not in (state.offered, pair, *pairs.load_recent_pairs())
    ):
        offer_pair(state, asked)
    return state


def offer_pair(state: PairPickerState, pair: str) -> None:
    """Put a pair that a link names into the fields; it is looked at when the visitor says so."""
    state.offered, state.turn = pair, state.turn + 1
    try:
        state.start = parse_pair(pair)
    except SettingsError as error:
        state.notes = [explain_error(error)]


def parse_pair(pair: str) -> PairRequest:
    """A pair of one's own as the fields hold it."""
    base = session.find_base_settings()
    return PairRequest(*(parse_pair_name(pair) or ("", "", False)), device=base.device, dtype=base.dtype)


def show_known_pairs(state: PairPickerState, fold: str) -> None:
    """The catalog and the pairs that were used on this machine; one that is chosen is in force at once."""
    pair = session.get_pair()
    names = list(dict.fromkeys([*PAIRS, *([] if pair in PAIRS else [pair]), *pairs.load_recent_pairs()]))
    key = f"{NAME}-known-{state.turn}"
    st.selectbox(
        "Pair",
        names,
        index=names.index(pair),
        format_func=pairs.title_pair,
        key=key,
        on_change=use_known_pair,
        args=(state, key, fold),
    )
    if pair in PAIRS:
        st.caption(PAIRS[pair].note)


def use_known_pair(state: PairPickerState, key: str, fold: str) -> None:
    """Take the pair that was chosen in the list, unless it has gone."""
    pair = st.session_state.get(key)
    if pair is None:
        return
    if why := pairs.describe_missing_folder(pair):
        state.notes, state.turn = [why], state.turn + 1
        return
    use_pair(state, pair, fold)


def use_pair(state: PairPickerState, pair: str, fold: str) -> None:
    """Put a pair in force, and close the panel."""
    session.set_pair(pair)
    pairs.remember_pair(pair)
    state.notes, st.session_state[fold] = [], False


def show_own_pair(state: PairPickerState, fold: str) -> None:
    """Two places, a check, a download where something is missing, and the pair's use."""
    st.markdown("**A pair of your own**")
    problem = show_fields(state)
    wanted = state.question
    with st.container(horizontal=True, key=f"{NAME}-buttons"):
        session.show_work_button(
            st, state, "Check", f"{NAME}-check", work.check_pair, wanted, disabled=bool(problem) or not wanted.is_complete
        )
        if state.check is not None and state.check.ready and state.check.download_bytes:
            label = f"Download {format_bytes(state.check.download_bytes)}"
            session.show_work_button(st, state, label, f"{NAME}-download", work.download_pair, wanted, type="primary")
        if state.is_usable:
            st.button("Use this pair", key=f"{NAME}-use", type="primary", on_click=use_pair, args=(state, wanted.name, fold))
    session.show_progress(NAME)
    show_notes([*problem, *state.notices], f"{NAME}-notes-live")
    if state.check is None:
        st.caption(FOLDS)
        return
    show_notes(state.check.all_problems, f"{NAME}-notes-problems")
    st.html(words.build_check_table(state.check))
    show_notes([*words.summarize_check(state.check), *state.check.notes], f"{NAME}-notes-from")


def show_fields(state: PairPickerState) -> list[str]:
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
        return [explain_error(error)]
    return []
