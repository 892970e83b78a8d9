"""What every page has that asks for long work: a question, a place in the line, sentences. Plain records, no torch.

The page asks, functions of its ``work`` answer in the queue; they put what they found in the place for it, whole.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from specviz.errors import SpecvizError
from specviz.models.pairs.catalogue import PAIRS
from specviz.settings import Settings
from specviz.web.common.queue import Queue, Ticket

STOPS_IN = 0.5  # seconds that a click on Stop waits for the work's next tick
LOOK_AGAIN = 0.7  # seconds between two looks at work in the queue
QUEUE = Queue()


class Queued:
    """What a visitor asks on one page, and the work that answers.

    ticket   the work that is under way or was last done; said  sentences about what was last asked
    polling  whether the page looks again by itself
    """

    def __init__(self, question: Any, queue: Queue = QUEUE):
        self.question, self.queue = question, queue
        self.ticket: Ticket | None = None
        self.said: list[str] = []
        self.polling = False

    @property
    def busy(self) -> bool:
        return self.ticket is not None and self.ticket.open

    @property
    def notices(self) -> list[str]:
        """Sentences about what could not be done."""
        failed = [self.ticket.sentence] if self.ticket is not None and self.ticket.state == "failed" else []
        return [*self.said, *failed]

    def choose(self, question: Any) -> bool:
        """Ask something else; returns whether it is. Work for the question before stops."""
        if question == self.question:
            return False
        if not self.serves(question):
            self.stop()
        self.question = question
        return True

    def serves(self, question: Any) -> bool:
        """Whether the work for the present question is of use for another one."""
        return False

    def stop(self) -> None:
        """Stop the work; what was found stays. Waits a moment, so that the page that is drawn next shows the end."""
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket.ended.wait(STOPS_IN)

    def progress(self) -> str:
        """The line beside the bar: what is being done or how many stand before, and the time left."""
        ticket = self.ticket
        if ticket.state == "waiting":
            if ticket.doing:
                return f"{ticket.doing}: others have their turn, {ticket.ahead} before this one …"
            return f"In line for one of {self.queue.places} places: {ticket.ahead} before this one …"
        left = ticket.seconds_left
        return f"{ticket.doing or 'Starting'} …" + (f" about {duration(left)} left" if left is not None else "")

    @staticmethod
    def work() -> ModuleType:
        """Where the functions are that the queue runs; without torch until they do."""
        raise NotImplementedError

    def _submit(self, what: str, *arguments: Any) -> None:
        if self.busy:
            return
        work = self.work()
        try:
            self.ticket = self.queue.submit(lambda ticket: getattr(work, what)(self, ticket, *arguments))
        except SpecvizError as error:
            self.said = [str(error)]


def duration(seconds: float) -> str:
    """3 s, 2 min."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


def known_pair(settings: Settings, base: Settings) -> tuple[Settings, list[str]]:
    """Settings of a link, and a sentence where its pair is neither in the catalogue nor the one at hand and the usual one took its place."""
    if settings.pair in PAIRS or settings.pair == base.pair:
        return settings, []
    said = f"The link's pair was left out: {settings.pair[:200]!r} is not in the catalogue (known: {', '.join(PAIRS)})."
    return replace(settings, pair=Settings().pair), [said]
