"""The state of Exactness test and Break it: a question, the samples drawn for it, and what was recorded. No torch, no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from specviz.evidence.recordings.samples import RecordedSamples
from specviz.evidence.testing.results import SIZES, SamplingResult
from specviz.jobs.queue import FairQueue
from specviz.records import ASSETS, read_file_or
from specviz.web.common.page_state import PageState, Work

RECORDED = ASSETS / "traces" / "samples.json"
MOST_SLOW = 10_000  # most samples of a decoder that cannot be drawn on shared distributions
CHOSEN = "Chosen random numbers are left out here. A run with chosen random numbers is not a random sample."


class SamplingState(PageState):
    """A question with everything that was sampled for it. A question says how many samples it allows, ``max_samples``.

    empty  the result before there is one; bench  what the work keeps between clicks
    """

    empty = SamplingResult()

    def __init__(self, question: Any, queue: FairQueue | None = None):
        super().__init__(question, queue)
        self.reset_findings()

    def reset_findings(self) -> None:
        self.result: Any = self.empty
        self.bench: Any = None
        self.prefers_recorded = False  # although there are samples of the visitor's own

    def load_recorded(self) -> Any:
        """The record for the question, with its result; None where there is none."""
        return None

    @property
    def has_own_result(self) -> bool:
        """Whether what is shown is of the visitor's own samples, or of none."""
        return (bool(self.result.n) and not self.prefers_recorded) or self.load_recorded() is None

    @property
    def shown_result(self) -> Any:
        """The visitor's own result, once there are samples; the recorded one until then, and where it is preferred."""
        return self.result if self.has_own_result else self.load_recorded().result

    def toggle_recorded(self) -> None:
        """Show the recorded samples in place of the visitor's own, or these again. Neither is lost."""
        self.prefers_recorded = not self.prefers_recorded

    def submit(self, work: Work, *arguments: Any) -> None:
        """As every page; what is computed is shown."""
        self.prefers_recorded = False
        super().submit(work, *arguments)

    @property
    def models(self) -> Mapping[str, Any]:
        """What an export says of the models behind what is shown."""
        return self.bench.models if self.has_own_result else self.load_recorded().models

    def prepare(self, prepared: Work) -> None:
        """Ask for the exact distribution and its cells, once; a record holds them already."""
        if self.ticket is None and self.load_recorded() is None:
            said = self.notes
            self.submit(prepared)
            self.notes = said + self.notes

    @property
    def next_test(self) -> int | None:
        """Samples at the test of the visitor's own that comes next; None after the last."""
        return self.find_test_after(self.result.n)

    def find_test_after(self, n: int) -> int | None:
        """Samples at the first test after ``n``; None after the last."""
        return next((size for size in SIZES if n < size <= self.question.max_samples), None)


@lru_cache(maxsize=1)
def load_recorded_samples() -> RecordedSamples | None:
    """Both records; None where the file is missing or damaged."""
    return read_file_or(RECORDED, RecordedSamples.from_json, None)
