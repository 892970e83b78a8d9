"""A room, its tasks, and checks of what a student may send for each. No torch.

Every random number of a room follows from its seed: task t decodes under a seed of its own, and student s owns the samples from
``s * SAMPLES_PER_STUDENT`` on. Whoever knows the room's seed can draw every student's samples again, and nobody can send invented ones.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from specviz.errors import SettingsError
from specviz.settings import Settings, is_number

ROOM_HOURS = 24  # after which a room ends and everything in it is deleted
CODE_MINUTES = 30  # after which a short code is hidden
SAMPLES_PER_STUDENT = 1 << 20  # samples of the seed that belong to one student
SAMPLE_SIZES = (1, 10, 100)  # samples of one request
MAX_SAMPLES_EACH = 1_000  # samples of one student in one task
PHASES = {  # kind of a task -> its phases in order
    "predict": ("open", "shown"),
    "sample": ("open", "closed"),
    "vote": ("before", "after", "shown"),
    "race": ("open", "closed"),
}
KINDS = tuple(PHASES)
LENGTHS = (1, 2, 3, 4)  # tokens of a sample in a room
ALLOWED_LENGTHS = f"a whole number from {LENGTHS[0]} to {LENGTHS[-1]} in a room"
MAX_GAMMA = 8  # draft tokens in a room
RACE_METHODS = {"draft": "Draft model", "ngram": "Copy from the text", "early-exit": "Early exit", "adversarial": "Adversary"}


@dataclass(frozen=True, slots=True)
class Room:
    """A room, without its tasks.

    Attributes:
        code: Of the students' link, at least 60 random bits.
        teacher_code: The same for the teacher's private link.
        seed: 0 to 2**63 - 1.
        settings: What the tasks decode.
        created: Seconds since 1970.
        short_code: Works while it is shown, CODE_MINUTES at most; empty if it is not shown.
        is_closed: Whether nobody new may come in.
        students: How many have come in.
        version: Grows with every change that students see.
    """

    code: str
    teacher_code: str
    seed: int
    settings: Settings
    created: float
    has_ended: bool = False
    short_code: str = ""
    is_closed: bool = False
    students: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task of a room. number: from 1; phase: one of PHASES of its kind; content: JSON-ready, what its kind needs."""

    number: int
    kind: str
    phase: str
    content: Mapping[str, Any]

    @property
    def settings(self) -> Settings:
        """What the task decodes, with its own seed."""
        return Settings.from_record(self.content["settings"])

    @property
    def accepts_answers(self) -> bool:
        """Whether students may still send something."""
        return self.next_phase is not None

    @property
    def next_phase(self) -> str | None:
        """The phase after this one; None after the last."""
        return dict(pairwise(PHASES[self.kind])).get(self.phase)


def draw_seed() -> int:
    """A random seed of a room, 0 to 2**63 - 1."""
    return secrets.randbits(63)


def derive_task_seed(room_seed: int, task: int) -> int:
    """The seed under which a task decodes, 0 to 2**63 - 1. No two tasks share a random number."""
    return int.from_bytes(hashlib.sha256(f"room {room_seed} task {task}".encode()).digest()[:8], "big") >> 1


def list_sample_numbers(student: int, first: int, count: int) -> tuple[int, int]:
    """A student's samples ``first`` to ``first + count - 1`` as samples of the task's seed: (first, count)."""
    assert first >= 0 and first + count <= SAMPLES_PER_STUDENT
    return student * SAMPLES_PER_STUDENT + first, count


def check_room_settings(settings: Settings) -> Settings:
    """Settings as a room decodes them. Raises SettingsError for those with which phones cannot draw samples."""
    if settings.max_new_tokens not in LENGTHS:
        raise SettingsError("max-new-tokens", settings.max_new_tokens, ALLOWED_LENGTHS)
    if not 1 <= settings.gamma <= MAX_GAMMA:
        raise SettingsError("gamma", settings.gamma, f"a whole number from 1 to {MAX_GAMMA} in a room")
    if settings.temperature == 0.0:
        raise SettingsError("temperature", settings.temperature, "above 0 in a room: at 0 all samples are the same")
    if settings.is_edited:
        raise SettingsError("uniforms", sorted(settings.uniforms), "left out: chosen random numbers make no samples")
    if (settings.proposer, settings.rule, settings.draft_length_policy) != ("draft", "token", "fixed"):
        got = f"{settings.proposer}, {settings.rule}, {settings.draft_length_policy}"
        raise SettingsError("drafting method", got, "the draft model under the token rule with a fixed gamma in a room")
    return settings


def check_answer(task: Assignment, answer: object) -> dict[str, Any]:
    """What a student sent for a task, with nothing else in it. Raises SettingsError for anything that its kind does not take."""
    if not isinstance(answer, dict):
        raise SettingsError("answer", answer, "an object")
    if task.kind == "predict":
        if not isinstance(answer.get("accepted"), bool):
            raise SettingsError("accepted", answer.get("accepted"), "true or false")
        chance = answer.get("chance")
        if not is_number(chance) or not 0.0 <= chance <= 1.0:
            raise SettingsError("chance", chance, "a number from 0 to 1")
        return {"accepted": answer["accepted"], "chance": round(float(chance), 4)}
    if task.kind == "vote":
        return {"choice": read_whole_number("choice", answer.get("choice"), 0, len(task.content["options"]) - 1)}
    if task.kind == "race":
        if answer.get("method") not in tuple(RACE_METHODS):
            raise SettingsError("method", answer.get("method"), f"one of {', '.join(RACE_METHODS)}")
        return {"method": answer["method"], "gamma": read_whole_number("gamma", answer.get("gamma"), 1, MAX_GAMMA)}
    raise SettingsError("task", task.kind, "one that takes answers: samples are drawn by the server")


def read_sample_request(request: Mapping[str, Any]) -> tuple[int, int]:
    """(first, count) of the samples in a student's request. Raises SettingsError."""
    first, count = read_whole_number("first", request.get("first"), 0, MAX_SAMPLES_EACH - 1), request.get("count")
    if type(count) is not int or count not in SAMPLE_SIZES:
        raise SettingsError("count", count, f"one of {', '.join(map(str, SAMPLE_SIZES))}")
    if first + count > MAX_SAMPLES_EACH:
        left = MAX_SAMPLES_EACH - first
        raise SettingsError("count", count, f"at most {left}: each student draws at most {MAX_SAMPLES_EACH:,} samples")
    return first, count


def read_whole_number(name: str, value: object, low: int, high: int) -> int:
    """The value. Raises SettingsError where it is no whole number in this range."""
    if type(value) is not int or not low <= value <= high:
        raise SettingsError(name, value, f"a whole number from {low} to {high}")
    return value
