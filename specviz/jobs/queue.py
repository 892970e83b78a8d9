"""A fair queue: few places for jobs, shared among visitors, short jobs first.

Each job runs in a thread of its own and calls ``tick`` several times a second, where it may be cancelled or give way:

* After one time slice a job goes back to the queue if another one waits.
* A job is short until it has held a place for two seconds. Short jobs go first; longer ones let them in at their next tick.
* A job that has waited for ten seconds is overdue and goes before short ones, for a whole time slice. One place is never taken by
  overdue jobs; where there is only one, short jobs have every second time slice.
* At most 12 jobs have started and not ended, because a started job holds memory while it waits.
* A brief job, such as a live round, is exempt from that limit and goes before everything as long as it is short.
* Among equals, the visitor goes first who holds the fewest places, then the one who has waited longest.

A waiting job costs nothing: before its first time slice it has no thread, later its thread sleeps.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from specviz import process
from specviz.errors import BusyError, CancelledError, SpecvizError, is_out_of_memory
from specviz.progress import estimate_seconds_left

MAX_OPEN, MAX_PER_VISITOR = 200, 12  # jobs in all, and of one visitor
MAX_STARTED = 12  # jobs that have started and not ended
TIME_SLICE, SHORT_SECONDS, OVERDUE_SECONDS, ABANDONED_AFTER = 2.0, 2.0, 10.0, 120.0  # seconds
CLOSE_POLL = 0.05  # seconds between two checks of a queue that closes
MEMORY_FULL = "This server's memory is full for the moment. Earlier results are still here. Please ask again in a minute."
MAX_REMEMBERED = 2000  # visitors of whom it is known when they last had a place


class Ticket:
    """One job, from its submission to its end.

    Attributes:
        state: ``waiting``, ``working``, ``done``, ``stopped`` or ``failed``.
        share: Share of the job that is done, 0 to 1.
        doing: What is being done, in a few words.
        sentence: Why it failed, for the visitor.
        ended: Set when the job has ended, at the second ended_at.
        end: A future that is done at the same moment, with None, for an event loop that waits without a thread.
        is_discarded: Whether its result is no longer of use, because the visitor has made another request.
        is_brief: Whether it ends within a moment, as the caller knows.
        page: The page that submitted it.
        waited: Seconds until it had its first place; None before.
    """

    def __init__(self, queue: FairQueue, work: Callable[[Ticket], Any], visitor: object, page: str = "", is_brief: bool = False):
        self.state, self.share, self.doing, self.sentence, self.result = "waiting", 0.0, "", "", None
        self.ended = threading.Event()
        self.end: Future[None] = Future()
        self.ended_at: float | None = None
        self.visitor, self.page, self.is_brief = visitor, page, is_brief
        self.is_discarded = False
        self.waited: float | None = None
        self._queue, self._work, self._is_cancelled, self._reason = queue, work, False, ""
        self._seen_at = self._since = time.monotonic()  # _since: in the queue, or at its place
        self._worked = 0.0  # seconds of earlier time slices
        self._expected: tuple[float, float] | None = None  # seconds by a probe, and seconds worked when it ended
        self._is_overdue_slice = False  # whether this time slice is not interrupted for short jobs
        self._called = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("waiting", "working")

    @property
    def has_started(self) -> bool:
        """Whether it has had a place."""
        return self._thread is not None

    @property
    def jobs_ahead(self) -> int:
        """How many jobs are before it in the queue; 0 where it is next or working."""
        return self._queue.count_ahead(self)

    @property
    def seconds_worked(self) -> float:
        """Seconds at a place so far."""
        return self._worked + (time.monotonic() - self._since if self.state == "working" else 0.0)

    @property
    def seconds_left(self) -> float | None:
        """Seconds of work left, without waiting: by a probe and the speed so far, or by the speed alone; None while unknown."""
        worked = self.seconds_worked
        if self._expected is not None:
            expected, before = self._expected
            return estimate_seconds_left(expected, self.share, worked - before)
        return worked * (1.0 - self.share) / self.share if self.share > 0.02 and worked > 0.5 else None

    @property
    def is_unwanted(self) -> bool:
        """Whether it was cancelled, or its page was closed: ``keep_alive`` was not called for long."""
        return self._is_cancelled or time.monotonic() - self._seen_at > ABANDONED_AFTER

    def expect(self, seconds: float) -> None:
        """Set how long the job will hold a place from now on. Called by the job after a probe."""
        self._expected = seconds, self.seconds_worked

    def keep_alive(self) -> None:
        """Tell the queue that the visitor is still there."""
        self._seen_at = time.monotonic()

    def cancel(self) -> None:
        """Cancel the job: at once if it waits, else at its next tick."""
        self._is_cancelled = True
        self._queue.remove_cancelled(self)

    def fail(self, sentence: str) -> None:
        """Cancel the job because the server stops. It ends as failed, with this sentence."""
        self._reason = sentence
        self.cancel()

    def _describe_stop(self) -> tuple[str, str]:
        """State and sentence of a cancelled job."""
        return ("failed", self._reason) if self._reason else ("stopped", "")

    def discard(self) -> None:
        """Cancel the job, and mark its result as no longer of use."""
        self.is_discarded = True
        self.cancel()

    def tick(self, share: float | None = None, doing: str | None = None) -> None:
        """Report progress, several times a second, from inside the job. Raises CancelledError when it should end."""
        self.share = self.share if share is None else share
        self.doing = self.doing if doing is None else doing
        self._queue.check(self)


class FairQueue:
    """Runs jobs in threads, ``places`` of them at a time.

    Args:
        places: Jobs that work at a time.
        max_open: Jobs in all, waiting and working.
        time_slice: Seconds after which any other job may take its place.
        short: Seconds at a place up to which a job is short.
        overdue: Seconds after which a waiting job goes before short ones.
        each: Most places that one visitor holds at a time, whether or not others are free; 0 for no limit.
        extra: Places beside these for brief jobs, for servers that compute in other processes.
        on_end: Called with each ticket that has ended.
    """

    def __init__(
        self,
        places: int = 2,
        max_open: int = MAX_OPEN,
        time_slice: float = TIME_SLICE,
        short: float = SHORT_SECONDS,
        overdue: float = OVERDUE_SECONDS,
        each: int = 0,
        extra: int = 0,
        on_end: Callable[[Ticket], None] = lambda ticket: None,
    ):
        self.places, self.extra, self.max_open = places, extra, max_open
        self.time_slice, self.short, self.overdue = time_slice, short, overdue
        self.each = each or places
        self.on_end = on_end
        self.is_closed = False
        self._lock = threading.Lock()
        self._waiting: list[Ticket] = []
        self._working: list[Ticket] = []
        self._served: OrderedDict[object, float] = OrderedDict()  # visitor -> when they last were given a place
        self._last_was_overdue = False

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return len(self._waiting)

    @property
    def working(self) -> int:
        """Number of jobs at a place."""
        return len(self._working)

    def close(self, patience: float, sentence: str) -> int:
        """Refuse new jobs, and wait at most ``patience`` seconds for those that will have ended by then.

        The others fail with the sentence as soon as it is known of them. Returns how many those were.
        """
        with self._lock:
            self.is_closed = True
            open_ = [*self._waiting, *self._working]
        deadline, failed = time.monotonic() + patience, 0
        while open_ := [ticket for ticket in open_ if not ticket.ended.is_set()]:
            is_over = time.monotonic() >= deadline
            late = [one for one in open_ if is_over or one.state == "waiting" or (one.seconds_left or 0.0) > patience]
            for ticket in late:
                ticket.fail(sentence)
            failed += len(late)
            open_ = [ticket for ticket in open_ if ticket not in late]
            if open_:
                open_[0].ended.wait(CLOSE_POLL)
        return failed

    def submit(self, work: Callable[[Ticket], Any], visitor: object = None, page: str = "", is_brief: bool = False) -> Ticket:
        """Add a job to the queue. visitor: whose job it is; None: a visitor of its own. Raises BusyError if it is full or closed."""
        ticket = Ticket(self, work, object() if visitor is None else visitor, page, is_brief)
        with self._lock:
            if self.is_closed:
                raise BusyError("The server is about to stop. Please ask again in a minute.")
            for unwanted in [other for other in self._waiting if other.is_unwanted]:
                self._remove(unwanted)
            open_ = [*self._waiting, *self._working]
            if len(open_) >= self.max_open:
                raise BusyError(f"{self.max_open} requests are already waiting for this machine. Please try again in a minute.")
            if sum(other.visitor == ticket.visitor for other in open_) >= MAX_PER_VISITOR:
                raise BusyError(
                    f"{MAX_PER_VISITOR} of your requests are already waiting for this machine. Stop one of them first."
                )
            self._waiting.append(ticket)
            self._fill()
        return ticket

    def count_ahead(self, ticket: Ticket) -> int:
        """Number of waiting jobs that would start before this one, as things stand."""
        with self._lock:
            return self._order().index(ticket) if ticket in self._waiting else 0

    def remove_cancelled(self, ticket: Ticket) -> None:
        """Remove a cancelled job if it waits; one that works ends at its next tick."""
        with self._lock:
            if ticket in self._waiting:
                self._remove(ticket)

    def check(self, ticket: Ticket) -> None:
        """Return, wait for the next time slice, or raise CancelledError. Called by a job's tick."""
        if ticket.is_unwanted:
            raise CancelledError
        if not self._waiting:
            return
        with self._lock:
            if not self._must_give_way(ticket):
                return
            self._vacate_place(ticket)
            ticket.state, ticket._since = "waiting", time.monotonic()
            ticket._called.clear()
            self._waiting.append(ticket)
            self._fill()
        ticket._called.wait()
        if ticket.is_unwanted:
            raise CancelledError

    def _must_give_way(self, ticket: Ticket) -> bool:
        held = time.monotonic() - ticket._since
        if held > self.time_slice:
            return any(self._may_start(other) for other in self._waiting)
        if ticket._is_overdue_slice or self._is_short(ticket):
            return not self._goes_first(ticket) and self._has_waiting_brief_job()
        return any(self._is_short(other) and self._may_start(other) for other in self._waiting)

    def _goes_first(self, ticket: Ticket) -> bool:
        return ticket.is_brief and self._is_short(ticket)

    def _has_waiting_brief_job(self) -> bool:
        """Whether a brief job waits whose visitor may hold a place."""
        held = Counter(ticket.visitor for ticket in self._working)
        return any(self._goes_first(other) and held[other.visitor] < self.each for other in self._waiting)

    def _is_short(self, ticket: Ticket) -> bool:
        return ticket.seconds_worked <= self.short

    def _is_overdue(self, ticket: Ticket) -> bool:
        return time.monotonic() - ticket._since > self.overdue

    def _overdue_may_go_first(self) -> bool:
        """Whether the next time slice may go to an overdue job before short ones."""
        if self.places == 1:
            return not self._last_was_overdue
        return sum(ticket._is_overdue_slice for ticket in self._working) < self.places - 1

    def _order(self) -> list[Ticket]:
        """The waiting jobs in the order in which they would start now."""
        held, overdue_first = Counter(ticket.visitor for ticket in self._working), self._overdue_may_go_first()
        keys = {}
        for arrival, ticket in enumerate(self._waiting):
            is_overdue = overdue_first and self._is_overdue(ticket)
            keys[ticket] = (
                not self._goes_first(ticket),
                not is_overdue,
                not (is_overdue or self._is_short(ticket)),
                held[ticket.visitor],
                max(ticket._since, self._served.get(ticket.visitor, 0.0)),
                arrival,
            )
            held[ticket.visitor] += 1  # a visitor's next job comes after everybody's first
        return sorted(self._waiting, key=keys.__getitem__)

    def _fill(self) -> None:
        """Start or wake the next job for every free place."""
        while (ticket := self._find_next()) is not None and len(self._working) < self.places + self.extra * self._goes_first(
            ticket
        ):
            if ticket.is_unwanted:
                self._remove(ticket)
                continue
            self._waiting.remove(ticket)
            ticket._is_overdue_slice = self._last_was_overdue = self._overdue_may_go_first() and self._is_overdue(ticket)
            self._served[ticket.visitor] = time.monotonic()
            self._served.move_to_end(ticket.visitor)
            while len(self._served) > MAX_REMEMBERED:
                self._served.popitem(last=False)
            self._working.append(ticket)
            if ticket.waited is None:
                ticket.waited = time.monotonic() - ticket._since
            ticket.state, ticket._since = "working", time.monotonic()
            if not ticket.has_started:
                ticket._thread = threading.Thread(target=self._run, args=(ticket,), name="queued job", daemon=True)
                try:
                    ticket._thread.start()
                except (RuntimeError, MemoryError):  # the system has no thread left; the place must not be lost with it
                    self._working.remove(ticket)
                    self._end(ticket, "failed", MEMORY_FULL)
            ticket._called.set()

    def _find_next(self) -> Ticket | None:
        """The first waiting job that may start or continue, and whose visitor may hold one more place."""
        held = Counter(ticket.visitor for ticket in self._working)
        return next((ticket for ticket in self._order() if held[ticket.visitor] < self.each and self._may_start(ticket)), None)

    def _may_start(self, ticket: Ticket) -> bool:
        if ticket.has_started or ticket.is_brief:
            return True
        return sum(other.has_started for other in [*self._waiting, *self._working]) < MAX_STARTED

    def _remove(self, ticket: Ticket) -> None:
        """Remove a waiting job. One that has started is woken and ends by itself."""
        self._waiting.remove(ticket)
        if not ticket.has_started:
            self._end(ticket, *ticket._describe_stop())
        ticket._called.set()

    def _vacate_place(self, ticket: Ticket) -> None:
        if ticket in self._working:
            self._working.remove(ticket)
            ticket._worked += time.monotonic() - ticket._since

    def _run(self, ticket: Ticket) -> None:
        state, sentence = "done", ""
        try:
            ticket.result = ticket._work(ticket)
        except CancelledError:
            state, sentence = ticket._describe_stop()
        except SpecvizError as error:
            state, sentence = "failed", str(error)
        except Exception as error:  # a page must outlive what a library throws
            logging.getLogger(__name__).exception("queued work failed")
            failed = f"The computation failed ({type(error).__name__}). Earlier results are still here."
            state, sentence = "failed", MEMORY_FULL if is_out_of_memory(error) else failed
        with self._lock:
            self._vacate_place(ticket)
            ticket.sentence, ticket.state = sentence, state  # in this order: who sees the state reads the sentence
            self._fill()
        self._end(ticket, state, sentence)
        process.trim_memory()

    def _end(self, ticket: Ticket, state: str, sentence: str) -> None:
        ticket.ended_at = time.monotonic()
        ticket.sentence, ticket.state = sentence, state
        ticket.ended.set()
        ticket.end.set_result(None)
        self.on_end(ticket)
