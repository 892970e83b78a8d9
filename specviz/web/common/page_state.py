"""The state of one page for one visitor: its question and link, the work that answers, sentences. No torch, no Streamlit.

A page asks; a function of its work.py answers in the queue, in a thread of its own. It hands over what it found with ``put``,
whole, so that a page that is drawn in the middle of the work sees one state or the next. Script runs never write results, and
work for a question that is no longer asked cannot: ``put`` raises Stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specviz.errors import CancelledError, SpecvizError
from specviz.jobs.queue import FairQueue, Ticket
from specviz.web.jobs.server_queue import server_queue

A_LOOK = 0.01  # seconds between two looks at work that is waited for
STOPS_IN = 0.5  # seconds that a click on Stop waits for the work's next tick
Work = Callable[..., Any]  # (state, ticket, ...) -> anything; what it finds goes through ``put``


class PageState:
    """What a visitor asks on one page, and the work that answers.

    question  what is asked; has link(), and for pages with fields of their own of_link(query, base)
    ticket    the work that is under way or was last done for it; said  sentences about what was last asked
    version   grows whenever there is something new to draw
    visitor   whose work it is, for the queue; turn  how many times a link has filled the fields anew
    drawn_at  when the latest script run began to draw what is found
    address   the address's parameters as last read or written; moved  whether the address is behind the question
    followed  the session's pair as this page last took it over, or gave it

    A click can start a script run while the one before still runs in another thread. Only the youngest may change what is asked:
    each run begins with ``enter``, and what an overtaken one wants is left out.
    """

    def __init__(self, question: Any, queue: FairQueue | None = None):
        self.question, self.queue = question, queue or server_queue()
        self.ticket: Ticket | None = None
        self.said: list[str] = []
        self.version = self.turn = 0
        self.visitor: object = None
        self.address: dict[str, str] = {}
        self.moved = False
        self.last_pair: str | None = None
        self.drawn_at = 0.0
        self.lock = threading.RLock()
        self._runs_in: int | None = None

    def enter(self) -> None:
        """This thread's script run is the youngest."""
        self._runs_in, self.drawn_at = threading.get_ident(), time.monotonic()

    @property
    def page(self) -> str:
        """The page's name, which is that of its folder."""
        return type(self).__module__.split(".")[-2]

    @property
    def is_overtaken(self) -> bool:
        """Whether this thread's script run is not the youngest any more."""
        return self._runs_in not in (None, threading.get_ident())

    @property
    def is_busy(self) -> bool:
        return self.ticket is not None and self.ticket.is_open

    @property
    def has_ended_since_drawn(self) -> bool:
        """Whether work has ended since the page began to be drawn: then it may show less than was found, and take it for all."""
        return self.ticket is not None and self.ticket.ended_at is not None and self.ticket.ended_at > self.drawn_at

    @property
    def pair(self) -> str:
        """The pair of models that is asked."""
        return self.question.settings.pair

    def set_pair(self, pair: str) -> None:
        """Ask another pair the same."""
        self.choose(replace(self.question, settings=replace(self.question.settings, pair=pair)))

    def follow(self, pair: str) -> None:
        """Take over the session's pair, unless this page knows it already: a pair that could not be loaded is not asked for again."""
        if pair != self.last_pair and not self.is_overtaken:
            self.last_pair = pair
            if pair != self.pair:
                self.set_pair(pair)

    def fill(self, prompt: str) -> None:
        """Ask with another prompt, in fields of their own."""
        self.choose(replace(self.question, settings=replace(self.question.settings, prompt=prompt)))
        self.turn += 1

    @property
    def notices(self) -> list[str]:
        """Sentences about what could not be done."""
        failed = [self.ticket.sentence] if self.ticket is not None and self.ticket.state == "failed" else []
        return [*self.said, *failed]

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        return self.question.link()

    def choose(self, question: Any) -> bool:
        """Ask something else; returns whether it is. Work that the new question has no use for stops."""
        with self.lock:
            if question == self.question or self.is_overtaken:
                return False
            if not self.can_reuse_findings(question):
                if self.ticket is not None:
                    self.ticket.discard()
                self.ticket, self.said = None, []
                self.reset_findings()
            self.question, self.moved = question, True
            return True

    def can_reuse_findings(self, question: Any) -> bool:
        """Whether work and findings for the present question are of use for another one."""
        return False

    def reset_findings(self) -> None:
        """Drop what was found for the question before."""

    def submit(self, work: Work, *arguments: Any) -> None:
        """Have ``work(self, ticket, *arguments)`` done in the queue, unless something is under way."""
        with self.lock:
            self.said = []
            if self.is_busy:
                return
            try:
                self.ticket = self.queue.submit(lambda ticket: work(self, ticket, *arguments), self.visitor, self.page)
            except SpecvizError as error:
                self.said = [str(error)]

    def put(self, ticket: Ticket, **found: Any) -> None:
        """Work hands over what it found. Raises Stopped where the visitor asks something else by now. A click on Stop keeps what was found."""
        with self.lock:
            if ticket.is_discarded:
                raise CancelledError
            for name, value in found.items():
                setattr(self, name, value)
            self.version += 1

    def stop(self) -> None:
        """Stop the work; what was found stays. Waits a moment, so that the page that is drawn next shows the end."""
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket.ended.wait(STOPS_IN)

    def progress(self) -> str:
        """The line beside the bar: what is being done or how many stand before, and the time left."""
        ticket = self.ticket
        if ticket is None:
            return ""
        if ticket.state == "waiting":
            if ticket.doing:
                return f"{ticket.doing}: paused for others, {ticket.jobs_ahead} ahead …"
            return f"Waiting for one of {self.queue.places} places, {ticket.jobs_ahead} ahead …"
        left = ticket.seconds_left
        return f"{ticket.doing or 'Starting'} …" + (f" about {format_duration(left)} left" if left is not None else "")


class MeasurementState(PageState):
    """A page that remembers its findings by question, and shows recorded findings where there are none of the visitor's own."""

    KEPT = 6  # findings of one visitor that are remembered
    SHOWN_EVERY = 1.0  # seconds between two states of the work that the page may draw

    def __init__(self, question: Any, queue: FairQueue | None = None):
        super().__init__(question, queue)
        self.found: dict[Any, Any] = {}
        self.now: Any = None  # what the work has found so far, where that is no answer yet
        self._streamed = 0.0

    def submit(self, work: Work, *arguments: Any) -> None:
        """As every page; what was found so far belongs to the work before."""
        with self.lock:
            if not self.is_busy:
                self.now, self._streamed = None, 0.0
            super().submit(work, *arguments)

    @property
    def partial_result(self) -> Any:
        """What is found so far, while there is work; None where there is nothing to show of it."""
        return self.now if self.is_busy else None

    def stream(self, ticket: Ticket, make: Callable[[], Any]) -> None:
        """Work shows what it has found so far, unless it just has. make: puts that together."""
        if time.monotonic() - self._streamed > self.SHOWN_EVERY:
            self.put(ticket, now=make())
            self._streamed = time.monotonic()

    def wait_for_partial(self, seconds: float) -> None:
        """Return when the work has first shown what it found, or has ended; at the latest after so many seconds."""
        until = time.monotonic() + seconds
        while self.ticket is not None and self.is_busy and not self._streamed and time.monotonic() < until:
            self.ticket.ended.wait(A_LOOK)

    @property
    def own(self) -> bool:
        """Whether what is shown is the visitor's own."""
        return self.build_key(self.question) in self.found

    @property
    def shown(self) -> Any:
        """The visitor's own findings for the question, else the recorded ones; None where there are none."""
        return self.found.get(self.build_key(self.question)) or self.recorded()

    def build_key(self, question: Any) -> Any:
        """What findings hang on; questions with the same key only look at them in other ways."""
        raise NotImplementedError

    def recorded(self) -> Any:
        raise NotImplementedError

    def can_reuse_findings(self, question: Any) -> bool:
        return self.build_key(question) == self.build_key(self.question)

    def keep(self, ticket: Ticket, question: Any, found: Any) -> None:
        """Work hands over an answer to a question: the whole, or one that stands even if the work is stopped now."""
        others = [(key, one) for key, one in self.found.items() if key != self.build_key(question)][1 - self.KEPT :]
        self.put(ticket, found=dict(others) | {self.build_key(question): found}, now=None)


def format_duration(seconds: float) -> str:
    """3 s, 2 min."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
