"""The export of a room, beside its certificates: results of its tasks as a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, Rows
from specviz.settings import Settings
from specviz.web.classroom.room.records import Room
from specviz.web.classroom.room.results import ClassSamplesResult, TaskResult
from specviz.web.classroom.room.words import TEXTS
from specviz.web.common.side_by_side.words import RULE

PairFacts = Callable[[str, str, str], Mapping[str, Any]]  # (pair, device, dtype) -> names, sizes and hashes of both models


def build_room_query(settings: Settings) -> dict[str, str]:
    """Query parameters of a link that opens a new room under the same settings."""
    return settings.to_query() | {"prompt": settings.prompt, "max_new_tokens": str(settings.max_new_tokens)}


def build_offer(room: Room, results: Iterable[TaskResult], describe_pair: PairFacts) -> ExportOffer:
    """The export of a room with these results of its tasks; empty before a task has something to show."""
    results = [result for result in results if result.is_exportable]
    if not results:
        return ExportOffer("classroom", note=TEXTS["nothing"])
    build = partial(build_room_package, room, results, describe_pair)
    return ExportOffer("classroom", build_package(results, {}).names, build)


def build_room_package(room: Room, results: Sequence[TaskResult], describe_pair: PairFacts) -> Package:
    """The package with its manifest. The permalink opens another room under the same settings: the private link is no part of it."""
    settings = room.settings
    tasks = [
        {"task": one.task.number, "kind": one.task.kind, "phase": one.task.phase, "settings": one.task.settings.to_record(),
         "found": one.sentence, **({"tests": [dict(test) for test in one.samples.tests]} if isinstance(one, ClassSamplesResult) else {})}
        for one in results
    ]  # fmt: skip
    facts = build_facts(
        settings, describe_pair(settings.pair, settings.device, settings.dtype), "classroom", build_room_query(settings),
        ["python -m specviz check report.json"] if any(isinstance(one, ClassSamplesResult) for one in results) else [],
        students=room.students, tasks=tasks, rule_of_the_looks=RULE,
    )  # fmt: skip
    return build_package(results, facts)


def build_package(results: Sequence[TaskResult], facts: Mapping[str, Any]) -> Package:
    """Tables and pictures of all results. facts: of the manifest; empty where only the names are needed."""
    pictures: dict[str, Picture] = {}
    captions: list[str] = []
    tables: dict[str, Callable[[], Rows]] = {}
    for one in results:
        drawn = one.build_pictures()
        pictures |= {f"task-{one.task.number}-{key}": picture for key, picture in drawn.items()}
        captions += [f"{one.sentence} {describe_conditions(one.task.settings, facts.get('models', {}))}"] * len(drawn)
        tables |= {f"task-{one.task.number}-{key}.csv": rows for key, rows in one.build_tables().items()}
    return Package("classroom", "Classroom", {}, tables, pictures, tuple(captions), facts)
