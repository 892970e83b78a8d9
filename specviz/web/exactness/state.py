"""One visitor's question on Exactness test, what was sampled for it, and reports on sample files. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.recordings.samples import DecoderSamplesRecord, has_same_samples
from specviz.evidence.testing.results import DECODERS, SIZES, ExactnessResult
from specviz.settings import Settings, update_names
from specviz.web.common.error_sentences import explain_error, explain_left_out
from specviz.web.common.links import read_length, read_link, read_prompt
from specviz.web.common.page_state import Work
from specviz.web.common.pairs import resolve_pair
from specviz.web.common.side_by_side.state import CHOSEN, MOST_SLOW, SamplingState, load_recorded_samples
from specviz.web.hosting.server_options import load_options

LENGTHS = (1, 2, 3, 4)
LENGTH = 2  # default
ALLOWED = f"a whole number from {LENGTHS[0]} to {LENGTHS[-1]} on this page"
FILE, SERVER = "file", "server"
SOURCES = {
    **DECODERS,
    "assisted": "Assisted generation (transformers)",
    FILE: "A file of samples",
    SERVER: "Your own running server",
}
CHOICES = {
    **SOURCES,
    "target": "Target only",
    "assisted": "Hugging Face generate",
    SERVER: "Your own server",
}  # the same where one is chosen
SERVER_SAMPLES, MOST_OF_SERVER, URL_MAX = 2_000, 100_000, 300  # asked at first, and at most; characters of an address
AT_ONCE = 8  # requests to a server at a time


def list_sources() -> list[str]:
    """The sources of this server's mode. A host asks no address that a visitor names: only a local server asks others."""
    return [source for source in SOURCES if source != SERVER or load_options().mode == "local"]


@dataclass(frozen=True, slots=True)
class ExactnessQuestion:
    """The question that is tested. Raises SettingsError where it cannot be."""

    settings: Settings
    source: str = "speculative"

    def __post_init__(self) -> None:
        if self.settings.max_new_tokens not in LENGTHS:
            raise SettingsError("max-new-tokens", self.settings.max_new_tokens, ALLOWED)
        if self.source not in list_sources():
            raise SettingsError("source", self.source, f"one of {', '.join(list_sources())}")
        if self.settings.is_edited:
            allowed = "none on this page: a run with chosen random numbers is not a random sample"
            raise SettingsError("uniforms", sorted(self.settings.uniforms), allowed)
        if self.source == "assisted" and self.settings.gamma == 0:
            raise SettingsError("gamma", 0, "at least 1 for assisted generation")

    @property
    def max_samples(self) -> int:
        return MOST_SLOW if self.source == "assisted" else SIZES[-1]

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same question."""
        query = self.settings.to_query() | {"prompt": self.settings.prompt, "max_new_tokens": str(self.settings.max_new_tokens)}
        return query if self.source == "speculative" else query | {"source": self.source}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[ExactnessQuestion, list[str]]:
        """The question of a link, over ``base`` where it is silent, and a sentence for each value that was left out."""
        query = update_names(query)
        if not ({"prompt", "max_new_tokens", "source", *base.to_query()} - {"pair"}) & set(query):
            settings, said = read_prompt(query, replace(base, uniforms={}, max_new_tokens=LENGTH), base)
            return cls(settings), [*([CHOSEN] if base.is_edited else []), *said]
        query, refused = read_length(query, LENGTHS, LENGTH, ALLOWED)
        settings, said = read_link(query)
        said += [*refused, *([CHOSEN] if settings.is_edited else [])]
        settings, unknown = resolve_pair(replace(settings, uniforms={}), base)
        said += unknown
        try:
            return cls(settings, query.get("source", "speculative")), said
        except SettingsError as error:
            return cls(settings), [*said, explain_left_out(error)]


@dataclass(frozen=True, slots=True)
class SampleUpload:
    """A file as one visitor's browser sent it. id: of this upload."""

    id: str
    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """Whom a visitor wants to have asked. No link holds it. Raises SettingsError."""

    url: str  # of an OpenAI-compatible server
    model: str  # its name there, empty: not named
    samples: str  # as it was typed

    def __post_init__(self) -> None:
        if not 0 < len(self.url) <= URL_MAX:
            raise SettingsError("server", self.url[:60], "an address such as http://localhost:8000/v1")
        if not self.samples.isdecimal() or not 1 <= int(self.samples[:12]) <= MOST_OF_SERVER:
            raise SettingsError("samples", self.samples[:60], f"a whole number from 1 to {MOST_OF_SERVER:,} on this page")


class ExactnessState(SamplingState):
    """A question with everything that was found for it."""

    empty = ExactnessResult()

    def load_recorded(self) -> DecoderSamplesRecord | None:
        if (records := load_recorded_samples()) is None:
            return None
        record = records.exactness
        is_same = self.question.source == record.source and has_same_samples(self.question.settings, record.settings)
        return record if is_same else None

    def reset_findings(self) -> None:
        super().reset_findings()
        self.latest: Work | None = None
        self.report: Mapping[str, Any] | None = None  # on sample files or on a server, JSON-ready
        self.tested_uploads: tuple[str, ...] = ()  # ids of the uploads in the report
        self.server_notes: tuple[str, ...] = ()  # results of the preflight checks, a line each
        self.server_collection: tuple[ServerRequest, Any] | None = None  # with the folder of its samples, to resume from

    def submit(self, work: Work, *arguments: Any) -> None:
        """As every page."""
        with self.lock:
            if not self.is_busy:
                self.latest = work
            super().submit(work, *arguments)

    def test_uploads(self, uploads: Sequence[SampleUpload], examine: Work) -> None:
        """Test one file against the target, or two against each other; what was found before stays where they cannot be used."""
        chosen = tuple(one.id for one in uploads)
        if chosen == self.tested_uploads or self.is_overtaken:
            return
        self.stop()
        if self.is_busy:  # the work before has not ended yet: the page's next run asks again
            return
        self.tested_uploads, self.notes = chosen, []
        if not uploads:
            self.report, self.ticket = None, None
        elif len(uploads) > 2:
            self.notes = [
                f"One file is tested against the target’s distribution, two files against each other. You gave {len(uploads)}."
            ]
        elif large := [one.name for one in uploads if len(one.content) > load_options().upload_mb << 20]:
            self.notes = [
                f"'{large[0]}' is larger than {load_options().upload_mb} MB, the limit of this server. The command line takes more."
            ]
        else:
            self.submit(examine, tuple(uploads))

    def ask_server(self, url: str, model: str, samples: str, audit: Work) -> None:
        """Collect samples of a server and test them. An error becomes a sentence, and nothing else changes."""
        try:
            if SERVER not in list_sources():
                raise SpecvizError("This server asks no other one for a visitor. Run the app yourself, or `specviz audit`.")
            asked = ServerRequest(url.strip(), model.strip(), samples.replace(",", "").replace(" ", ""))
            self.submit(audit, asked)
        except SpecvizError as error:
            self.notes = [explain_error(error)]

    def request_samples(self, count: object, draw: Work) -> None:
        """Ask for more samples, a number as it was typed. An error becomes a sentence, and nothing else changes.

        The first ones of a visitor go on where the recorded ones end: these are drawn again, and the seed makes them the same.
        """
        digits = str(count).replace(",", "").replace(" ", "")
        try:
            if not digits.isdecimal() or not (number := int(digits)):
                raise SettingsError("samples", count, f"a whole number from 1 to {self.question.max_samples:,}")
            left = self.question.max_samples - self.result.n
            if left <= 0:
                raise SpecvizError(f"The plan ends at {self.question.max_samples:,} samples. Choose another seed to begin again.")
            recorded = self.load_recorded()
            before = recorded.result.n if recorded and not self.result.n else 0
            self.submit(draw, min(before + number, left))
        except SpecvizError as error:
            self.notes = [explain_error(error)]


def read_question(question: ExactnessQuestion, raw: Mapping[str, Any], read: Callable) -> tuple[ExactnessQuestion, list[str]]:
    """The question that the fields ask for; the one before, and sentences, where they hold what cannot be used.

    ``read``: (fields, settings before) -> settings and sentences.
    """
    settings, problems = read(raw, question.settings)
    try:
        return (
            (question, problems)
            if problems
            else (ExactnessQuestion(replace(settings, max_new_tokens=raw["max_new_tokens"]), raw["source"]), [])
        )
    except SettingsError as error:
        return question, [explain_error(error)]
