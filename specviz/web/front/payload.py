"""JSON of the front page: its sentences, and what each scene draws."""

from __future__ import annotations

from typing import Any

from specviz.speed.records.passage import Passage
from specviz.web.front.race_payload import build_race_payload
from specviz.web.front.words import TEXTS


def build_front_payload(passage: Passage | None, recorded: bool) -> dict[str, Any]:
    """Everything that the component draws, without what a server adds.

    Args:
        passage: The race; None where there is none to show.
        recorded: Whether it is the recorded one.
    """
    return {"texts": TEXTS, "race": None if passage is None else build_race_payload(passage, recorded)}
