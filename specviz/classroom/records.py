"""A room, its tasks, and what a student may send for each: records and checks. No torch.

Every random number of a room follows from its seed: task t decodes under a seed of its own, and student number s owns the samples
from ``s * SPAN`` on. So whoever knows the room's seed can draw every student's samples again, and nobody can send invented ones.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import SettingsError
from specviz.settings import Settings, is_number

HOURS = 24  # after which a room ends and everything in it is deleted
SHOWN = 30  # minutes after which a short code is hidden
SPAN = 1 << 20  # samples of the seed that belong to one student
ASKED = (1, 10, 100)  # samples that a student may ask for at once
MOST_EACH = 1_000  # samples of one student in one task
SERVER = 0  # the number whose samples are the server's own
PHASES = {  # kind of a task -> what it goes through
    "predict": ("open", "shown"),
    "sample": ("open", "closed"),
    "vote": ("before", "after", "shown"),
    "race": ("open", "closed"),
}
KINDS = tuple(PHASES)
LENGTHS = (1, 2, 3, 4)  # tokens of a sample in a room
GAMMA = 8  # most draft tokens in a room
METHODS = {  # drafting methods of a race: name -> in words
    "draft": "Draft model",
    "ngram": "Copy from the text",
    "early-exit": "Early exit",
    "adversarial": "Adversary",
}


@dataclass(frozen=True, slots=True)
class Room:
    """A room, without its tasks.

    code      of the link for students, at least 60 random bits; steer  the same for its teacher alone
    seed      0 to 2**63 - 1; settings  what the tasks decode, with that seed
    created   seconds since 1970; ended  whether the teacher ended it
    short     code that works while it is shown, SHOWN minutes at most; empty: it is not
    shut      whether the door is closed: those who are in stay, and nobody else comes in
    students  how many have come in; version  grows with every change that students are told
    """

    code: str
    steer: str
    seed: int
    settings: Settings
    created: float
    ended: bool = False
    short: str = ""
    shut: bool = False
    students: int = 0
    version: int = 0

    @property
    def run_until(self) -> float:
        """Second since 1970 at which the room is deleted."""
        return self.created + 3600.0 * HOURS


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task of a room. number: from 1; phase: one of PHASES of its kind; content: JSON-ready, what its kind needs."""

    number: int
    kind: str
    phase: str
    content: Mapping[str, Any]

    @property
    def takes(self) -> bool:
        """Whether students may still send something."""
        return self.phase != PHASES[self.kind][-1]

    @property
    def next_phase(self) -> str | None:
        """What it goes to next; None after the last."""
        phases = PHASES[self.kind]
        after = phases.index(self.phase) + 1
        return phases[after] if after < len(phases) else None


def draw_seed() -> int:
    return secrets.randbits(63)


def derive_task_seed(room_seed: int, task: int) -> int:
    """The seed under which a task decodes, 0 to 2**63 - 1. No two tasks share a random number, whatever they decode."""
    return int.from_bytes(hashlib.sha256(f"room {room_seed} task {task}".encode()).digest()[:8], "big") >> 1


def list_sample_numbers(student: int, first: int, count: int) -> tuple[int, int]:
    """A student's samples ``first`` to ``first + count - 1`` as samples of the task's seed: (first, count)."""
    assert first >= 0 and first + count <= SPAN
    return student * SPAN + first, count


def check_room_settings(settings: Settings) -> Settings:
    """Settings as a room decodes them. Raises SettingsError for those with which phones cannot draw samples."""
    if settings.max_new_tokens not in LENGTHS:
        raise SettingsError(
            "max-new-tokens", settings.max_new_tokens, f"a whole number from {LENGTHS[0]} to {LENGTHS[-1]} in a room"
        )
    if not 1 <= settings.gamma <= GAMMA:
        raise SettingsError("gamma", settings.gamma, f"a whole number from 1 to {GAMMA} in a room")
    if settings.temperature == 0.0:
        raise SettingsError("temperature", settings.temperature, "above 0 in a room: at 0 all samples are the same")
    if settings.is_edited:
        raise SettingsError("uniforms", sorted(settings.uniforms), "left out: chosen random numbers make no samples")
    if (settings.proposer, settings.rule, settings.draft_length_policy) != ("draft", "token", "fixed"):
        asked = f"{settings.proposer}, {settings.rule}, {settings.draft_length_policy}"
        raise SettingsError("drafting method", asked, "the draft model under the token rule with a fixed gamma in a room")
    return settings


def check_answer(task: Assignment, sent: object) -> dict[str, Any]:
    """What a student sent for a task, with nothing else in it. Raises SettingsError for anything that its kind does not take."""
    if not isinstance(sent, dict):
        raise SettingsError("answer", sent, "an object")
    if task.kind == "predict":
        if not isinstance(sent.get("accepted"), bool):
            raise SettingsError("accepted", sent.get("accepted"), "true or false")
        chance = sent.get("chance")
        if not is_number(chance) or not 0.0 <= chance <= 1.0:
            raise SettingsError("chance", chance, "a number from 0 to 1")
        return {"accepted": sent["accepted"], "chance": round(float(chance), 4)}
    if task.kind == "vote":
        return {"choice": read_whole_number("choice", sent.get("choice"), 0, len(task.content["options"]) - 1)}
    if task.kind == "race":
        if sent.get("method") not in tuple(METHODS):
            raise SettingsError("method", sent.get("method"), f"one of {', '.join(METHODS)}")
        return {"method": sent["method"], "gamma": read_whole_number("gamma", sent.get("gamma"), 1, GAMMA)}
    raise SettingsError("task", task.kind, "one that takes answers: samples are drawn by the server")


def read_sample_request(sent: Mapping[str, Any]) -> tuple[int, int]:
    """(first, count) of samples that a student asks for. Raises SettingsError."""
    first, count = read_whole_number("first", sent.get("first"), 0, MOST_EACH - 1), sent.get("count")
    if type(count) is not int or count not in ASKED:
        raise SettingsError("count", count, f"one of {', '.join(map(str, ASKED))}")
    if first + count > MOST_EACH:
        raise SettingsError("count", count, f"at most {MOST_EACH - first}: each student draws at most {MOST_EACH:,} samples")
    return first, count


def read_whole_number(name: str, value: object, low: int, high: int) -> int:
    """The value. Raises SettingsError where it is no whole number in this range."""
    if type(value) is not int or not low <= value <= high:
        raise SettingsError(name, value, f"a whole number from {low} to {high}")
    return value
