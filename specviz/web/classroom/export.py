"""What Classroom exports of a room, beside its certificates: frozen records turned into a package."""

from __future__ import annotations

from functools import partial

from specviz.classroom.records import Room, Task
from specviz.classroom.tally import ClassSamples
from specviz.export.manifest import facts
from specviz.export.package import ExportOffer, Package
from specviz.web.classroom import words
from specviz.web.classroom.host import Hall, settings_of
from specviz.web.classroom.package import Found, classroom
from specviz.web.classroom.state import Lesson
from specviz.web.jobs import cache
from specviz.web.sampling.words import RULE

EMPTY = "There is nothing to draw yet. Predictions and votes come with their answers, once you have shown them."


def offer(hall: Hall, room: Room) -> ExportOffer:
    """What can be exported of a room as it stands; nothing before a task has something to show."""
    found = tuple(one for one in map(partial(_found, hall), hall.store.tasks(room.code)) if one.shown)
    if not found:
        return ExportOffer("classroom", note=EMPTY)
    return ExportOffer("classroom", classroom(found, {}).names, partial(room_package, room, found))


def _found(hall: Hall, task: Task) -> Found:
    record = hall.found(task)
    if isinstance(record, ClassSamples):
        return Found(task, settings_of(task), record, " ".join(words.verdict(record)[1:]))
    decoder = hall.samples_of(task) if task.kind == "vote" else None
    return Found(task, settings_of(task), record, words.of_task(task, record), decoder)


def room_package(room: Room, found: tuple[Found, ...]) -> Package:
    """The private link is no part of it: its permalink opens another room under the same settings."""
    under = room.settings
    tasks = [
        {"task": one.task.number, "kind": one.task.kind, "phase": one.task.phase, "settings": one.settings.to_record(), "found": one.sentence,
         **({"tests": [dict(look) for look in one.record.looks]} if isinstance(one.record, ClassSamples) else {})}
        for one in found
    ]  # fmt: skip
    said = facts(
        under, cache.identity(under.pair, under.device, under.dtype), "classroom", Lesson(under).link(),
        ["python -m specviz check report.json"] if any(one.task.kind == "sample" for one in found) else [],
        students=room.students, tasks=tasks, rule_of_the_looks=RULE,
    )  # fmt: skip
    return classroom(found, said)
