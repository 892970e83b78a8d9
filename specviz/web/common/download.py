"""Export, the same on every page: one folded button, in it the zip of everything and each file by itself.

Nothing is built before it is asked for. What is built closes over frozen records, never over a session: the browser fetches it in
a thread of its own.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Sequence

import streamlit as st

from specviz.export.package import Package

TYPES = {"csv": "text/csv", "json": "application/json", "html": "text/html", "svg": "image/svg+xml", "zip": "application/zip"}
HOLDS = (
    "Figures as SVG, PNG, PDF and an interactive page, data as CSV and JSON, captions for print, and a manifest: settings, seed, "
    "versions, hashes of weights and tokenizer, and the command that makes it again."
)


def export(
    page: str,
    stem: str,
    names: Sequence[str],
    make: Callable[[], Package],
    said: str = "",
    on_open: Callable[[], None] | None = None,
    known: bool = True,
) -> None:
    """The button and its fold.

    page     whose widgets these are; stem  of the zip's name
    names    of the files that ``make`` will hold; empty: there is nothing to take along yet
    said     a sentence about what is exported, text and nothing else
    on_open  called when the fold is opened or closed. With it the page runs again and the fold stays empty until then: a
             button of the run before could be pressed just when its file is being replaced
    known    whether the page knows already what stands on it; until then, too, the fold stays empty
    """
    with st.container(key="export"):
        fold = st.popover("Export", width="content", key=f"export-fold-{page}", on_change=on_open or "ignore")
    if not known or (on_open and not fold.open):
        return
    with fold:
        if said:
            st.container(key="export-said").text(said)
        st.download_button(
            "Everything, one zip", lambda: make().file(f"{stem}.zip"), f"{stem}.zip", TYPES["zip"],
            key=f"export-zip-{page}", on_click="ignore", type="primary", width="stretch", disabled=not names,
        )  # fmt: skip
        st.caption(HOLDS)
        chosen = st.selectbox(
            "Or one file", names, index=None, placeholder="choose a file", key=f"export-name-{page}", disabled=not names
        )
        if chosen:
            st.download_button(
                f"Download {chosen}", lambda: make().file(chosen), f"{stem}-{chosen}", mime(chosen),
                key=f"export-one-{page}", on_click="ignore", width="stretch",
            )  # fmt: skip


def mime(name: str) -> str:
    """What a browser is told that the file is."""
    ending = name.rpartition(".")[2]
    return TYPES.get(ending) or mimetypes.draft_token_type(name)[0] or "application/octet-stream"
