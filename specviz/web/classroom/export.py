"""What Classroom exports of a room, beside its certificates: frozen records turned into a package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from specviz.classroom.records import METHODS, Assignment, Room
from specviz.classroom.tally import Calibration, ClassSamples, Race, Votes
from specviz.evidence.results import CellShares
from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, Rows, quote_text
from specviz.figures import cell_shares
from specviz.settings import Settings
from specviz.web.classroom import figures, words
from specviz.web.classroom.host import RoomSession, read_settings
from specviz.web.classroom.state import Lesson
from specviz.web.jobs import cache
from specviz.web.sampling.export import CELLS, iterate_cell_rows
from specviz.web.sampling.words import RULE

EMPTY = "There is nothing to draw yet. Predictions and votes come with their answers, once you have shown them."


def build_offer(hall: RoomSession, room: Room) -> ExportOffer:
    """What can be exported of a room as it stands; nothing before a task has something to show."""
    found = tuple(one for one in map(partial(_find_task_result, hall), hall.store.tasks(room.code)) if one.shown)
    if not found:
        return ExportOffer("classroom", note=EMPTY)
    return ExportOffer("classroom", build_classroom_package(found, {}).names, partial(build_room_package, room, found))


def _find_task_result(hall: RoomSession, task: Assignment) -> TaskResult:
    record = hall.found(task)
    if isinstance(record, ClassSamples):
        return TaskResult(task, read_settings(task), record, " ".join(words.build_verdict(record)[1:]))
    decoder = hall.samples_of(task) if task.kind == "vote" else None
    return TaskResult(task, read_settings(task), record, words.describe_task(task, record), decoder)


def build_room_package(room: Room, found: tuple[TaskResult, ...]) -> Package:
    """The private link is no part of it: its permalink opens another room under the same settings."""
    under = room.settings
    tasks = [
        {"task": one.task.number, "kind": one.task.kind, "phase": one.task.phase, "settings": one.settings.to_record(), "found": one.sentence,
         **({"tests": [dict(look) for look in one.record.looks]} if isinstance(one.record, ClassSamples) else {})}
        for one in found
    ]  # fmt: skip
    said = build_facts(
        under, cache.describe_pair(under.pair, under.device, under.dtype), "classroom", Lesson(under).link(),
        ["python -m specviz check report.json"] if any(one.task.kind == "sample" for one in found) else [],
        students=room.students, tasks=tasks, rule_of_the_looks=RULE,
    )  # fmt: skip
    return build_classroom_package(found, said)


PREDICTIONS = ("said", "min_1_p_q")
VOTES = ("option", "right", "before", "after")
RACE = ("drafting_method", "gamma", "students", "tokens", "target_passes", "draft_tokens", "accepted", "tokens_per_target_pass")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What the class has for a task, under which settings, and the sentence that says it. decoder: the samples that a class voted on."""

    task: Assignment
    settings: Settings
    record: ClassSamples | Calibration | Votes | Race | None
    sentence: str
    decoder: CellShares | None = None

    @property
    def shown(self) -> bool:
        """Whether there is something of it, and nothing of it is still to be found out."""
        kind, record = self.task.kind, self.record
        if record is None or (kind in ("predict", "vote") and self.task.phase != "shown"):
            return False
        return {"sample": lambda: record.shares.n > 0, "race": lambda: bool(record.choices)}.get(kind, lambda: True)()


def build_classroom_package(found: Sequence[TaskResult], manifest: Mapping[str, Any]) -> Package:
    """manifest: settings, models, versions and what the tests found; empty where only the names are asked for."""
    models = manifest.get("models", {})
    pictures: dict[str, Picture] = {}
    captions: list[str] = []
    tables: dict[str, Callable[[], Rows]] = {}
    for one in found:
        if not one.shown:
            continue
        name = f"task-{one.task.number}"
        drawn, made = PARTS[one.task.kind](one)
        for key, picture in drawn.items():
            pictures[f"{name}-{key}"] = picture
            captions.append(f"{one.sentence} {describe_conditions(one.settings, models)}")
        tables |= {f"{name}-{key}.csv": rows for key, rows in made.items()}
    return Package("classroom", "Classroom", {}, tables, pictures, tuple(captions), manifest)


def _export_samples(one: TaskResult) -> tuple[dict[str, Picture], dict[str, Callable[[], Rows]]]:
    return {"samples": _draw_bars(one.record.shares, "The class’s samples")}, {"samples": partial(_cell_table, one.record.shares)}


def _export_predictions(one: TaskResult) -> tuple[dict[str, Picture], dict[str, Callable[[], Rows]]]:
    picture = Picture(partial(figures.plot_calibration, one.record), "What the class predicted")
    return {"predictions": picture}, {"predictions": lambda: (PREDICTIONS, one.record.points)}


def _export_votes(one: TaskResult) -> tuple[dict[str, Picture], dict[str, Callable[[], Rows]]]:
    options, answer = one.task.content["options"], one.task.content["answer"]
    pictures = {"votes": Picture(partial(figures.plot_votes, options, one.record, answer), "Which mistake is in this decoder?")}
    tables: dict[str, Callable[[], Rows]] = {"votes": lambda: (VOTES, _vote_rows(options, one.record, answer))}
    if one.decoder is not None:
        pictures["samples"] = _draw_bars(one.decoder, "What the class voted on")
        tables["samples"] = partial(_cell_table, one.decoder)
    return pictures, tables


def _export_race(one: TaskResult) -> tuple[dict[str, Picture], dict[str, Callable[[], Rows]]]:
    choices = one.record.choices
    picture = Picture(partial(figures.plot_race, choices), "Tokens per target pass of each choice")
    rows = [
        [METHODS[row.method], row.gamma, row.students, row.tokens, row.passes, row.drafted, row.accepted, row.per_pass]
        for row in choices
    ]
    return {"race": picture}, {"race": lambda: (RACE, rows)}


PARTS = {"sample": _export_samples, "predict": _export_predictions, "vote": _export_votes, "race": _export_race}


def _draw_bars(shares: CellShares, title: str) -> Picture:
    return Picture(partial(cell_shares.plot_cells, shares, cell_shares.compute_rows_end(shares)), title)


def _cell_table(shares: CellShares) -> Rows:
    return CELLS, ([shares.name, quote_text(row[0]), *row[1:]] for row in iterate_cell_rows(shares))


def _vote_rows(options: Sequence[Mapping[str, str]], found: Votes, answer: int) -> Iterator[list[Any]]:
    for place, option in enumerate(options):
        yield [option["name"], place == answer, found.before[place], found.after[place]]
