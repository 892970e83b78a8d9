"""What runs in the queue for the page Classroom: a task is prepared, and the class's evidence becomes a certificate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from specviz.classroom.records import Assignment, Room
from specviz.web.classroom.host import RoomSession, load_pair, prepare_task, read_settings
from specviz.web.jobs import server_workers

if TYPE_CHECKING:
    from specviz.jobs.queue import Ticket
    from specviz.web.classroom.state import DeskState


def begin_task(desk: DeskState, ticket: Ticket, hall: RoomSession, room: Room, kind: str, number: int) -> None:
    """Open a task; a second click that asks for the same number changes nothing."""
    prepare_task(ticket, hall, room, kind, number)
    desk.put(ticket)


def build_certificate_file(ticket: Ticket, hall: RoomSession, task: Assignment) -> bytes:
    """The file that ``specviz check`` confirms. Raises EvidenceError before the first test."""
    settings = read_settings(task)
    pair = load_pair(ticket, settings)
    from specviz.classroom.certificate import certificate

    drawn = [(one.student, one.first, one.count) for one in hall.drawn(task.number)]
    made = server_workers.run_in_worker(
        certificate, pair, settings, (settings, drawn), lambda share, *_: ticket.tick(share), "a certificate"
    )
    return json.dumps(made, ensure_ascii=False, indent=1).encode()


def build_worksheet_file(seed: int, key: bool) -> bytes:
    """The worksheet of a seed as PDF, or its answers."""
    from specviz.classroom.worksheet import make_worksheet
    from specviz.web.classroom.worksheet_pdf import build_pdf

    return build_pdf([make_worksheet(seed)], key=key)
