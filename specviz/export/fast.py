"""How fast? as a package: the plan's record and its rows, the study's cells, and the pictures that stand on the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.facts import conditions
from specviz.export.package import Package, Picture
from specviz.figures import fast as figures
from specviz.planning.plan import Interval, Plan
from specviz.planning.study import STATISTICS, Study

ROWS = ("gamma", *(f"{name}{end}" for name in ("tokens", "measured_tokens", "factor", "measured_factor") for end in ("", "_low", "_high")),
        "hazards", "one_alpha", "text_read_on", "alpha", "leviathan", "hazards_linear_cost", "operations")  # fmt: skip
CELLS = ("kind", "temperature", "draft", "tested", "accepted", "kept_foretold", *STATISTICS, "blank_because")


def how_fast(plan: Plan, study: Study | None, draft: str, said: Mapping[str, Any]) -> Package:
    """What stands on the page. draft: whose acceptance is drawn; said: of the manifest."""
    where = conditions(plan.settings, plan.models)
    pictures = {"tokens": Picture(_paper("tokens", plan), partial(figures.tokens, plan))}
    captions = [f"{figures.tokens_conclusion(plan)} {where}", f"{plan.in_words} {where}"]
    if plan.costs is not None:
        pictures["speed"] = Picture(_paper("factors", plan), partial(figures.factors, plan))
    tables: dict[str, Callable] = {"gammas.csv": lambda: (ROWS, _rows(plan))}
    if study is not None and study.measured((draft,)):
        pictures["acceptance"] = Picture(_paper("temperatures", study, draft), partial(figures.temperatures, study, draft))
        captions.append(figures.temperatures_conclusion(study, draft))
        tables["study.csv"] = lambda: (CELLS, _cells(study))
    return Package("how-fast", "How fast?", {"plan.json": json.loads(plan.to_json())}, tables, pictures, tuple(captions), said)


def _paper(name: str, *arguments: Any) -> Callable[[], Any]:
    def paper() -> Any:
        from specviz.export import printed_fast  # matplotlib is loaded when somebody asks for a figure, and not before

        return getattr(printed_fast, name)(*arguments)

    return paper


def _rows(plan: Plan) -> Iterator[list[Any]]:
    measured = {row.gamma: row for row in plan.checked}
    for row in plan.rows:
        one = measured.get(row.gamma)
        spans = (row.tokens, one and one.tokens, row.factor, one and one.factor)
        plain = (row.hazards, row.independent, row.own_text, row.alpha, row.leviathan, row.linear, row.operations)
        yield [row.gamma, *(x for span in spans for x in _span(span)), *("" if x is None else x for x in plain)]


def _span(found: Interval | None) -> tuple[Any, Any, Any]:
    return ("", "", "") if found is None else (found.value, found.low, found.high)


def _cells(study: Study) -> Iterator[list[Any]]:
    for cell in study.cells:
        found = [cell.statistics.get(name, "") for name in STATISTICS]
        yield [cell.kind, cell.temperature, cell.draft, cell.tested, cell.accepted, cell.kept, *found, cell.reason]
