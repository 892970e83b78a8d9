"""Preparing a task of a room: what it needs is computed in the queue before students see it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.jobs.queue import Ticket
from specviz.settings import SAMPLING_FIELDS, SETTINGS, Settings
from specviz.web.classroom.room.host import RoomSession, load_pair, run_in_worker
from specviz.web.classroom.room.records import PHASES, Assignment, Room, derive_task_seed

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair

VOTE = {name: SETTINGS[name].default for name in SAMPLING_FIELDS} | {
    "gamma": 2,
    "max_new_tokens": 3,
}  # settings; they tell nothing


def prepare_task(ticket: Ticket, session: RoomSession, room: Room, kind: str, number: int) -> None:
    """Compute what task ``number`` of a room needs, then open it to students. kind: one of KINDS. Raises SpecvizError."""
    settings = replace(room.settings, seed=derive_task_seed(room.seed, number))
    ticket.tick(doing="Preparing the task")
    pair = load_pair(ticket, settings)
    content = {"settings": settings.to_record(), "ids": list(pair.encode(settings.prompt))}
    if kind == "predict":
        content |= _prepare_prediction(ticket, pair, settings, session)
    elif kind in ("sample", "vote"):
        content |= (_prepare_sampling if kind == "sample" else _prepare_vote)(ticket, pair, settings)
    session.store.begin_task(room.code, Assignment(number, kind, PHASES[kind][0], content))
    session.note_change()


def _prepare_prediction(ticket: Ticket, pair: LoadedPair, settings: Settings, session: RoomSession) -> dict[str, Any]:
    from specviz.web.classroom.room import drawing

    number = sum(task.kind == "predict" for task in session.store.list_tasks(session.code))
    return run_in_worker(ticket, drawing.find_situation, pair, settings, (settings, number), "a situation", is_local=True)


def _prepare_sampling(ticket: Ticket, pair: LoadedPair, settings: Settings) -> dict[str, Any]:
    from specviz.web.common.side_by_side.work import compute_exact_cells

    exact = compute_exact_cells(pair, settings, ticket)
    return {"labels": list(exact.labels), "cells": exact.cells.to_record()}


def list_votable_mistakes() -> list[str]:
    """Mistakes that samples under VOTE can show, and that those of *Break it* do show."""
    from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
    from specviz.web.common.side_by_side.state import load_recorded_samples
    from specviz.web.mistakes.state import find_rejection

    recorded = load_recorded_samples()
    shown = {one.mistake for one in recorded.mistakes if find_rejection(one.result)} if recorded else set(PUBLISHED_MISTAKES)
    return [
        one.id
        for one in PUBLISHED_MISTAKES.values()
        if one.id in shown and one.on_shared_distributions and one.settings.temperature == 1.0 and one.settings.top_k is None
    ]


def _prepare_vote(ticket: Ticket, pair: LoadedPair, settings: Settings) -> dict[str, Any]:
    """Samples of a decoder that may have a mistake, and the options. The system's randomness chooses: no seed that anyone sees does."""
    from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
    from specviz.web.classroom.room import drawing
    from specviz.web.common.side_by_side.work import compute_exact_cells
    from specviz.web.mistakes.words import name_mistake

    random = secrets.SystemRandom()
    offered = sorted(random.sample(list_votable_mistakes(), 3))
    answer = random.randrange(len(offered) + 1)
    mistake = offered[answer] if answer < len(offered) else None
    settings = replace(settings, **VOTE)
    exact = compute_exact_cells(pair, settings, ticket)
    samples = run_in_worker(ticket, drawing.draw_for_vote, pair, settings, (settings, mistake, exact.ids), "a decoder to vote on")
    options = [{"name": name_mistake(PUBLISHED_MISTAKES[one]), "wrong": PUBLISHED_MISTAKES[one].description} for one in offered]
    options.append({"name": "No mistake", "wrong": "The decoder is exact."})
    cells = exact.cells.shown
    return {
        "settings": settings.to_record(), "labels": list(exact.labels), "options": options, "answer": answer, "mistake": mistake,
        "cells": {"shown": {"whole": cells.is_whole_text.tolist(), "masses": cells.masses.tolist()}},
        "counts": cells.count_samples(samples).tolist(), "n": len(samples),
    }  # fmt: skip
