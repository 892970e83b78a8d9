"""A line for long work: few places at the machine, everybody's turn comes, and who leaves makes room within a second.

Each piece of work has a thread of its own and asks ``tick`` again and again while it runs. There it learns that it was
stopped, and there it gives way: after a turn of some seconds it goes to the end of the line if others wait. So a visitor
who wants a hundred draws waits for two turns at most for each one before him, not for somebody's million.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from specviz.errors import SpecvizError

PLACES, MOST, TURN, PATIENCE = 2, 60, 2.0, 120.0


class Stopped(Exception):
    """Raised inside the work: whoever asked for it does not want it any more."""


class Ticket:
    """One piece of work, from the line to its end.

    state     waiting | working | done | stopped | failed
    share     of the work that is done, 0 to 1; doing  what is being done, in a few words
    sentence  why it failed, for a person; ended  set when nothing more comes of it
    """

    def __init__(self, queue: Queue, work: Callable[[Ticket], Any]):
        self.state, self.share, self.doing, self.sentence, self.result = "waiting", 0.0, "", "", None
        self.ended = threading.Event()
        self._queue, self._work, self._cancelled = queue, work, False
        self._seen = self._began = time.monotonic()
        self._worked = 0.0  # seconds of earlier turns

    @property
    def open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in ("waiting", "working")

    @property
    def ahead(self) -> int:
        """How many stand before it in the line; 0 where it is next or being worked on."""
        return self._queue.ahead(self)

    @property
    def seconds_left(self) -> float | None:
        """At the speed so far and without waiting; None while there is nothing to go by."""
        worked = self._worked + (time.monotonic() - self._began if self.state == "working" else 0.0)
        return worked * (1.0 - self.share) / self.share if self.share > 0.02 and worked > 0.5 else None

    @property
    def unwanted(self) -> bool:
        """Cancelled, or nobody has looked at it for long: a closed page must not keep the machine."""
        return self._cancelled or time.monotonic() - self._seen > PATIENCE

    def look(self) -> None:
        """Somebody is still there."""
        self._seen = time.monotonic()

    def cancel(self) -> None:
        """Leave: at once from the line, at the next tick from the work."""
        self._cancelled = True
        self._queue.wake()

    def tick(self, share: float | None = None, doing: str | None = None) -> None:
        """Called by the work, several times a second: how far it is. Raises Stopped when it should end."""
        self.share = self.share if share is None else share
        self.doing = self.doing if doing is None else doing
        self._queue.check(self)


class Queue:
    """``places`` pieces of work at a time, at most ``most`` in all, in turns of ``turn`` seconds."""

    def __init__(self, places: int = PLACES, most: int = MOST, turn: float = TURN):
        self.places, self.most, self.turn = places, most, turn
        self._changed = threading.Condition()
        self._line: list[Ticket] = []
        self._working: list[Ticket] = []

    def submit(self, work: Callable[[Ticket], Any]) -> Ticket:
        """Stand in line. Raises SpecvizError where the line is full."""
        ticket = Ticket(self, work)
        with self._changed:
            if len(self._line) + len(self._working) >= self.most:
                raise SpecvizError(f"{self.most} visitors already wait for this machine: please try again in a minute.")
            self._line.append(ticket)
        threading.Thread(target=self._run, args=(ticket,), name="queued work", daemon=True).start()
        return ticket

    def ahead(self, ticket: Ticket) -> int:
        with self._changed:
            return self._line.index(ticket) if ticket in self._line else 0

    def wake(self) -> None:
        """Let everyone in the line look again."""
        with self._changed:
            self._changed.notify_all()

    def check(self, ticket: Ticket) -> None:
        """The work's side of a tick: end, go on, or let the next one have a turn."""
        if ticket.unwanted:
            raise Stopped
        if self._line and time.monotonic() - ticket._began > self.turn:
            with self._changed:
                self._leave(ticket)
                self._line.append(ticket)
            self._enter(ticket)

    def _run(self, ticket: Ticket) -> None:
        try:
            self._enter(ticket)
            ticket.result = ticket._work(ticket)
            end = "done"
        except Stopped:
            end = "stopped"
        except SpecvizError as error:
            end, ticket.sentence = "failed", str(error)
        except Exception as error:  # a page must outlive what a library throws
            logging.getLogger(__name__).exception("queued work failed")
            end = "failed"
            ticket.sentence = f"The work failed ({type(error).__name__}). What was drawn before is still here."
        with self._changed:
            self._leave(ticket)
            ticket.state = end
        ticket.ended.set()

    def _enter(self, ticket: Ticket) -> None:
        with self._changed:
            ticket.state = "waiting"
            while not ticket.unwanted and (len(self._working) >= self.places or self._line[0] is not ticket):
                self._changed.wait(PATIENCE / 10)
            self._line.remove(ticket)
            self._changed.notify_all()
            if ticket.unwanted:
                raise Stopped
            self._working.append(ticket)
            ticket.state, ticket._began = "working", time.monotonic()

    def _leave(self, ticket: Ticket) -> None:
        if ticket in self._working:
            self._working.remove(ticket)
            ticket._worked += time.monotonic() - ticket._began
            self._changed.notify_all()
