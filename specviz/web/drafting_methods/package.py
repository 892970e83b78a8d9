"""Drafting methods as a package: the recorded comparison, its rows and first tokens as tables, what block verification gains, and every
drafting method under every rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.manifest import conditions
from specviz.export.package import Package, Picture, interval, interval_columns, quoted
from specviz.speed.methods import MethodComparison, dump_comparisons
from specviz.speed.prediction.plan import SpeedPlan
from specviz.web.drafting_methods import block_gain
from specviz.web.drafting_methods import matrix as all_rules
from specviz.web.drafting_methods import methods as figures

ROWS = ("row", "proposer", "rule", "verdict", "tokens", "passes", "tokens_per_pass", "draft_tokens_per_pass", "accepted_of_tested",
        "ms_per_token", "ms_low", "ms_high", "speed", "speed_low", "speed_high", "told", "blank_because")  # fmt: skip
CELLS = ("line", "rule", "column", "verdict", "right", "n", "seen", "distance", "p_value", "lost", "said")
GAIN = ("draft_tokens", "tokens_per_pass", *interval_columns("counted", "measured"))
FIRST = ("row", "token", "exact_probability", "draws", "share", "low", "high", "written")


def drafting_methods(
    one: MethodComparison,
    choice: str,
    manifest: Mapping[str, Any],
    gain: SpeedPlan | None = None,
    matrix: Mapping[str, Any] | None = None,
) -> Package:
    """What the page shows.

    choice    the distribution's name there
    manifest  settings, models, versions, permalink and commands
    gain      the recorded plan under block verification; matrix  the record of ``verify --all``
    """
    where = conditions(one.settings, one.models)
    pictures, captions = (
        {},
        [f"{figures.conclusion(one)} {figures.few(one)} {figures.positions(one)} {quoted(one.settings.prompt)}. {where}"],
    )
    row = one.row("adversarial")
    if row and row.first:
        pictures["same-distribution"] = Picture(
            partial(figures.same_distribution, row.first), "A bad draft, the same distribution"
        )
        captions.append(f"{figures.same_distribution_conclusion(row.first)} {where}")
    row = one.row("typical")
    if row and row.first:
        pictures["shortcut"] = Picture(partial(figures.shortcut, row.first), "A popular shortcut")
        captions.append(f"{figures.shortcut_conclusion(row.first)} {where}")
    tables = {"rows.csv": lambda: (ROWS, _rows(one)), "first-tokens.csv": lambda: (FIRST, _first(one))}
    if gain is not None and (sentence := block_gain.sentence(gain)):
        tables["block-gain.csv"] = lambda: (GAIN, _gain(gain))
        captions.append(f"{sentence} {conditions(gain.settings, gain.models)}")
    if matrix is not None:
        tables["matrix.csv"] = lambda: (CELLS, ([cell[name] for name in CELLS] for cell in matrix["cells"]))
        asked = matrix["settings"]
        captions.append(
            f"{all_rules.conclusion(matrix)} Recorded for the pair {asked['pair']} and the text {quoted(asked['prompt'])}."
        )
    data = {"methods.json": json.loads(dump_comparisons({choice: one}))}
    return Package("drafting-methods", "Drafting methods", data, tables, pictures, tuple(captions), manifest)


def _rows(one: MethodComparison) -> Iterator[list[Any]]:
    for row in one.rows:
        measured: list[Any] = [None] * 12
        if row.ms:
            counts = " ".join(f"{accepted}/{checked}" for accepted, checked in zip(row.accepted, row.checked, strict=True))
            measured = [row.tokens, row.passes, row.per_pass, row.nodes, counts, *interval(row.ms)]
            measured += [*interval(figures.speed(row, one)), figures.told(row, one)]
        verdict = "" if row.reason else figures.verdict(row)
        yield [row.key, row.entry.settings["proposer"], row.rule, verdict, *measured, row.reason]


def _gain(plan: SpeedPlan) -> Iterator[list[Any]]:
    """The gain over the token rule, for each gamma; low and high hold the middle 95% of resampled texts."""
    measured = {one.gamma: one.gain for one in plan.checked}
    for row in plan.rows:
        if row.gain is not None:
            yield [row.gamma, row.tokens.value, *interval(row.gain), *interval(measured.get(row.gamma))]


def _first(one: MethodComparison) -> Iterator[list[Any]]:
    for row in one.rows:
        first = row.first
        for cell in range(len(first.probs) if first else 0):
            written = first.written[cell] if first.written else None
            yield [row.key, quoted(figures.name_of(first, cell)), first.probs[cell], first.counts[cell], first.shares[cell],
                   first.low[cell], first.high[cell], written]  # fmt: skip
