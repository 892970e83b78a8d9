"""A page's state in Streamlit's session: opening it, its address, and the progress of its job."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.settings import Settings, build_shared_settings, update_names
from specviz.web.common import pairs
from specviz.web.common.links import list_host_settings, list_unknown_keys, read_prompt
from specviz.web.common.page_state import PageState, Work
from specviz.web.hosting import cache, warmup
from specviz.web.hosting.admission import COOKIE, unmask_cookie

State = TypeVar("State", bound=PageState)
_poll_numbers = itertools.count()
LOOK_AGAIN, FAR_BACK = 0.25, 2.0  # seconds between two looks at a ticket; at one far back in the line
FAR = 4  # jobs ahead from which a ticket is far back
PAIR = "pair-in-force"  # where the session keeps the pair that every page takes
PROMPT = 2.0  # seconds that a page waits for quick work before it draws itself as waiting


def open_state(name: str, build_state: Callable[[dict[str, str], State | None], State]) -> State:
    """This session's state of a page; a new one for a new session, and when Back or Forward has changed the address.

    Args:
        name: Key of the session.
        build_state: Builds it from the query and the state before, if any.
    """
    known, missing = st.session_state.get(name), _replace_missing_pair()
    if known is not None and not (_is_history_navigation() and read_address() != known.address):
        known.begin_script_run()
        if _is_history_navigation():
            share_pair(known)
        else:
            known.follow_pair(get_pair())
        if missing:
            known.notes = [*missing, *known.notes]
        return known
    if known is not None:
        known.stop()
    query = update_names(st.query_params.to_dict())
    state = build_state(query, known)
    state.notes.extend(
        [*list_host_settings(query, state.notes), *list_unknown_keys(query)]
    )  # in place: a run that the link asks for shows the same sentences
    state.turn = known.turn + 1 if known is not None else 0
    state.address, state.visitor = read_address(), get_visitor()
    state.begin_script_run()
    if query:
        share_pair(state)
    else:
        state.follow_pair(get_pair())
    state.notes.extend(one for one in missing if one not in state.notes)
    st.session_state[name] = state  # one step: a click may end this script run at any look into the session
    return state


def find_base_settings() -> Settings:
    """Settings without an address: those of the run on the page One round, with the session's pair.

    The recorded run is the race's, with its seed and draft length; other pages begin with those that their records share. A link names its pair, unless that is the default one.
    """
    run, recording = st.session_state.get("one_round"), cache.load_recording()
    if run is not None:
        found = run.run.settings
    else:
        found = Settings.from_record(recording.settings) if recording else Settings(prompt="Once upon a time")
    if recording is not None and found == Settings.from_record(recording.settings):
        found = build_shared_settings(found)
    return replace(found, pair=pairs.DEFAULT if read_address() else get_pair())


def get_pair() -> str:
    """Return the session's pair, which every page uses until another one is chosen."""
    return st.session_state.get(PAIR, pairs.DEFAULT)


def set_pair(name: str) -> None:
    """Set the session's pair. Each page takes it over when it is next drawn."""
    st.session_state[PAIR] = name


def share_pair(state: PageState) -> bool:
    """Make the pair of a page the session's. Returns whether it was another one before."""
    other = state.pair != get_pair()
    state.last_pair = state.pair
    set_pair(state.pair)
    return other


def sync_pair_with_address(page: str) -> list[str]:
    """Write the session's pair into the address of a page without settings, so that a reload or a copy keeps it.

    A new session, Back and Forward take the pair of the address. Any other run may carry an address that is a moment old. Returns a
    sentence for each pair that was left out.
    """
    written, named = f"{page}-{PAIR}", st.query_params.get("pair")
    said: list[str] = []
    if named is not None and (written not in st.session_state or _is_history_navigation()):
        found, said = read_prompt({"pair": named}, Settings(), Settings(pair=get_pair()))
        set_pair(found.pair)
    if get_pair() != pairs.DEFAULT and named != get_pair():
        st.query_params["pair"] = get_pair()
    elif get_pair() == pairs.DEFAULT and named is not None and named == st.session_state.get(written):
        del st.query_params["pair"]
    st.session_state[written] = get_pair()
    return said


def _replace_missing_pair() -> list[str]:
    """Replace a pair whose folder is missing by the default one. Returns a sentence about it."""
    why = pairs.describe_missing_folder(get_pair())
    if why:
        set_pair(pairs.DEFAULT)
    return [why] if why else []


def make_opener(state: type[State], question: Any) -> Callable[[dict[str, str], State | None], State]:
    """For ``open_state``: the state of a page whose question comes from the address alone."""

    def make_state(query: dict[str, str], before: State | None) -> State:
        wanted, left_out = question.from_link(query, find_base_settings())
        new = state(wanted)
        new.notes = left_out
        return new

    return make_state


def sync_address(state: PageState) -> None:
    """Write the address after the question changed, and when a visitor returns to the page.

    A click may end the script run before the address is written; the next run writes it then. A pair that was chosen on another page
    is written too, so that a reload keeps it. If the page has another pair than the session, the page is drawn again with it.
    """
    if not state.is_overtaken and share_pair(state):
        st.rerun()
    brought = state.pair != pairs.DEFAULT and "pair" not in read_address()
    if state.is_address_stale or brought or (state.address and not read_address()):
        link = state.build_link()
        if {key: value for key, value in link.items() if key != "at"} != read_address():
            st.query_params.from_dict(link)  # one entry in the browser's history for each question
    state.address, state.is_address_stale = read_address(), False


def wait_briefly(state: PageState) -> None:
    """Wait for a quick job, so that the page is drawn once and with its result."""
    if state.ticket is not None and state.ticket.is_open and warmup.wait(0):
        state.ticket.keep_alive()
        state.ticket.ended.wait(PROMPT)
    state.drawn_at = time.monotonic()


def show_work_button(place: Any, state: PageState, label: str, key: str, work: Work, *arguments: Any, **options: Any) -> None:
    """Draw a button that submits a job. Call it after the fields, so that the job gets their latest values."""
    options = {"disabled": False} | options
    if place.button(label, key=key, **options | {"disabled": state.is_busy or options["disabled"]}):
        state.submit(work, *arguments)
        st.rerun()  # the button above does not know yet that there is work


def show_progress(name: str, bar: bool = True) -> None:
    """Poll the ticket of a running job; the page runs again when there is something new to draw.

    With ``bar`` a progress bar and a button to stop are shown; without it the page runs again at each step of the job.
    """
    state: PageState = st.session_state[name]
    place = st.container(
        key=f"{name}-progress", horizontal=True, vertical_alignment="center"
    )  # always there: what follows keeps its position
    if state.is_busy:
        far = _is_far_back(state)
        with place:
            poll = _make_poller()
            st.fragment(poll, run_every=FAR_BACK if far else LOOK_AGAIN)(name, bar, _snapshot_progress(state, bar), far)
    elif state.has_ended_since_drawn:
        st.rerun()


def _is_far_back(state: PageState) -> bool:
    return state.ticket is not None and state.ticket.state == "waiting" and state.ticket.jobs_ahead >= FAR


def _make_poller() -> Callable[[str, bool, tuple, bool], None]:
    """``_poll_ticket`` as a new fragment for each run of the page.

    Streamlit names a fragment by its function and place, so the fragments of two runs, or of two pages, may share a name. A timer of
    the run before then runs the new fragment while messages of the new run are unsent. They are lost, and the page stays half drawn.
    """

    def poll(*arguments: Any) -> None:
        _poll_ticket(*arguments)

    poll.__qualname__ = f"poll {next(_poll_numbers)}"
    return poll


def _poll_ticket(name: str, bar: bool, drawn_state: tuple, far: bool) -> None:
    state: PageState = st.session_state[name]
    ticket = state.ticket
    if ticket is not None:
        ticket.keep_alive()
    if (
        not state.is_busy or _snapshot_progress(state, bar) != drawn_state or (far and not _is_far_back(state))
    ):  # its turn comes: look more often
        st.rerun()
    if bar and ticket is not None:
        st.progress(min(1.0, max(0.0, ticket.share)), text=state.describe_progress())
        st.button("Stop", key=f"{name}-stop", on_click=state.stop)


def _snapshot_progress(state: PageState, bar: bool) -> tuple:
    """State of the job that the drawn page shows."""
    ticket = state.ticket
    return (state.version,) if bar or ticket is None else (state.version, ticket.doing)


def get_theme() -> str:
    """Return "light" or "dark", the palette that the browser shows."""
    return "dark" if st.context.theme.type == "dark" else "light"


def get_visitor() -> str:
    """Return an id of the visitor: by Streamlit's cookie, which all tabs of a browser send, else by the session."""
    context = get_script_run_ctx()
    return unmask_cookie(st.context.cookies.get(COOKIE, "")) or (context.session_id if context else "")


def read_address() -> dict[str, str]:
    """Return the address's parameters without those that the browser changes by itself: step, tour and presenter view."""
    return {key: value for key, value in st.query_params.to_dict().items() if key not in ("at", "tour", "present")}


def _is_history_navigation() -> bool:
    """Whether the browser's Back or Forward caused this run. Any other run may carry an address that is a moment old."""
    context = get_script_run_ctx()
    return bool(context and getattr(context, "is_history_navigation", False))
