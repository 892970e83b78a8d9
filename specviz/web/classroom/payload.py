"""What a student's browser is told of a room: the task that is on, what this student has, what the class has. JSON-ready."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.classroom import tally
from specviz.classroom.records import ASKED, GAMMA, METHODS, MOST_EACH, Assignment, Room
from specviz.evidence.results import CellShares
from specviz.figures.cell_shares import compute_axis_end
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.web.classroom import words
from specviz.web.classroom.host import RoomSession

LEAST_AGAIN, MORE_FOR = 2.0, 40  # seconds between two looks of a phone; students for whom it is one second more


def build_payload(hall: RoomSession, room: Room, student: int) -> dict[str, Any]:
    """All that a student's page draws."""
    task = hall.store.task(room.code)
    said: dict[str, Any] = {
        "mark": compute_version(hall, room), "again": compute_poll_interval(room), "students": room.students, "ended": room.ended, "number": student,
        "prompt": room.settings.prompt, "under": words.describe_settings(room.settings), "task": None,
    }  # fmt: skip
    if task is not None:
        said |= {"task": build_task(hall, task), "mine": build_own(hall, room, task, student), "class": build_class(hall, task)}
    return said


def compute_version(hall: RoomSession, room: Room) -> str:
    """Changes whenever there is something new to tell."""
    return f"{room.version}.{hall.stamp}.{room.students}"


def compute_poll_interval(room: Room) -> float:
    """Seconds until a phone asks next: more where there are many."""
    return LEAST_AGAIN + room.students / MORE_FOR


def build_task(hall: RoomSession, task: Assignment) -> dict[str, Any]:
    """A task without its answer."""
    said = {"number": task.number, "kind": task.kind, "phase": task.phase, "takes": task.takes, "title": words.TITLES[task.kind]}
    content = task.content
    if task.kind == "predict":
        return said | {name: content[name] for name in ("text", "token", "bars")}
    if task.kind == "sample":
        return said | {"sizes": list(ASKED), "most": MOST_EACH}
    if task.kind == "vote":
        return said | {"options": content["options"], "bars": build_bars(hall.samples_of(task)), "n": content["n"]}
    methods = [{"value": name, "label": METHODS[name], "more": DRAFTING_METHODS[name].description} for name in METHODS]
    return said | {"methods": methods, "gamma": GAMMA}


def build_own(hall: RoomSession, room: Room, task: Assignment, student: int) -> dict[str, Any]:
    """What this student has sent and drawn, and once it is shown, what came of it."""
    if task.kind == "sample":
        n, counts = hall.own(task.number, student)
        return {"n": n, "counts": counts}
    sent = hall.store.answers_of(room.code, task.number, student)
    said: dict[str, Any] = {"sent": sent.get(task.phase), "before": sent.get("before")}
    if task.phase == "shown" and task.kind == "predict":
        said |= {"sent": sent.get("open"), "chance": task.content["chance"], "p": task.content["p"], "q": task.content["q"]}
        if sent.get("open"):
            found = tally.compute_outcome(room.seed, task, student, sent["open"])
            said |= asdict(found)
    if task.phase == "shown" and task.kind == "vote":
        said |= {"sent": sent.get("after"), "answer": task.content["answer"]}
    if task.kind == "race":
        said["sent"] = sent.get("open")
    return said


def build_class(hall: RoomSession, task: Assignment) -> dict[str, Any]:
    """What the class has. Votes and truths stay hidden until they are shown."""
    found = hall.found(task)
    said: dict[str, Any] = {"answered": words.count_answered(task, found)}
    if task.kind == "sample":
        mark_, sentence, seen = words.build_verdict(found)
        return said | {
            "n": found.shares.n,
            "bars": build_bars(found.shares),
            "verdict": mark_,
            "sentence": sentence,
            "seen": seen,
        }
    if task.kind == "predict":
        return said | {"sentence": words.describe_predictions(task, found)}
    if task.kind == "vote":
        shown = {"before": list(found.before), "after": list(found.after)} if task.phase == "shown" else {}
        return said | {"sentence": words.describe_votes(task, found)} | shown
    rows = [[METHODS[one.method], one.gamma, one.students, f"{one.per_pass:.2f}", f"{one.wasted:.1f}"] for one in found.choices]
    return said | {"sentence": words.describe_race(task, found), "rows": rows}


def build_bars(shares: CellShares) -> dict[str, Any]:
    """The bars of a histogram, heaviest first. cell: its place among the counts."""
    places = shares.bars
    return {
        "end": compute_axis_end(shares),
        "rows": [
            {"cell": place, "label": shares.labels[place], "p": shares.probs[place], "share": shares.shares[place],
             "low": shares.low[place], "high": shares.high[place]}
            for place in places
        ],
    }  # fmt: skip
