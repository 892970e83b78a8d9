"""Work in the queue for the page Classroom: beginning a task, and the files of certificates and worksheets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from specviz.jobs.queue import Ticket
from specviz.web.classroom.room.host import RoomSession, load_pair
from specviz.web.classroom.room.preparation import prepare_task
from specviz.web.classroom.room.records import Assignment, Room
from specviz.web.hosting import model_loading, server_workers

if TYPE_CHECKING:
    from specviz.web.classroom.state import DeskState


def begin_task(desk: DeskState, ticket: Ticket, session: RoomSession, room: Room, kind: str, number: int) -> None:
    """Open a task from the page; a second click with the same number changes nothing."""
    prepare_task(ticket, session, room, kind, number)
    desk.store(ticket)


def build_certificate_file(ticket: Ticket, session: RoomSession, task: Assignment) -> bytes:
    """The file that ``specviz check`` confirms. Raises EvidenceError before the first test."""
    settings = task.settings
    pair = load_pair(ticket, settings)
    from specviz.web.classroom.room.class_evidence import build_certificate

    blocks = [(one.student, one.first, one.count) for one in session.list_samples(task.number)]
    report = server_workers.run_in_worker(
        build_certificate, pair, settings, (settings, blocks), lambda share, *_: ticket.tick(share), "a certificate"
    )
    return json.dumps(report, ensure_ascii=False, indent=1).encode()


def build_worksheet_file(ticket: Ticket, seed: int, key: bool) -> bytes:
    """The worksheet of a seed as PDF, or its answers."""
    model_loading.wait_for_libraries(ticket)
    from specviz.web.classroom.worksheet import make_worksheet
    from specviz.web.classroom.worksheet_pdf import build_pdf

    return build_pdf([make_worksheet(seed)], key=key)
