"""The state of one page for one visitor: its question and link, its job, its sentences. No torch, no Streamlit.

A function of the page's work.py answers a question in the queue, in its own thread. It hands its results over with ``store``, all
at once, so that a page that is drawn meanwhile sees one state or the next. Script runs never write results, and a job for a
question that was replaced cannot: ``store`` raises CancelledError.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specviz.errors import CancelledError, SpecvizError
from specviz.jobs.queue import FairQueue, Ticket
from specviz.web.common.error_sentences import explain_error
from specviz.web.hosting.server_queue import get_server_queue

A_LOOK = 0.01  # seconds between two looks at work that is waited for
STOPS_IN = 0.5  # seconds that a click on Stop waits for the work's next tick
Work = Callable[..., Any]  # (state, ticket, ...) -> anything; what it finds goes through ``put``


class PageState:
    """The question of a visitor on one page, and the work that answers it.

    A click can start a script run while the one before still runs in another thread. Only the youngest may change the question:
    each run begins with ``begin_script_run``, and changes by an overtaken run are left out.

    Attributes:
        question: What is asked; has link(), and on pages with fields of their own from_link(query, base).
        ticket: The job that runs, or the last one for this question.
        notes: Sentences about what was last asked.
        version: Grows whenever there is something new to draw.
        visitor: Whose jobs these are, for the queue.
        turn: How many times a link, or a choice elsewhere on the page, has filled the fields anew.
        drawn_at: When the latest script run began to draw.
        address: Parameters of the address as last read or written.
        is_address_stale: Whether the address is behind the question.
        last_pair: The session's pair as this page last took it over, or set it.
    """

    def __init__(self, question: Any, queue: FairQueue | None = None):
        self.question, self.queue = question, queue or get_server_queue()
        self.ticket: Ticket | None = None
        self.notes: list[str] = []
        self.version = self.turn = 0
        self.visitor: object = None
        self.address: dict[str, str] = {}
        self.is_address_stale = False
        self.last_pair: str | None = None
        self.drawn_at = 0.0
        self.lock = threading.RLock()
        self._runs_in: int | None = None

    def begin_script_run(self) -> None:
        """Mark this thread's script run as the youngest."""
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

    def follow_pair(self, pair: str) -> None:
        """Take over the session's pair, unless this page knows it already: a pair that could not be loaded is not asked for again."""
        if pair != self.last_pair and not self.is_overtaken:
            self.last_pair = pair
            if pair != self.pair:
                self.set_pair(pair)

    def fill_prompt(self, prompt: str) -> None:
        """Ask with another prompt, in fields of their own."""
        self.choose(replace(self.question, settings=replace(self.question.settings, prompt=prompt)))
        self.turn += 1

    @property
    def failures(self) -> list[str]:
        """Why the last work failed, if it did."""
        return [self.ticket.sentence] if self.ticket is not None and self.ticket.state == "failed" else []

    @property
    def notices(self) -> list[str]:
        """Sentences about what could not be done."""
        return [*self.notes, *self.failures]

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        return self.question.build_link()

    def choose(self, question: Any) -> bool:
        """Ask something else; returns whether it is. Work that the new question has no use for stops."""
        with self.lock:
            if question == self.question or self.is_overtaken:
                return False
            if not self.can_reuse_findings(question):
                if self.ticket is not None:
                    self.ticket.discard()
                self.ticket, self.notes = None, []
                self.reset_findings()
            self.question, self.is_address_stale = question, True
            return True

    def can_reuse_findings(self, question: Any) -> bool:
        """Whether work and findings for the present question are of use for another one."""
        return False

    def reset_findings(self) -> None:
        """Drop what was found for the question before."""

    def submit(self, work: Work, *arguments: Any) -> None:
        """Have ``work(self, ticket, *arguments)`` done in the queue, unless something is under way."""
        with self.lock:
            self.notes = []
            if self.is_busy:
                return
            try:
                self.ticket = self.queue.submit(lambda ticket: work(self, ticket, *arguments), self.visitor, self.page)
            except SpecvizError as error:
                self.notes = [explain_error(error)]

    def store(self, ticket: Ticket, **attributes: Any) -> None:
        """Set attributes to results of a job. Raises CancelledError if the question was replaced. After a click on Stop results stay."""
        with self.lock:
            if ticket.is_discarded:
                raise CancelledError
            for name, value in attributes.items():
                setattr(self, name, value)
            self.version += 1

    def stop(self) -> None:
        """Stop the work; what was found stays. Waits a moment, so that the page that is drawn next shows the end."""
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket.ended.wait(STOPS_IN)

    def describe_progress(self) -> str:
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
    PARTIAL_INTERVAL = 1.0  # seconds between two partial results

    def __init__(self, question: Any, queue: FairQueue | None = None):
        super().__init__(question, queue)
        self.results: dict[Any, Any] = {}
        self.partial: Any = None  # what the work has found so far, where that is no answer yet
        self._streamed = 0.0

    def submit(self, work: Work, *arguments: Any) -> None:
        """As every page; what was found so far belongs to the work before."""
        with self.lock:
            if not self.is_busy:
                self.partial, self._streamed = None, 0.0
            super().submit(work, *arguments)

    @property
    def partial_result(self) -> Any:
        """The results of the running job so far; None where there is nothing to show."""
        return self.partial if self.is_busy else None

    def store_partial(self, ticket: Ticket, build: Callable[[], Any]) -> None:
        """Store ``build()`` as the partial result of a job, at most once in PARTIAL_INTERVAL."""
        if time.monotonic() - self._streamed > self.PARTIAL_INTERVAL:
            self.store(ticket, partial=build())
            self._streamed = time.monotonic()

    def wait_for_partial(self, seconds: float) -> None:
        """Return when the work has first shown what it found, or has ended; at the latest after so many seconds."""
        until = time.monotonic() + seconds
        while self.ticket is not None and self.is_busy and not self._streamed and time.monotonic() < until:
            self.ticket.ended.wait(A_LOOK)

    @property
    def has_own_result(self) -> bool:
        """Whether the shown result is the visitor's own."""
        return self.build_key(self.question) in self.results

    @property
    def shown_result(self) -> Any:
        """The visitor's own findings for the question, else the recorded ones; None where there are none."""
        return self.results.get(self.build_key(self.question)) or self.load_recorded()

    def build_key(self, question: Any) -> Any:
        """What findings hang on; questions with the same key only look at them in other ways."""
        raise NotImplementedError

    def load_recorded(self) -> Any:
        raise NotImplementedError

    def can_reuse_findings(self, question: Any) -> bool:
        return self.build_key(question) == self.build_key(self.question)

    def store_result(self, ticket: Ticket, question: Any, result: Any) -> None:
        """Store the answer to a question; it stays if the job is stopped later."""
        others = [(key, one) for key, one in self.results.items() if key != self.build_key(question)][1 - self.KEPT :]
        self.store(ticket, results=dict(others) | {self.build_key(question): result}, partial=None)


def format_duration(seconds: float) -> str:
    """3 s, 2 min."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
