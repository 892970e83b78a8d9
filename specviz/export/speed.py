"""How fast? as a package: the plan's record and its rows, and what stands behind each tab, with its pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from specviz.export.facts import conditions
from specviz.export.package import Package, Picture
from specviz.figures.speed import batch, surface
from specviz.figures.speed import plan as figures
from specviz.figures.speed import study as fast_study
from specviz.figures.speed.surface import Spot
from specviz.measure.estimate import Estimate
from specviz.prediction.batches import BatchSpeeds
from specviz.prediction.plan import SpeedPlan
from specviz.prediction.study import STATISTICS, Study

ROWS = ("gamma", *(f"{name}{end}" for name in ("tokens", "measured_tokens", "factor", "measured_factor") for end in ("", "_low", "_high")),
        "hazards", "one_alpha", "text_read_on", "alpha", "leviathan", "hazards_linear_cost", "operations")  # fmt: skip
BATCHES = ("texts", "gamma", *(f"{name}{end}" for name in ("factor", "pass", "tokens") for end in ("", "_low", "_high")))
CELLS = ("kind", "temperature", "top_p", "draft", "tested", "accepted", "kept_foretold", *STATISTICS, "blank_because")


@dataclass(frozen=True, slots=True)
class Sections:
    """What else stands on the page. Whatever there is no record of is None.

    study  with the draft whose acceptance is drawn; many  with the name of the rounds that are; what_if  gamma, the chosen point
    and the running pair
    """

    study: tuple[Study, str] | None = None
    many: tuple[BatchSpeeds, str] | None = None
    what_if: tuple[int, Spot, Spot | None] | None = None


def how_fast(plan: SpeedPlan, sections: Sections, said: Mapping[str, Any]) -> Package:
    """What stands on the page. said: of the manifest."""
    where = conditions(plan.settings, plan.models)
    pictures = {"tokens": Picture(partial(figures.tokens, plan), "Tokens per target pass")}
    captions = [f"{figures.tokens_conclusion(plan)} {where}", f"{plan.in_words} {where}"]
    if plan.costs is not None:
        pictures["speed"] = Picture(partial(figures.factors, plan), "Speed-up")
    data, tables = {"plan.json": json.loads(plan.to_json())}, {"gammas.csv": lambda: (ROWS, _rows(plan))}
    for part, section in ((_study, sections.study), (_many, sections.many), (_what_if, sections.what_if)):
        if section is not None:
            part(section, pictures, captions, tables)
    return Package("how-fast", "How fast?", data, tables, pictures, tuple(captions), said)


def _study(section: tuple[Study, str], pictures: dict[str, Picture], captions: list[str], tables: dict[str, Callable]) -> None:
    found, draft = section
    if not found.measured((draft,)):
        return
    for axis in fast_study.AXES:
        if len(fast_study.cells_over(found, draft, axis)) > 1:
            pictures[f"kept-over-{axis}"] = Picture(partial(fast_study.kept, *section, axis), f"Acceptance rate: {draft}")
            captions.append(fast_study.kept_conclusion(found, draft, axis))
    pictures["foretold"] = Picture(partial(fast_study.foretold, *section), f"Predicted and measured: {draft}")
    pictures["confidence"] = Picture(partial(fast_study.confidence, *section), f"Confidence: {draft}")
    captions += [fast_study.foretold_conclusion(*section), fast_study.confidence_conclusion(*section)]
    tables["study.csv"] = lambda: (CELLS, _cells(found))


def _many(
    section: tuple[BatchSpeeds, str], pictures: dict[str, Picture], captions: list[str], tables: dict[str, Callable]
) -> None:
    found, key = section
    pictures["many-texts"] = Picture(partial(batch.factors, found, key), "Many texts at once")
    pictures["passes"] = Picture(partial(batch.passes, found), "What verification costs")
    captions += [found.in_words(key), batch.passes_conclusion(found)]
    tables["many-texts.csv"] = lambda: (BATCHES, _batches(found, key))


def _what_if(
    section: tuple[int, Spot, Spot | None], pictures: dict[str, Picture], captions: list[str], tables: dict[str, Callable]
) -> None:
    gamma, chosen, running = section
    pictures["what-if"] = Picture(partial(surface.surface, *section), f"Speed-up by the formula, gamma {gamma}")
    captions.append(f"{surface.in_words(gamma, chosen)} {surface.FORMULA}")
    rows = surface.table(running, chosen)
    tables["what-if.csv"] = lambda: (list(rows[0]), _plain(rows))


def _plain(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for row in rows:
        yield ["" if value is None else value for value in row.values()]


def _batches(found: BatchSpeeds, key: str) -> Iterator[list[Any]]:
    for rows in found.rows:
        for gamma in found.gammas:
            spans = (found.factor(key, rows, gamma), found.cost(rows, gamma), found.tokens(key, gamma))
            yield [rows, gamma, *(x for span in spans for x in _span(span))]


def _rows(plan: SpeedPlan) -> Iterator[list[Any]]:
    measured = {row.gamma: row for row in plan.checked}
    for row in plan.rows:
        one = measured.get(row.gamma)
        spans = (row.tokens, one and one.tokens, row.factor, one and one.factor)
        plain = (row.hazards, row.independent, row.own_text, row.alpha, row.leviathan, row.linear, row.operations)
        yield [row.gamma, *(x for span in spans for x in _span(span)), *("" if x is None else x for x in plain)]


def _span(found: Estimate | None) -> tuple[Any, Any, Any]:
    return ("", "", "") if found is None else (found.value, found.low, found.high)


def _cells(study: Study) -> Iterator[list[Any]]:
    for cell in study.cells:
        found = [cell.statistics.get(name, "") for name in STATISTICS]
        top_p = "" if cell.top_p is None else cell.top_p
        yield [cell.kind, cell.temperature, top_p, cell.draft, cell.tested, cell.accepted, cell.kept, *found, cell.reason]
