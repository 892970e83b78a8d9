"""The export of Serving limits: the measurement on screen as a package."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.evidence.serving_setups.records import COMPARISONS, SetupComparison
from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, list_interval, name_interval_columns, quote_text
from specviz.models.pairs.names import format_options
from specviz.web.serving_limits import near_tie_figures as ties
from specviz.web.serving_limits import setup_figures as figures
from specviz.web.serving_limits.state import SetupsState


def build_offer(state: SetupsState) -> ExportOffer:
    """The export of the page; empty until there is a measurement."""
    one = state.shown_result
    if one is None:
        return ExportOffer("serving-limits")
    link = {key: value for key, value in state.question.build_link().items() if state.has_own_result or key != "prompt"}
    said = build_facts(
        one.settings, one.models, "serving_limits", link, [] if state.has_own_result else [build_setups_command(one)], n=one.texts, turns=one.runs,
        machine=dict(one.machine), measured=one.date, recorded=not state.has_own_result, sentence=figures.describe_setups(one),
    )  # fmt: skip
    package = build_serving_limits_package(one, state.question.arm, said)
    return ExportOffer.from_package(
        package, "" if state.has_own_result else f"This is the recorded measurement, on passages of {one.text}."
    )


def build_setups_command(comparison: SetupComparison) -> str:
    """What records the same rows without the page; times are those of the machine it runs on."""
    settings = comparison.settings
    positions = min((row.own.prefixes for row in comparison.rows if row.own), default=1)
    words = ["python", "-m", "specviz", "record", "setups", *format_options(settings.pair), "--seed", str(settings.seed)]
    words += ["--gamma", str(settings.gamma), "--continuations", str(comparison.texts), "--runs", str(comparison.runs)]
    return shlex.join([*words, "--positions", str(positions), "--out", "setups.json"])


ROWS = ("row", "served_as", "verdict", *name_interval_columns("tv_to_reference", "overlap", "target_only_speed", "speculative_speed"),
        "draft_tokens_mean_tv", "draft_tokens_worst_tv", "prefixes", "near_ties", "tokens", "passes", "tested", "accepted",
        "ms_target_only", "ms_speculative", "blank_because")  # fmt: skip
GREEDY = ("arm", "prompt", "place", "first_token", "second_token", "first_margin", "second_margin", "same")


def build_serving_limits_package(comparison: SetupComparison, arm: str, manifest: Mapping[str, Any]) -> Package:
    """What the page shows.

    ``arm``: whose greedy texts are drawn. ``manifest``: settings, models, versions, permalink and commands.
    """
    where = describe_conditions(comparison.settings, comparison.models)
    pictures = {
        "distances": Picture(
            partial(figures.plot_distances, comparison), "What a serving setup changes, and what draft tokens add"
        )
    }
    captions = [f"{figures.describe_setups(comparison)} {where}"]
    if seen := comparison.near_ties.summarize(arm):
        pictures["margins"] = Picture(partial(ties.plot_margins, seen), f"{COMPARISONS[arm].first} and {COMPARISONS[arm].second}")
        pictures["spread"] = Picture(
            partial(ties.plot_gap_histogram, seen), f"Margins: {COMPARISONS[arm].first} and {COMPARISONS[arm].second}"
        )
        captions.append(f"{ties.describe_near_ties(seen)} {where}")
    tables = {
        "rows.csv": lambda: (ROWS, _iterate_setup_rows(comparison)),
        "greedy.csv": lambda: (GREEDY, _iterate_greedy_rows(comparison)),
    }
    data = {"setups.json": json.loads(comparison.to_json())}
    return Package("serving-limits", "Serving limits", data, tables, pictures, tuple(captions), manifest)


def _iterate_setup_rows(comparison: SetupComparison) -> Iterator[list[Any]]:
    for row in comparison.rows:
        spans = [
            x
            for found in (row.distance, row.overlap, row.speed_without_draft, row.speed_with_draft)
            for x in list_interval(found)
        ]
        own = [row.own.mean, row.own.worst, row.own.prefixes, row.own.near_ties] if row.own else [None] * 4
        yield [row.key, row.entry.name, "" if row.reason else row.verdict, *spans, *own, row.tokens, row.passes, row.checked, row.accepted,
               *(row.ms or (None, None)), row.reason]  # fmt: skip


def _iterate_greedy_rows(comparison: SetupComparison) -> Iterator[list[Any]]:
    """Every token of every greedy text up to where the two texts of a pair diverge, with both margins."""
    for key in comparison.near_ties.comparisons:
        for prompt, pairing in enumerate(comparison.near_ties.comparisons[key]):
            for place in range(min(pairing.shared + 1, len(pairing.first.tokens))):
                tokens = [quote_text(ties.name_token(pairing, text.tokens[place])) for text in (pairing.first, pairing.second)]
                margins = [text.margins[place] for text in (pairing.first, pairing.second)]
                yield [COMPARISONS[key].name, prompt, place, *tokens, *margins, place < pairing.shared]
