"""Export, the same on every page: one folded button, in it the zip of everything and each file by itself.

Nothing of an export is built before its fold is opened, and no file before its button is pressed. Then it is built in the queue,
as all work is. What is built closes over frozen records, never over a session: the browser fetches it in a thread of its own.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from typing import cast

import streamlit as st

from specviz.errors import SpecvizError
from specviz.export.package import ExportOffer
from specviz.jobs.queue import Ticket
from specviz.web.common import session
from specviz.web.jobs.server_queue import server_queue

TYPES = {"csv": "text/csv", "json": "application/json", "html": "text/html", "svg": "image/svg+xml", "zip": "application/zip"}
STILL_THERE = 10.0  # seconds between two signs to the queue that the file is waited for
HOLDS = (
    "Figures as SVG, PNG, PDF, slides of 16:9 and an interactive page, data as CSV and JSON, captions for print, and a manifest: settings, seed, "
    "versions, hashes of weights and tokenizer, and the command that reproduces it."
)


def show_export_fold(
    page: str, offered: Callable[[], ExportOffer], on_open: Callable[[], None] = lambda: None, known: bool = True
) -> None:
    """The button and its fold.

    page     whose widgets these are; offered  called once the fold is open: what there is to export
    on_open  called when the fold is opened or closed; the page then runs again
    known    whether the page knows already what stands on it; until then the fold stays empty: a button of the run before could
             be pressed just when its file is being replaced
    """
    with st.container(key="export"):
        opened = st.popover("Export", width="content", key=f"export-fold-{page}", on_change=on_open)
    if not opened.open or not known:
        return
    with opened:
        show_export_files(page, offered())


def show_export_files(page: str, offer: ExportOffer) -> None:
    """What stands in the fold: the zip of everything, and each file by itself."""
    visitor = session.get_visitor()

    def file(name: str) -> Callable[[], bytes]:
        build = offer.build
        assert build is not None, "an offer without files has no name to choose"
        return lambda: build_in_queue(lambda ticket: build().file(name), visitor, page)

    if offer.note:
        st.container(key="export-said").text(offer.note)
    st.download_button(
        "Everything, one zip", file(f"{offer.stem}.zip"), f"{offer.stem}.zip", TYPES["zip"],
        key=f"export-zip-{page}", on_click="ignore", type="primary", width="stretch", disabled=not offer.names,
    )  # fmt: skip
    st.caption(HOLDS)
    chosen = st.selectbox(
        "Or one file",
        offer.names,
        index=None,
        placeholder="choose a file",
        key=f"export-name-{page}",
        disabled=not offer.names,
    )
    if chosen:
        st.download_button(
            f"Download {chosen}", file(chosen), f"{offer.stem}-{chosen}", guess_mime_type(chosen),
            key=f"export-one-{page}", on_click="ignore", width="stretch",
        )  # fmt: skip


def build_in_queue(make: Callable[[Ticket], bytes], visitor: object, page: str) -> bytes:
    """What ``make(ticket)`` returns, made in the queue as a visitor's work. Raises SpecvizError with a sentence where nothing comes of it."""
    ticket = server_queue().submit(make, visitor, page)
    while not ticket.ended.wait(STILL_THERE):
        ticket.keep_alive()
    if ticket.state != "done":
        raise SpecvizError(ticket.sentence or "The file was not built: its work was stopped.")
    return cast(bytes, ticket.result)


def guess_mime_type(name: str) -> str:
    """What a browser is told that the file is."""
    ending = name.rpartition(".")[2]
    return TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
