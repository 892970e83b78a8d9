"""The export of Exactness test: the samples on screen, or a report on a file or a server, as a package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.evidence.testing.results import CellShares, SeedPValues
from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture
from specviz.figures import cell_shares
from specviz.settings import Settings
from specviz.web.common.side_by_side.export import TestRow, build_sample_tables, describe_samples
from specviz.web.common.side_by_side.words import RULE, build_test_row
from specviz.web.exactness import words
from specviz.web.exactness.state import ExactnessState


def build_offer(state: ExactnessState) -> ExportOffer:
    """The export of the page; empty until the exact distribution is known."""
    if state.report is not None:
        from specviz.export.report import build_report_package  # scipy comes with it, which a recorded page does without

        return ExportOffer.from_package(build_report_package(state.report))
    return (
        ExportOffer("is-it-exact") if state.shown_result.arms is None else ExportOffer.from_package(build_session_package(state))
    )


def build_session_package(state: ExactnessState) -> Package:
    """Build the package of the samples on screen, with the tests of the plan."""
    result, question, verdict = state.shown_result, state.question, words.build_verdict(state)
    tests = [build_test_row(result.arms[0].name, found, test) for (found,) in result.looks for test in found.tests]
    said = build_facts(
        question.settings, state.models, "exactness", question.build_link(), [words.build_command(state)], decoder=question.source, n=result.n,
        draws_through_the_engine=result.engine, verdict=verdict.mark, sentence=verdict.words,
        detectable_tv=tests[-1]["detectable_tv"] if tests else None, tests=tests, rule_of_the_looks=RULE,
    )  # fmt: skip
    return build_exactness_package(
        question.settings, result.arms, tests, result.p_values, f"{verdict.words} {verdict.details}", said
    )


FLAT = ("from", "to", "runs", "expected", "low", "high")


def build_exactness_package(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[TestRow],
    flat: SeedPValues | None,
    verdict: str,
    manifest: Mapping[str, Any],
) -> Package:
    """The page's samples in their cells, its checks and, where they were asked for, p-values under many seeds.

    ``verdict``: in words, as the page says it. ``manifest``: settings, models, versions, permalink and commands.
    """
    end, where = cell_shares.compute_rows_end(*arms), describe_conditions(settings, manifest["models"])
    pictures = {
        f"draws-{number}": Picture(partial(cell_shares.plot_cells, one, end), one.name)
        for number, one in enumerate(arms, start=1)
    }
    captions = [
        f"{describe_samples(one, settings)} {where if number else f'{verdict} {where}'}" for number, one in enumerate(arms)
    ]
    record, tables = build_sample_tables(arms, looks, verdict)
    if flat:
        pictures["p-values"] = Picture(
            partial(cell_shares.plot_p_values, flat), f"{len(flat.values)} runs of {flat.samples:,} samples"
        )
        captions.append(f"{flat.conclusion} {where}")
        record["p_values"] = list(flat.values)
        tables["p-values.csv"] = lambda: (FLAT, _iterate_p_value_rows(flat))
    return Package("is-it-exact", "Exactness test", {"draws.json": record}, tables, pictures, tuple(captions), manifest)


def _iterate_p_value_rows(flat: SeedPValues) -> Iterator[list[Any]]:
    bins = len(flat.counts)
    for place, count in enumerate(flat.counts):
        yield [place / bins, (place + 1) / bins, count, len(flat.values) / bins, flat.low, flat.high]
