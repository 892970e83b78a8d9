"""Around the rule as a package: the laboratory's record, its rows and greedy texts as tables, and the pictures that stand on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.facts import conditions
from specviz.export.package import Package, Picture, quoted
from specviz.figures.serving_limits import near_ties as ties
from specviz.figures.serving_limits import setups as figures
from specviz.measure.estimate import Estimate
from specviz.serving.near_ties import COMPARISONS
from specviz.serving.setups import SetupComparison, to_json

SPANS = ("apart", "overlap", "alone", "drafted")
ROWS = ("row", "served_as", "verdict", *(f"{name}{end}" for name in SPANS for end in ("", "_low", "_high")), "draft_tokens_mean_tv",
        "draft_tokens_worst_tv", "prefixes", "near_ties", "tokens", "passes", "tested", "kept", "ms_alone", "ms_drafted", "blank_because")  # fmt: skip
GREEDY = ("arm", "prompt", "place", "first_token", "second_token", "first_margin", "second_margin", "same")


def around_the_rule(one: SetupComparison, arm: str, said: Mapping[str, Any]) -> Package:
    """What stands on the page. arm: whose greedy texts are drawn; said: of the manifest."""
    where = conditions(one.settings, one.models)
    pictures = {"distances": Picture(partial(figures.distances, one), "What a serving setup changes, and what draft tokens add")}
    captions = [f"{figures.conclusion(one)} {where}"]
    if seen := one.microscope.seen(arm):
        pictures["margins"] = Picture(partial(ties.margins, seen), f"{COMPARISONS[arm].first} and {COMPARISONS[arm].second}")
        pictures["spread"] = Picture(
            partial(ties.spread, seen), f"Margins: {COMPARISONS[arm].first} and {COMPARISONS[arm].second}"
        )
        captions.append(f"{ties.conclusion(seen)} {where}")
    tables = {"rows.csv": lambda: (ROWS, _rows(one)), "greedy.csv": lambda: (GREEDY, _greedy(one))}
    record = json.loads(to_json(one))
    return Package("around-the-rule", "Serving limits", {"laboratory.json": record}, tables, pictures, tuple(captions), said)


def _rows(one: SetupComparison) -> Iterator[list[Any]]:
    for row in one.rows:
        spans = [x for name in SPANS for x in _span(getattr(row, name))]
        own = [row.own.mean, row.own.worst, row.own.prefixes, row.own.near_ties] if row.own else [""] * 4
        ms = ["" if x is None else x for x in row.ms or ("", "")]
        yield [row.key, row.entry.name, "" if row.reason else row.verdict, *spans, *own, row.tokens, row.passes, row.tested, row.kept,
               *ms, row.reason]  # fmt: skip


def _span(found: Estimate | None) -> tuple[Any, Any, Any]:
    return ("", "", "") if found is None else (found.value, found.low, found.high)


def _greedy(one: SetupComparison) -> Iterator[list[Any]]:
    """Every token of every greedy text up to where its pair parts, with both margins."""
    for key in one.microscope.arms:
        for prompt, pairing in enumerate(one.microscope.arms[key]):
            for place in range(min(pairing.shared + 1, len(pairing.first.tokens))):
                tokens = [quoted(ties.named(pairing, text.tokens[place])) for text in (pairing.first, pairing.second)]
                margins = [text.margins[place] for text in (pairing.first, pairing.second)]
                yield [COMPARISONS[key].name, prompt, place, *tokens, *margins, place < pairing.shared]
