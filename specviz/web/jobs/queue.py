"""One queue for all work of all pages: few places at the machine, fair by visitor, short work first.

Each piece of work runs in a thread of its own and calls ``tick`` several times a second. There it learns that it was stopped,
and there it gives way:

* Work that has held a place for one time slice (``turn``) goes back to the queue if other work waits.
* Work is short until it has used two seconds of a place. Short work goes first, and longer work lets it in at its next tick. So a
  live round waits for one tick of another visitor's million samples, and no place stays empty for it.
* Work that has waited for ten seconds goes before short work, for a whole time slice, whether it is short or long itself. So none
  waits without end, unless brief work alone takes every place. One place is never taken by such work; where there is only one,
  short work has every second time slice. So short work stays quick when more is asked than the machine can do.
* Work that has begun holds memory, also while it waits for its next time slice. So at most 12 pieces have begun and not ended;
  the next ones begin as those end.
* Work that is known to be brief, as a live round is, need not wait for that. As long as it is short it goes before everything, and
  all other work lets it in at its next tick.
* Among equals, the visitor goes first who holds the fewest places, then the one who has waited longest since a place was last
  theirs. It does not matter how much work each has asked for.

Work that waits costs nothing: before its first time slice it has no thread, later its thread sleeps.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from specviz import process
from specviz.errors import BusyError, SpecvizError, out_of_memory
from specviz.progress import estimate_seconds_left
from specviz.web.hosting import metrics
from specviz.web.hosting.options import load_options

MOST, MOST_OF_ONE = 200, 12  # pieces of work in all, and of one visitor
MOST_BEGUN = 12  # pieces of work that have begun and not ended
EXTRA = 2  # places for brief work where there are worker processes
TURN, SHORT, OVERDUE, PATIENCE = 2.0, 2.0, 10.0, 120.0  # seconds
LOOK = 0.05  # seconds between two looks of a queue that closes
NO_MEMORY = "This server's memory is full for the moment. Earlier results are still here. Please ask again in a minute."
REMEMBERED = 2000  # visitors of whom it is known when they were served


class Stopped(Exception):
    """Raised inside the work: it is not wanted any more."""


class Ticket:
    """One piece of work, from the line to its end.

    state     waiting | working | done | stopped | failed
    share     of the work that is done, 0 to 1; doing  what is being done, in a few words
    sentence  why it failed, for a person; ended  set when nothing more comes of it, at the second ended_at
    dropped   whether what it finds is of no use any more, because something else is asked
    brief     whether it ends within a moment, as the page that asks knows
    page      that asked; waited  seconds until it had its first place, None before
    """

    def __init__(self, queue: Queue, work: Callable[[Ticket], Any], visitor: object, page: str = "", brief: bool = False):
        self.state, self.share, self.doing, self.sentence, self.result = "waiting", 0.0, "", "", None
        self.ended = threading.Event()
        self.ended_at: float | None = None
        self.visitor, self.page, self.brief = visitor, page, brief
        self.dropped = False
        self.waited: float | None = None
        self._queue, self._work, self._canceled, self._told = queue, work, False, ""
        self._seen = self._since = time.monotonic()  # _since: in the line, or at its place
        self._worked = 0.0  # seconds of earlier turns
        self._expected: tuple[float, float] | None = None  # seconds by a probe, and those at a place before they were told
        self._firm = False  # whether this turn is not interrupted for short work
        self._called = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in ("waiting", "working")

    @property
    def begun(self) -> bool:
        """Whether it has had a place."""
        return self._thread is not None

    @property
    def ahead(self) -> int:
        """How many stand before it in the line; 0 where it is next or being worked on."""
        return self._queue.ahead(self)

    @property
    def worked(self) -> float:
        """Seconds at a place so far."""
        return self._worked + (time.monotonic() - self._since if self.state == "working" else 0.0)

    @property
    def seconds_left(self) -> float | None:
        """Without waiting: by the probe and the speed so far, or by the speed alone; None while there is nothing to go by."""
        worked = self.worked
        if self._expected is not None:
            expected, before = self._expected
            return estimate_seconds_left(expected, self.share, worked - before)
        return worked * (1.0 - self.share) / self.share if self.share > 0.02 and worked > 0.5 else None

    @property
    def unwanted(self) -> bool:
        """Canceled, or nobody has looked at it for long: a closed page must not keep the machine."""
        return self._canceled or time.monotonic() - self._seen > PATIENCE

    def expect(self, seconds: float) -> None:
        """Called by the work after a probe: it will be at a place for so long from now on."""
        self._expected = seconds, self.worked

    def look(self) -> None:
        """Somebody is still there."""
        self._seen = time.monotonic()

    def cancel(self) -> None:
        """Leave: at once from the line, at the next tick from the work."""
        self._canceled = True
        self._queue.forget(self)

    def end(self, sentence: str) -> None:
        """Leave because the server stops; the page says the sentence."""
        self._told = sentence
        self.cancel()

    def drop(self) -> None:
        """Leave, and hand nothing over."""
        self.dropped = True
        self.cancel()

    def tick(self, share: float | None = None, doing: str | None = None) -> None:
        """Called by the work, several times a second: how far it is. Raises Stopped when it should end."""
        self.share = self.share if share is None else share
        self.doing = self.doing if doing is None else doing
        self._queue.check(self)


class Queue:
    """``places`` pieces of work at a time, at most ``most`` in all, in turns of ``turn`` seconds.

    each   most places that one visitor holds at a time, whether or not others are free; 0 for no limit
    extra  places beside these for brief work: more where what it waits for is done in other processes
    """

    def __init__(
        self,
        places: int = 2,
        most: int = MOST,
        turn: float = TURN,
        short: float = SHORT,
        overdue: float = OVERDUE,
        each: int = 0,
        extra: int = 0,
    ):
        self.extra = extra
        self.places, self.most, self.turn, self.short, self.overdue = places, most, turn, short, overdue
        self.each = each or places
        self._lock = threading.Lock()
        self._line: list[Ticket] = []
        self._working: list[Ticket] = []
        self._served: OrderedDict[object, float] = OrderedDict()  # visitor -> when they last were given a place
        self._last_was_firm = False
        self.closed = False
        self.when_ended: Callable[[Ticket], None] = lambda ticket: None

    @property
    def waiting(self) -> int:
        return len(self._line)

    @property
    def working(self) -> int:
        return len(self._working)

    def close(self, patience: float, sentence: str) -> int:
        """Take nothing more, and wait at most ``patience`` seconds for the work that will have ended by then.

        The rest is told the sentence as soon as that is known of it. Returns how many pieces of work that were.
        """
        with self._lock:
            self.closed = True
            open_ = [*self._line, *self._working]
        ends, told = time.monotonic() + patience, 0
        while open_ := [ticket for ticket in open_ if not ticket.ended.is_set()]:
            over = time.monotonic() >= ends
            late = [one for one in open_ if over or one.state == "waiting" or (one.seconds_left or 0.0) > patience]
            for ticket in late:
                ticket.end(sentence)
            told += len(late)
            open_ = [ticket for ticket in open_ if ticket not in late]
            if open_:
                open_[0].ended.wait(LOOK)
        return told

    def submit(self, work: Callable[[Ticket], Any], visitor: object = None, page: str = "", brief: bool = False) -> Ticket:
        """Stand in line. visitor: whose work it is; None: one of its own. Raises Busy where the line is full, or closed."""
        ticket = Ticket(self, work, object() if visitor is None else visitor, page, brief)
        with self._lock:
            if self.closed:
                raise BusyError("The server is about to stop. Please ask again in a minute.")
            for one in [one for one in self._line if one.unwanted]:
                self._remove(one)
            every = [*self._line, *self._working]
            if len(every) >= self.most:
                raise BusyError(f"{self.most} requests are already waiting for this machine. Please try again in a minute.")
            if sum(one.visitor == ticket.visitor for one in every) >= MOST_OF_ONE:
                raise BusyError(f"{MOST_OF_ONE} of your requests are already waiting for this machine. Stop one of them first.")
            self._line.append(ticket)
            self._fill()
        return ticket

    def ahead(self, ticket: Ticket) -> int:
        """How many of the line come before a ticket, as things stand."""
        with self._lock:
            return self._order().index(ticket) if ticket in self._line else 0

    def forget(self, ticket: Ticket) -> None:
        """Let a ticket that was canceled leave the line; at its place it learns of it by itself."""
        with self._lock:
            if ticket in self._line:
                self._remove(ticket)

    def check(self, ticket: Ticket) -> None:
        """The work's side of a tick: end, go on, or let another one have a turn."""
        if ticket.unwanted:
            raise Stopped
        if not self._line:
            return
        with self._lock:
            if not self._gives_way(ticket):
                return
            self._leave(ticket)
            ticket.state, ticket._since = "waiting", time.monotonic()
            ticket._called.clear()
            self._line.append(ticket)
            self._fill()
        ticket._called.wait()
        if ticket.unwanted:
            raise Stopped

    def _gives_way(self, ticket: Ticket) -> bool:
        held = time.monotonic() - ticket._since
        if held > self.turn:
            return any(self._may_go(one) for one in self._line)
        if ticket._firm or self._is_short(ticket):
            return not self._is_first(ticket) and self._first_waits()
        return any(self._is_short(one) and self._may_go(one) for one in self._line)

    def _is_first(self, ticket: Ticket) -> bool:
        return ticket.brief and self._is_short(ticket)

    def _first_waits(self) -> bool:
        """Whether brief work waits whose visitor may hold a place."""
        held = Counter(ticket.visitor for ticket in self._working)
        return any(self._is_first(one) and held[one.visitor] < self.each for one in self._line)

    def _is_short(self, ticket: Ticket) -> bool:
        return ticket.worked <= self.short

    def _is_overdue(self, ticket: Ticket) -> bool:
        return time.monotonic() - ticket._since > self.overdue

    def _overdue_may_go(self) -> bool:
        """Whether the next time slice may go to work that has waited for long, before short work."""
        if self.places == 1:
            return not self._last_was_firm
        return sum(ticket._firm for ticket in self._working) < self.places - 1

    def _order(self) -> list[Ticket]:
        """The line as it would be served now."""
        held, may_go = Counter(ticket.visitor for ticket in self._working), self._overdue_may_go()
        keys = {}
        for arrival, ticket in enumerate(self._line):
            overdue = may_go and self._is_overdue(ticket)
            keys[ticket] = (
                not self._is_first(ticket),
                not overdue,
                not (overdue or self._is_short(ticket)),
                held[ticket.visitor],
                max(ticket._since, self._served.get(ticket.visitor, 0.0)),
                arrival,
            )
            held[ticket.visitor] += 1  # a visitor's next piece comes after everybody's first
        return sorted(self._line, key=keys.__getitem__)

    def _fill(self) -> None:
        """Start or wake the next work for every free place."""
        while (ticket := self._next()) is not None and len(self._working) < self.places + self.extra * self._is_first(ticket):
            if ticket.unwanted:
                self._remove(ticket)
                continue
            self._line.remove(ticket)
            ticket._firm = self._last_was_firm = self._overdue_may_go() and self._is_overdue(ticket)
            self._served[ticket.visitor] = time.monotonic()
            self._served.move_to_end(ticket.visitor)
            while len(self._served) > REMEMBERED:
                self._served.popitem(last=False)
            self._working.append(ticket)
            if ticket.waited is None:
                ticket.waited = time.monotonic() - ticket._since
            ticket.state, ticket._since = "working", time.monotonic()
            if not ticket.begun:
                ticket._thread = threading.Thread(target=self._run, args=(ticket,), name="queued work", daemon=True)
                try:
                    ticket._thread.start()
                except (RuntimeError, MemoryError):  # the system has no thread left; the place must not be lost with it
                    self._working.remove(ticket)
                    ticket.ended_at = time.monotonic()
                    ticket.state, ticket.sentence = "failed", NO_MEMORY
                    ticket.ended.set()
                    self.when_ended(ticket)
            ticket._called.set()

    def _next(self) -> Ticket | None:
        """The first of the line that may begin or go on, and whose visitor may hold one more place."""
        held = Counter(ticket.visitor for ticket in self._working)
        return next((ticket for ticket in self._order() if held[ticket.visitor] < self.each and self._may_go(ticket)), None)

    def _may_go(self, ticket: Ticket) -> bool:
        return ticket.begun or ticket.brief or sum(one.begun for one in [*self._line, *self._working]) < MOST_BEGUN

    def _remove(self, ticket: Ticket) -> None:
        """Out of the line. What has begun already is woken and ends by itself."""
        self._line.remove(ticket)
        if not ticket.begun:
            ticket.ended_at = time.monotonic()
            ticket.state, ticket.sentence = ("failed", ticket._told) if ticket._told else ("stopped", "")
            ticket.ended.set()
            self.when_ended(ticket)
        ticket._called.set()

    def _leave(self, ticket: Ticket) -> None:
        if ticket in self._working:
            self._working.remove(ticket)
            ticket._worked += time.monotonic() - ticket._since

    def _run(self, ticket: Ticket) -> None:
        try:
            ticket.result = ticket._work(ticket)
            end = "done"
        except Stopped:
            end, ticket.sentence = ("failed", ticket._told) if ticket._told else ("stopped", "")
        except SpecvizError as error:
            end, ticket.sentence = "failed", str(error)
        except Exception as error:  # a page must outlive what a library throws
            logging.getLogger(__name__).exception("queued work failed")
            end = "failed"
            ticket.sentence = f"The computation failed ({type(error).__name__}). Earlier results are still here."
            if out_of_memory(error):
                ticket.sentence = NO_MEMORY
        with self._lock:
            self._leave(ticket)
            ticket.ended_at = time.monotonic()
            ticket.state = end
            self._fill()
        ticket.ended.set()
        self.when_ended(ticket)
        process.trim_memory()


@lru_cache(maxsize=1)
def shared() -> Queue:
    """The queue of this server."""
    queue = Queue(
        load_options().places, each=load_options().places_per_visitor, extra=EXTRA if load_options().worker_processes else 0
    )
    queue.when_ended = metrics.count_ended_work
    return queue


def threads_of_a_place() -> int:
    """Threads of PyTorch for each place: with two places on two cores more would only take turns (docs/explanation/architecture.md)."""
    return max(1, (os.cpu_count() or 1) // shared().places)
