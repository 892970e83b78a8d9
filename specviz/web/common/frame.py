"""The frame around every page: navigation, style sheet, presenter view, the place in the tour, and the link to the next page."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pandas  # noqa: F401  # Plotly looks for it in any thread, and must not meet it half imported by another
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.figures.pages_and_glossary import ALL, PAGES, TOUR, Page, find_next_page, find_previous_page
from specviz.figures.preview import FRONT, NAME, build_tab_title
from specviz.records import ASSETS
from specviz.web.common import widget_guard
from specviz.web.common.component import Component
from specviz.web.hosting import metrics, warmup

LOGO = (ASSETS / "mark.svg").read_text(encoding="utf-8")
ABOUT = """**specviz** shows exact speculative decoding on real models, one step at a time.

It comes with documentation in its folder `docs`; `make docs` makes a site of it:

- lessons of 20, 45 and 90 minutes: `lesson-20.md`, `lesson-45.md`, `lesson-90.md`; presenter view, worksheets and rooms: `teaching.md`
- every term: `glossary.md`
- papers, what each found, and how to cite: `reading.md`
"""  # in Streamlit's menu
SESSION_GONE = "The results of this page are no longer on the server. Please compute or upload it again."
FIRST, LAST, REASON_LAST = (
    "Start",
    "Start page",
    "A new game every day.",
)  # around all pages
OUTSIDE = "For a class"  # of a page that is no step of the tour
_SEEN = "reconnect-seen"  # key of the session
_component = Component("frame")


def run_page() -> None:
    """Show the frame and the page that the address asks for."""
    widget_guard.install_widget_guard()
    pages = {path: copy.copy(page) for path, page in _build_pages().items()}
    page = st.navigation(group_pages(pages), position="top")
    path = page.url_path or FRONT
    st.logo(LOGO, size="large")
    st.set_page_config(
        page_title=build_tab_title(path), page_icon="🎲", layout="wide", initial_sidebar_state="collapsed", menu_items={"About": ABOUT}
    )  # fmt: skip
    st.html(f"<style>{build_group_style(path)}</style>")  # the other styles are in the document: web/hosting/page_html.py
    top = st.container(key="page-notes-refused")
    metrics.RUNS.labels(path).inc()
    if path == FRONT:
        warmup.start()
        page.run()
        return
    show_reconnect_notice(path)
    if "wall" not in st.query_params:
        show_place(path, pages)
    show_presenter(path)
    warmup.start()
    page.run()
    show_next_page(path, pages)
    for sentence in widget_guard.take_refusals():
        top.text(sentence)


def show_reconnect_notice(path: str) -> None:
    """Show a notice on a page whose session has expired: the browser slept too long, or the server was restarted.

    A browser that reconnects names the session that it had. If that session is gone, the old content stays on the screen until the
    visitor does something, which is the first run of a new session; the notice appears then and stays until it is closed.
    """
    if st.session_state.get(_SEEN):
        return
    st.session_state[_SEEN] = True
    context = get_script_run_ctx()
    before = read_previous_session(st.context.headers.get("Sec-WebSocket-Protocol", ""))
    if before and not PAGES[path].keeps_no_state and context is not None and before != context.session_id:
        st.toast(SESSION_GONE, duration="infinite")


def read_previous_session(header: str) -> str:
    """Return the session that a browser names as it reconnects, after Streamlit's protocol and a token; empty at the first connection."""
    parts = [part.strip() for part in header.split(",")]
    return parts[2] if len(parts) > 2 else ""


def group_pages(pages: dict[str, Any]) -> dict[str, list[Any]]:
    """Group the pages by their names in the navigation, both in the order of reading. The front page is hidden in the first group."""
    found: dict[str, list[Any]] = {ALL[0].group: [pages[FRONT]]}
    for page in PAGES.values():
        found.setdefault(page.group, []).append(pages[page.path])
    return found


def build_group_style(path: str) -> str:
    """Build the style that marks the group of the open page, if it has one; Streamlit marks the page itself, in a menu that is closed."""
    if path == FRONT:
        return ""
    groups = list(dict.fromkeys(page.group for page in PAGES.values()))
    place = 1 + groups.index(PAGES[path].group)
    return f'[data-testid="stTopNav"] > div:nth-child({place}) > button {{ background: var(--here); font-weight: 600; }}'


def show_place(path: str, pages: dict[str, Any]) -> None:
    """Show in the header which step of the tour this page is, between links to the pages before and after it; after the last one comes the start."""
    before, after = find_previous_page(path), find_next_page(path)
    with st.container(key="place", horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link(pages[before.path if before else FRONT], label=f"‹ {before.title if before else FIRST}", width="content")
        st.html(build_steps(path))
        st.page_link(pages[after.path if after else FRONT], label=f"{name_next(after) if after else FIRST} ›", width="content")


def name_next(page: Page) -> str:
    """Name a page that follows: one outside the tour is no next step, so it says whom it is for."""
    return page.title if page in TOUR else f"{OUTSIDE}: {page.title}"


def build_steps(path: str) -> str:
    """Build the steps of the tour up to this page, and its number; of a page after the tour what it is for."""
    paths = [page.path for page in TOUR]
    step = paths.index(path) + 1 if path in paths else len(paths) + 1
    words = f"{step} of {len(paths)}" if path in paths else OUTSIDE
    marks = "".join(
        f'<i class="{"here" if one == step else "done" if one < step else ""}"></i>' for one in range(1, len(paths) + 1)
    )
    return f'<p class="steps"><span>{words}</span><span class="marks" aria-hidden="true">{marks}</span></p>'


def show_next_page(path: str, pages: dict[str, Any]) -> None:
    """Show the link to the page that follows, and why to go there; after the tour the one to the start, and below it the one to a page outside the tour."""
    after = find_next_page(path)
    with st.container(key=f"onward-{path}", horizontal=True, vertical_alignment="center", gap="small"):
        if after not in TOUR:
            st.page_link(pages[FRONT], label=LAST, width="content")
            st.markdown(REASON_LAST)
        if after:
            st.page_link(pages[after.path], label=f"Next: {after.title}" if after in TOUR else name_next(after), width="content")
            st.markdown(after.reason)


def show_presenter(path: str) -> None:
    """Show the presenter view of a page without one of its own: its charts, one screen after the other. Where there is none, a sentence."""
    page = PAGES[path]
    if not page.presented_by_component and "wall" not in st.query_params:
        with st.container(key="presenter"):
            _component.draw(f"presenter-{path}", {"ask": page.ask, "instead": page.instead})


@lru_cache(maxsize=1)
def _build_pages() -> dict[str, st.Page]:
    """Build the pages once per process, because each looks up its file. A run gets copies, on which Streamlit marks what is open."""
    front = st.Page(f"pages/{FRONT}.py", title=NAME, default=True, visibility="hidden")
    return {FRONT: front} | {path: st.Page(f"pages/{path}.py", title=page.title, url_path=path) for path, page in PAGES.items()}
