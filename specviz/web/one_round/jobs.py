"""A run that was asked for: how far it goes, what of it is known, where to stand when it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specviz.settings import Settings
from specviz.trace import Round

AHEAD = 2  # rounds that a new run starts with
LINK_ROUNDS = 192  # rounds that a link can ask for: any one of a passage on the page Whole text


@dataclass
class Job:
    """A run that was asked for and is not there yet.

    rounds   how many it needs in all; earlier  those that are known
    cursor   where to stand when it is there; uniform  (position, purpose) of the random number to stand at instead
    line     what to tell who waits; from_link  whether a link asked
    """

    settings: Settings
    rounds: int
    earlier: tuple[Round, ...] = ()
    cursor: dict[str, int] = field(default_factory=lambda: {"round": 0, "motion": 0})
    uniform: tuple[int, str] | None = None
    said: list[str] = field(default_factory=list)
    from_link: bool = False
    line: str = ""


def link_job(settings: Settings, cursor: dict[str, int] | None, earlier: tuple[Round, ...], said: list[str]) -> Job:
    """What a link asks for: enough rounds to stand where it stands, within reason."""
    cursor = cursor or {"round": 0, "motion": 0}
    rounds = max(AHEAD, min(cursor["round"] + 1, LINK_ROUNDS))
    return Job(settings, rounds, earlier, cursor, said=said, from_link=True)


def rounds_before(rounds: tuple[Round, ...], position: int, purpose: str) -> tuple[Round, ...]:
    """The rounds that a random number at this output position has no part in; positions count generated tokens from 0."""
    start = 0
    for index, round_ in enumerate(rounds):
        start, first = start + len(round_.committed), start
        reach = max(start, first + len(round_.proposals)) if purpose == "draft" else start
        if reach > position:
            return rounds[:index]
    return rounds


def uniform_cursor(rounds: list[dict[str, Any]], position: int, purpose: str) -> dict[str, int] | None:
    """Where the stage shows what a random number does."""
    kinds = {"accept": ("coin",), "residual": ("draw",), "bonus": ("bonus",), "draft": ("draft",)}[purpose]
    for r, round_ in enumerate(rounds):
        for m, motion in enumerate(round_["motions"]):
            about = round_["ending"] if motion["kind"] in ("draw", "bonus") else None
            about = about or (round_["chips"][motion["node"]] if motion["node"] is not None else {})
            if motion["kind"] in kinds and about.get("position") == position:
                return {"round": r, "motion": m}
    return None
