"""Other proposers as a package: the gallery's record, its rows and first tokens as tables, both pictures of distributions, and what was recorded
beside them: what block verification gains, and every proposer under every rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.facts import conditions
from specviz.export.package import Package, Picture, quoted
from specviz.figures.drafting_methods import block_gain
from specviz.figures.drafting_methods import matrix as all_rules
from specviz.figures.drafting_methods import methods as figures
from specviz.measure.methods import MethodComparison, to_json
from specviz.prediction.plan import SpeedPlan

ROWS = ("row", "proposer", "rule", "verdict", "tokens", "passes", "tokens_per_pass", "draft_tokens_per_pass", "kept_of_tested",
        "ms_per_token", "ms_low", "ms_high", "blank_because")  # fmt: skip
CELLS = ("line", "rule", "column", "verdict", "right", "n", "seen", "distance", "p_value", "lost", "said")
GAIN = ("draft_tokens", "tokens_per_pass", "counted", "counted_low", "counted_high", "measured", "measured_low", "measured_high")
FIRST = ("row", "token", "exact_probability", "draws", "share", "low", "high", "written")


def other_proposers(
    one: MethodComparison,
    choice: str,
    said: Mapping[str, Any],
    gain: SpeedPlan | None = None,
    matrix: Mapping[str, Any] | None = None,
) -> Package:
    """What stands on the page.

    choice  the distribution's name there; said  of the manifest
    gain    the recorded plan under block verification; matrix  the record of ``verify --all``
    """
    where = conditions(one.settings, one.models)
    pictures, captions = {}, [f"{figures.conclusion(one)} {figures.positions(one)} {quoted(one.settings.prompt)}. {where}"]
    for key, name, title, draw, conclude in (
        (
            "adversarial",
            "same-distribution",
            "A bad draft, the same distribution",
            figures.same_distribution,
            figures.same_distribution_conclusion,
        ),
        ("typical", "shortcut", "A popular shortcut", figures.shortcut, figures.shortcut_conclusion),
    ):
        row = one.row(key)
        if row is not None and row.first is not None:
            pictures[name] = Picture(partial(draw, row.first), title)
            captions.append(f"{conclude(row.first)} {where}")
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
    record = json.loads(to_json({choice: one}))
    return Package("other-proposers", "Drafting methods", {"methods.json": record}, tables, pictures, tuple(captions), said)


def _rows(one: MethodComparison) -> Iterator[list[Any]]:
    for row in one.rows:
        counts = " ".join(f"{kept}/{tested}" for kept, tested in zip(row.kept, row.tested, strict=True))
        verdict = "" if row.reason else figures.verdict(row)
        measured = (
            [row.tokens, row.passes, row.per_pass, row.nodes, counts, row.ms.value, row.ms.low, row.ms.high]
            if row.ms
            else [""] * 8
        )
        yield [row.key, row.entry.settings["proposer"], row.rule, verdict, *measured, row.reason]


def _gain(plan: SpeedPlan) -> Iterator[list[Any]]:
    """What is above the token rule, for each gamma; low and high hold the middle 95% of resampled texts."""
    measured = {one.gamma: one.gain for one in plan.checked}
    for row in plan.rows:
        if row.gain is not None:
            spans = [[one.value, one.low, one.high] if one else [""] * 3 for one in (row.gain, measured.get(row.gamma))]
            yield [row.gamma, row.tokens.value, *spans[0], *spans[1]]


def _first(one: MethodComparison) -> Iterator[list[Any]]:
    for row in one.rows:
        first = row.first
        for cell in range(len(first.probs) if first else 0):
            written = first.written[cell] if first.written else ""
            yield [row.key, quoted(figures.name_of(first, cell)), first.probs[cell], first.counts[cell], first.shares[cell],
                   first.low[cell], first.high[cell], written]  # fmt: skip
