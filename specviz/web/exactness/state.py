"""One visitor's examination: the question, what was drawn for it so far, what is being drawn. Plain records, no torch.

The page asks, the work in the queue (work.py) answers with a new frozen ``Drawn``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specviz.errors import SettingsError, SpecvizError
from specviz.export.facts import proposing
from specviz.figures.exactness.evidence import Filling, Flat
from specviz.settings import Settings
from specviz.web.common.access import linked
from specviz.web.common.page import PageState, Work, known_pair
from specviz.web.common.queue import Queue

if TYPE_CHECKING:
    from specviz.evidence.experiment import Answer

LENGTHS = (1, 2, 3, 4)
LENGTH = 2  # until somebody chooses
FILE = "file"
SOURCES = {
    "speculative": "Speculative decoding",
    "target": "Target-only sampling",
    "assisted": "Assisted generation (transformers)",
    FILE: "A file of samples",
}
LARGEST = 25  # MB of an uploaded file; the command line takes more
MOST = 1_000_000  # draws of one examination: the last look of its plan (evidence/looks.py)
MOST_SLOW = 10_000  # of a decoder that draws one text at a time
SEEDS, SEED_DRAWS = 200, 300  # runs of the flat histogram, and draws of each
CHOSEN = "Chosen random numbers are left out here. A run with chosen random numbers is not a random sample."


@dataclass(frozen=True, slots=True)
class Question:
    """What is examined. Raises SettingsError where it cannot be."""

    settings: Settings
    source: str = "speculative"

    def __post_init__(self) -> None:
        if self.settings.length not in LENGTHS:
            raise SettingsError("length", self.settings.length, f"a whole number from {LENGTHS[0]} to {LENGTHS[-1]} on this page")
        if self.source not in SOURCES:
            raise SettingsError("source", self.source, f"one of {', '.join(SOURCES)}")
        if self.settings.edited:
            raise SettingsError(
                "uniforms",
                sorted(self.settings.uniforms),
                "none on this page: a run with chosen random numbers is not a random sample",
            )
        if self.source == "assisted" and self.settings.gamma == 0:
            raise SettingsError("gamma", 0, "at least 1 for assisted generation")

    @property
    def most(self) -> int:
        return MOST_SLOW if self.source == "assisted" else MOST

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same question."""
        query = self.settings.to_query() | {"prompt": self.settings.prompt, "length": str(self.settings.length)}
        return query if self.source == "speculative" else query | {"source": self.source}

    @classmethod
    def of_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Question, list[str]]:
        """The question of a link, over ``base`` where it is silent, and a sentence for each value that was left out."""
        if not {"prompt", "length", "source", *base.to_query()} & set(query):
            return cls(replace(base, uniforms={}, length=LENGTH)), [CHOSEN] if base.edited else []
        settings, said = linked({"length": str(LENGTH)} | dict(query))
        said += [CHOSEN] if settings.edited else []
        settings = replace(settings, uniforms={})
        settings, unknown = known_pair(settings, base)
        said += unknown
        if settings.length not in LENGTHS:
            said.append(
                f"The link's length was left out: it must be from 1 to {LENGTHS[-1]} on this page, got {settings.length}."
            )
            settings = replace(settings, length=LENGTH)
        source = query.get("source", "speculative")
        try:
            return cls(settings, source), said
        except SettingsError as error:
            return cls(settings), [*said, f"The link's source was left out: {error}"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was found so far.

    arms   the source and the target alone, each as a picture; None until the law is known
    texts  (number of the draw from 1, text of the source, text of the target alone), the latest pair that differs
    looks  (look, what it found), in the order of the plan
    flat   p-values under many seeds, once they were asked for
    engine draws that went through the engine and its caches; the others were made on shared laws
    """

    arms: tuple[Filling, Filling] | None = None
    texts: tuple[int, str, str] | None = None
    looks: tuple[tuple[int, Answer], ...] = ()
    flat: Flat | None = None
    engine: int = 0
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return self.arms[0].n if self.arms else 0


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as one visitor's browser sent it. id: of this upload."""

    id: str
    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Filed:
    """What was found about files of draws: the report, and the heaviest cells as a picture where there is a law."""

    report: Mapping[str, Any]
    picture: Filling | None = None


class Exam(PageState):
    """A question with everything drawn for it.

    bench    what the work keeps between two clicks: the pair, the cells, the counts of the looks
    filed    what was found about sample files, where those are what is examined; taken: which files were taken last
    """

    def __init__(self, question: Question, queue: Queue | None = None):
        super().__init__(question, queue)
        self.begin_anew()

    def begin_anew(self) -> None:
        self.drawn: Any = Drawn()
        self.bench: Any = None
        self.filed: Filed | None = None
        self.taken: tuple[str, ...] = ()

    def prepare(self, prepared: Work) -> None:
        """Ask for the exact distribution and its cells, once."""
        if self.ticket is None and getattr(self.question, "source", None) != FILE:
            said = self.said
            self.submit(prepared)
            self.said = said + self.said

    def take(self, uploads: Sequence[Upload], examine: Work) -> None:
        """Test one file against the target, or two against each other; what was found before stays where they cannot be used."""
        chosen = tuple(one.id for one in uploads)
        if chosen == self.taken or self.overtaken:
            return
        self.stop()
        if self.busy:  # the work before has not ended yet: the page's next run asks again
            return
        self.taken, self.said = chosen, []
        if not uploads:
            self.filed, self.ticket = None, None
        elif len(uploads) > 2:
            self.said = [
                f"One file is tested against the target’s distribution, two files against each other. You gave {len(uploads)}."
            ]
        elif large := [one.name for one in uploads if len(one.content) > LARGEST << 20]:
            self.said = [f"'{large[0]}' is larger than {LARGEST} MB, the limit of this page."]
        else:
            self.submit(examine, tuple(uploads))

    def ask(self, count: object, draw: Work) -> None:
        """Ask for so many more samples. What cannot be done becomes a sentence, and everything stays as it is."""
        try:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise SettingsError("draws", count, f"a whole number from 1 to {self.question.most:,}")
            left = self.question.most - self.drawn.n
            if left <= 0:
                raise SpecvizError(f"The plan ends at {self.question.most:,} samples. Choose another seed to begin again.")
            self.submit(draw, min(count, left))
        except SpecvizError as error:
            self.said = [str(error)]


def started(settings: Settings) -> str:
    """A sentence where the text begins with the start token."""
    return "" if settings.prompt else "The prompt is empty, so the text begins with the start token."


def guessed(settings: Settings) -> str:
    """A sentence where a link brought another proposer or rule than the usual ones."""
    others = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in proposing(settings.to_record()).items())
    return f"As the link asks: {others}." if others else ""


def whole_number(text: str) -> object:
    """What was typed as a number; the text itself where it is none."""
    try:
        return int(str(text).replace(",", "").replace(" ", ""))
    except ValueError:
        return text


def another(question: Question, raw: Mapping[str, Any], read: Callable) -> tuple[Question, list[str]]:
    """The question that the fields ask for; the one before, and sentences, where they hold what cannot be used.

    read  (fields, settings before) -> settings and sentences
    """
    settings, problems = read({key: value for key, value in raw.items() if key not in ("length", "source")}, question.settings)
    if problems:
        return question, problems
    try:
        return Question(replace(settings, length=raw["length"]), raw["source"]), []
    except SettingsError as error:
        return question, [str(error)]
