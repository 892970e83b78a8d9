"""The JSON that a student's browser draws: the current task, what this student has, what the class has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.web.classroom.room import words
from specviz.web.classroom.room.host import RoomSession
from specviz.web.classroom.room.records import Assignment, Room
from specviz.web.classroom.room.tally import compute_outcome

MIN_INTERVAL, STUDENTS_PER_SECOND = 2.0, 40  # seconds between two polls of a phone; students for whom it is one second more


def build_payload(session: RoomSession, room: Room, student: int) -> dict[str, Any]:
    """All that a student's page draws."""
    task = session.store.find_current_task(room.code)
    payload: dict[str, Any] = {
        "mark": compute_version(session, room), "again": compute_poll_interval(room), "students": room.students, "ended": room.has_ended,
        "number": student, "prompt": room.settings.prompt, "under": words.describe_settings(room.settings), "task": None,
    }  # fmt: skip
    if task is not None:
        result = session.find_result(task)
        own = build_own_payload(session, room, task, student)
        payload |= {"task": result.build_task_payload(), "mine": own, "class": result.build_class_payload()}
    return payload


def compute_version(session: RoomSession, room: Room) -> str:
    """Changes whenever there is something new to draw."""
    return f"{room.version}.{session.revision}.{room.students}"


def compute_poll_interval(room: Room) -> float:
    """Seconds until a phone polls again: more where there are many."""
    return MIN_INTERVAL + room.students / STUDENTS_PER_SECOND


def build_own_payload(session: RoomSession, room: Room, task: Assignment, student: int) -> dict[str, Any]:
    """What this student has sent and drawn, and once it is shown, what came of it."""
    if task.kind == "sample":
        n, counts = session.count_own_samples(task.number, student)
        return {"n": n, "counts": counts}
    answers, content = session.store.find_answers(room.code, task.number, student), task.content
    payload: dict[str, Any] = {"sent": answers.get(task.phase), "before": answers.get("before")}
    if task.kind in ("predict", "race"):
        payload["sent"] = answers.get("open")
    if task.phase == "shown" and task.kind == "predict":
        payload |= {name: content[name] for name in ("chance", "p", "q")}
        if answer := answers.get("open"):
            payload |= asdict(compute_outcome(room.seed, task, student, answer))
    if task.phase == "shown" and task.kind == "vote":
        payload |= {"sent": answers.get("after"), "answer": content["answer"]}
    return payload
