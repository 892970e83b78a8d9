"""What runs in the queue for the page Classroom: a task is prepared, and the class's evidence becomes a certificate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from specviz.classroom.records import Room, Task
from specviz.web.classroom.host import Hall, begun, pair_of, settings_of
from specviz.web.jobs import server_workers

if TYPE_CHECKING:
    from specviz.jobs.queue import Ticket
    from specviz.web.classroom.state import Desk


def begin(desk: Desk, ticket: Ticket, hall: Hall, room: Room, kind: str, number: int) -> None:
    """Open a task; a second click that asks for the same number changes nothing."""
    begun(ticket, hall, room, kind, number)
    desk.put(ticket)


def certified(ticket: Ticket, hall: Hall, task: Task) -> bytes:
    """The file that ``specviz check`` confirms. Raises EvidenceError before the first test."""
    settings = settings_of(task)
    pair = pair_of(ticket, settings)
    from specviz.classroom.certificate import certificate

    drawn = [(one.student, one.first, one.count) for one in hall.drawn(task.number)]
    made = server_workers.run_in_worker(
        certificate, pair, settings, (settings, drawn), lambda share, *_: ticket.tick(share), "a certificate"
    )
    return json.dumps(made, ensure_ascii=False, indent=1).encode()


def sheet(seed: int, key: bool) -> bytes:
    """The worksheet of a seed as PDF, or its answers."""
    from specviz.classroom.worksheet import worksheet
    from specviz.web.classroom.worksheet_pdf import pdf

    return pdf([worksheet(seed)], key=key)
