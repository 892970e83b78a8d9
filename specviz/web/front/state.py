"""One visitor's front page: the prompt of the race. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specviz.errors import SettingsError
from specviz.speed.records.passage import Passage
from specviz.web.hosting.limits import check_text
from specviz.web.whole_text.state import PassageRequest, WholeTextState, load_recorded_passages
from specviz.web.whole_text.work import write_passage

OWN_TOKENS = 64  # of a visitor's race, so that nobody waits long


class FrontState(WholeTextState):
    """The race that is shown, and the run of a visitor's own prompt.

    Attributes:
        asked: How many prompts were reported: what is said is about the last one.
    """

    asked = 0

    def handle_event(self, event: Any) -> None:
        """Run the prompt that the page reports, ``{"prompt": text}``; what is no such event is ignored."""
        prompt = event.get("prompt") if isinstance(event, Mapping) else None
        if not isinstance(prompt, str):
            return
        self.asked += 1
        try:
            request = PassageRequest(replace(self.question.settings, prompt=check_text("prompt", prompt)))
        except SettingsError as error:
            self.notes = [str(error)]
            return
        self.notes = []
        self.choose(request)
        if not self.has_own_result:
            self.submit(write_passage, request)


def open_race() -> FrontState | None:
    """The state that the page opens with; None where the recorded passage is missing."""
    passage = load_recorded_race()
    return None if passage is None else FrontState(PassageRequest(replace(passage.settings, max_new_tokens=OWN_TOKENS)))


def load_recorded_race() -> Passage | None:
    """The recorded passage that the page opens with, the first one."""
    return next(iter(load_recorded_passages().values()), None)
