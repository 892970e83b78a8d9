"""The export of Drafting methods: the comparison on screen as a package."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, list_interval, name_interval_columns, quote_text
from specviz.models.pairs.names import format_options
from specviz.speed.records.methods import ComputedComparison, MethodComparison, dump_comparisons
from specviz.speed.records.plan import SpeedPlan
from specviz.web.common.cost_choice import describe_costs
from specviz.web.drafting_methods import block_gain, rule_matrix, words
from specviz.web.drafting_methods import first_token_figures as figures
from specviz.web.drafting_methods.state import MethodsState, load_block_gain, load_matrix


def build_offer(state: MethodsState) -> ExportOffer:
    """The export of the page; empty until there is a comparison."""
    measured: MethodComparison | None = state.shown_result
    if measured is None:
        return ExportOffer("drafting-methods")
    one = state.apply_costs(measured)
    link = state.question.build_link() | {"prompt": one.settings.prompt}
    said = build_facts(
        one.settings, one.models, "drafting_methods", link, [build_methods_command(one)], n=count_samples(one), turns=one.runs,
        machine=dict(one.machine), measured=one.date, recorded=not state.has_own_result, sentence=words.describe_comparison(one),
        **describe_costs(one.cost_model if isinstance(one, ComputedComparison) else None),
    )  # fmt: skip
    package = build_drafting_methods_package(one, state.question.choice, said, load_block_gain(), load_matrix(), measured)
    return ExportOffer.from_package(
        package, "" if state.has_own_result else f"This is the recorded comparison, for the text “{one.settings.prompt}”."
    )


def count_samples(comparison: MethodComparison) -> int:
    """First tokens drawn of a row; 0 where no row could run."""
    return max((row.first.n for row in comparison.rows if row.first), default=0)


def build_methods_command(comparison: MethodComparison) -> str:
    """The command that measures the same rows without the page; its times are those of the machine it runs on."""
    settings = comparison.settings
    command = ["python", "-m", "specviz", "record", "methods", *format_options(settings.pair)]
    command += [] if comparison.prompts else [f"--prompt={settings.prompt}"]
    command += ["--seed", str(settings.seed), "--gamma", str(settings.gamma), "--max-new-tokens", str(settings.max_new_tokens)]
    command += ["--runs", str(comparison.runs), "--samples", str(max(1, count_samples(comparison))), "--out", "methods.json"]
    return shlex.join(command)


ROWS = ("row", "proposer", "rule", "verdict", "tokens", "passes", "tokens_per_pass", "draft_tokens_per_pass", "accepted_of_tested",
        "ms_per_token", "ms_low", "ms_high", "speed", "speed_low", "speed_high", "comparison", "blank_because")  # fmt: skip
MATRIX_COLUMNS = ("line", "rule", "column", "verdict", "right", "n", "seen", "distance", "p_value", "lost", "said")
GAIN = ("draft_tokens", "tokens_per_pass", *name_interval_columns("counted", "measured"))
FIRST = ("row", "token", "exact_probability", "draws", "share", "low", "high", "written")


def build_drafting_methods_package(
    comparison: MethodComparison,
    choice: str,
    manifest: Mapping[str, Any],
    gain: SpeedPlan | None = None,
    matrix: Mapping[str, Any] | None = None,
    measured: MethodComparison | None = None,
) -> Package:
    """What the page shows, as a package.

    Args:
        comparison: The comparison.
        choice: Name of its distribution.
        manifest: Settings, models, versions, permalink and commands.
        gain: The recorded plan under block verification.
        matrix: The record of ``matrix``.
        measured: The comparison with the times of its own machine, where those of ``comparison`` are computed.
    """
    where, pictures = describe_conditions(comparison.settings, comparison.models), {}
    sentences = (
        words.describe_comparison(comparison),
        comparison.cost_model.describe()
        if isinstance(comparison, ComputedComparison)
        else words.describe_sample_size(comparison),
        words.describe_positions(comparison),
    )
    captions = [f"{' '.join(sentences)} {quote_text(comparison.settings.prompt)}. {where}"]
    first_tokens = figures.list_first_tokens(comparison)
    for chart in figures.FIRST_TOKEN_CHARTS:
        if (first := first_tokens.get(chart.row)) is not None:
            pictures[chart.file] = Picture(partial(chart.plot, first), chart.title)
            captions.append(f"{chart.describe(first)} {where}")
    tables = {
        "rows.csv": lambda: (ROWS, _iterate_method_rows(comparison)),
        "first-tokens.csv": lambda: (FIRST, _iterate_first_token_rows(comparison)),
    }
    if gain is not None and (sentence := block_gain.describe_gain(gain)):
        tables["block-gain.csv"] = lambda: (GAIN, _iterate_gain_rows(gain))
        captions.append(f"{sentence} {describe_conditions(gain.settings, gain.models)}")
    if matrix is not None:
        tables["matrix.csv"] = lambda: (MATRIX_COLUMNS, ([cell[name] for name in MATRIX_COLUMNS] for cell in matrix["cells"]))
        pair, prompt = matrix["settings"]["pair"], quote_text(matrix["settings"]["prompt"])
        captions.append(f"{rule_matrix.describe_matrix(matrix)} Recorded for the pair {pair} and the text {prompt}.")
    data = {"methods.json": json.loads(dump_comparisons({choice: measured or comparison}))}
    return Package("drafting-methods", "Drafting methods", data, tables, pictures, tuple(captions), manifest)


def _iterate_method_rows(comparison: MethodComparison) -> Iterator[list[Any]]:
    for row in comparison.rows:
        measured: list[Any] = [None] * 12
        if row.ms:
            counts = " ".join(f"{accepted}/{checked}" for accepted, checked in zip(row.accepted, row.checked, strict=True))
            measured = [row.tokens, row.passes, row.per_pass, row.nodes, counts, *list_interval(row.ms)]
            compared = "computed" if words.is_computed(row, comparison) else words.compare_with_target(row, comparison)
            measured += [*list_interval(words.compute_speed(row, comparison)), compared]
        verdict = "" if row.reason else words.name_verdict(row)
        yield [row.key, row.entry.settings["proposer"], row.rule, verdict, *measured, row.reason]


def _iterate_gain_rows(plan: SpeedPlan) -> Iterator[list[Any]]:
    """The gain over the token rule, for each gamma; low and high hold the middle 95% of resampled texts."""
    measured = {one.gamma: one.gain for one in plan.checked}
    for row in plan.rows:
        if row.gain is not None:
            yield [row.gamma, row.tokens.value, *list_interval(row.gain), *list_interval(measured.get(row.gamma))]


def _iterate_first_token_rows(comparison: MethodComparison) -> Iterator[list[Any]]:
    for row in comparison.rows:
        if (first := row.first) is None:
            continue
        for cell in range(len(first.probs)):
            written = first.written[cell] if first.written else None
            yield [row.key, quote_text(words.name_first_token(first, cell)), first.probs[cell], first.counts[cell], first.shares[cell],
                   first.low[cell], first.high[cell], written]  # fmt: skip
