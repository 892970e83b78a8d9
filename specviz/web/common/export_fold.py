"""The export of every page: a button that opens the zip of everything and each file.

An offer is built when the fold opens, a file when its button is pressed, as a job in the queue. Files close over frozen records, not
over a session, because the browser fetches them in another thread.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from typing import Any, Literal, cast

import streamlit as st

from specviz.errors import SpecvizError
from specviz.export.package import ExportOffer
from specviz.jobs.queue import Ticket
from specviz.web.common import session
from specviz.web.hosting.server_queue import get_server_queue

TYPES = {"csv": "text/csv", "json": "application/json", "html": "text/html", "svg": "image/svg+xml", "zip": "application/zip"}
BUILDING = "export-building"  # key of the session: page -> job of the file that is being made
STILL_THERE = 10.0  # seconds between two signs to the queue that the file is waited for
HOLDS = (
    "Figures as SVG, PNG, PDF, slides of 16:9 and an interactive page, data as CSV and JSON, captions for print, and a manifest: settings, seed, "
    "versions, hashes of weights and tokenizer, and the command that reproduces it."
)


def show_export_fold(
    page: str,
    build_offer: Callable[[], ExportOffer],
    on_open: Callable[[], None] = lambda: None,
    is_ready: bool = True,
    row: Any = None,
) -> None:
    """Draw the export button and its fold.

    Args:
        page: Of the widgets.
        build_offer: Called once the fold is open.
        on_open: Called when the fold is opened or closed; the page then runs again.
        is_ready: Whether the page has its content. Until then the fold stays empty, because a button of the run before could be pressed
            while its file is replaced.
        row: Where the button stands; None for the page's header.
    """
    with row if row is not None else st.container(key="export"):
        look: Literal["tertiary", "secondary"] = "tertiary" if row is not None else "secondary"
        opened = st.popover("Export", width="content", key=f"export-fold-{page}", on_change=on_open, type=look)
    if not opened.open or not is_ready:
        return
    with opened:
        show_export_files(page, build_offer())


def show_export_files(page: str, offer: ExportOffer) -> None:
    """Draw the buttons of the zip and of single files."""
    visitor = session.get_visitor()
    building: dict[str, Ticket] = st.session_state.setdefault(BUILDING, {})

    def build_file(name: str) -> Callable[[], bytes]:
        build = offer.build
        assert build is not None, "an offer without files has no name to choose"

        def make(ticket: Ticket) -> bytes:
            return build().build_file(name, on_progress=lambda share, doing="", /: ticket.tick(share, f"Making {doing}"))

        return lambda: build_in_queue(make, visitor, page, building)

    if offer.note:
        st.container(key="export-said").text(offer.note)
    zipped = build_file(f"{offer.stem}.zip") if offer.names else b""
    st.download_button(
        "Everything, one zip", zipped, f"{offer.stem}.zip", TYPES["zip"],
        key=f"export-zip-{page}", on_click="ignore", type="primary", width="stretch", disabled=not offer.names,
    )  # fmt: skip
    st.caption(HOLDS)
    show_building(page)
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
            f"Download {chosen}", build_file(chosen), f"{offer.stem}-{chosen}", guess_mime_type(chosen),
            key=f"export-one-{page}", on_click="ignore", width="stretch",
        )  # fmt: skip


@st.fragment(run_every=1.0)
def show_building(page: str) -> None:
    """Show how much of a file is made while its download waits for it; the fold is open meanwhile."""
    ticket = st.session_state.get(BUILDING, {}).get(page)
    if ticket is not None and ticket.is_open:
        st.progress(ticket.share or 0.0, ticket.doing or "Waiting for a place")


def build_in_queue(
    make: Callable[[Ticket], bytes], visitor: object, page: str, building: dict[str, Ticket] | None = None
) -> bytes:
    """Return ``make(ticket)``, run in the queue as a visitor's job. Raises SpecvizError if it fails or is stopped.

    ``building``: where the job stands under its page as long as it runs, for who shows its progress.
    """
    ticket = get_server_queue().submit(make, visitor, page)
    if building is not None:
        building[page] = ticket
    while not ticket.ended.wait(STILL_THERE):
        ticket.keep_alive()
    if ticket.state != "done":
        raise SpecvizError(ticket.sentence or "The file was not built: its work was stopped.")
    return cast(bytes, ticket.result)


def guess_mime_type(name: str) -> str:
    """MIME type of a file by its name."""
    ending = name.rpartition(".")[2]
    return TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
