"""The export of Break it: both decoders' samples, tests and acceptance as a package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.evidence.mistakes.comparison import DistanceCurve, DraftingCounts
from specviz.evidence.testing.results import CellShares
from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture
from specviz.settings import Settings
from specviz.web.common.side_by_side.export import TestRow, build_sample_tables, describe_samples
from specviz.web.common.side_by_side.words import RULE, build_test_row, build_verify_command, find_smallest_p
from specviz.web.mistakes import figures, words
from specviz.web.mistakes.state import MistakeState


def build_offer(state: MistakeState) -> ExportOffer:
    """The export of the page; empty until the texts are there."""
    if state.shown_result.arms is None:
        return ExportOffer(
            "break-it", note="Choose a mistake: the game has no samples of yours." if state.question.is_hidden else ""
        )
    return ExportOffer.from_package(build_session_package(state))


def build_session_package(state: MistakeState) -> Package:
    """Build the package of the trial on screen."""
    result, question, verdict = state.shown_result, state.question, words.build_verdict(state)
    tests = [
        build_test_row(name, one, find_smallest_p(one))
        for pair in result.looks
        for name, one in zip(question.names, pair, strict=True)
    ]
    mistake = question.mistake
    shown = {
        "id": mistake.id,
        "name": mistake.name,
        "wrong": mistake.description,
        "thread": mistake.thread,
        "decoder": question.names[1],
    }
    said = build_facts(
        question.settings, state.models, "mistakes", question.build_link(),
        [build_verify_command(question.settings, question.mistake_id)], mistake=shown, n=result.n, verdict=verdict.mark,
        sentence=verdict.words, detectable_tv=tests[-1]["detectable_tv"] if tests else None, tests=tests, rule_of_the_looks=RULE,
    )  # fmt: skip
    curve = result.mark_curve(1)
    answer = f"{verdict.words} {words.explain_verdict(state)}".strip()
    return build_mistakes_package(question.settings, result.arms, tests, curve, result.speeds, answer, said)


CURVE = ("draws", "decoder", "total_variation", "noise_mean", "noise_99")


SPEEDS = ("decoder", "texts", "draft_tokens_tested", "accepted", "tokens", "target_passes")


def build_mistakes_package(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[TestRow],
    curve: DistanceCurve,
    speeds: tuple[DraftingCounts, DraftingCounts],
    verdict: str,
    manifest: Mapping[str, Any],
) -> Package:
    """Both decoders of a trial, the arguments as for ``build_exactness_package``."""
    where, pictures = describe_conditions(settings, manifest["models"]), {}
    captions = [f"{verdict} {where}"]
    if curve.n:
        pictures["distance"] = Picture(partial(figures.plot_distances, curve), "How far from the exact distribution?")
        captions.append(f"{curve.conclusion} {where}")
    pictures["speed"] = Picture(partial(figures.plot_acceptance, speeds, curve.wrong))
    captions.append(
        " ".join(f"{one.name} accepts {one.accepted:,} of {one.checked:,} draft tokens in {one.texts} texts." for one in speeds)
    )
    if curve.n and curve.wrong is not None:
        one = arms[curve.wrong]
        pictures["draws"] = Picture(partial(figures.plot_wrong_cells, one), one.name)
        captions.append(f"{describe_samples(one, settings)} {where}")
    record, tables = build_sample_tables(arms, looks, verdict)
    distances, accepted = (
        list(_iterate_curve_rows(curve)),
        [[one.name, one.texts, one.checked, one.accepted, one.tokens, one.passes] for one in speeds],
    )
    record["curve"] = [dict(zip(CURVE, row, strict=True)) for row in distances]
    record["speeds"] = [dict(zip(SPEEDS, row, strict=True)) for row in accepted]
    tables |= {"curve.csv": lambda: (CURVE, distances), "speeds.csv": lambda: (SPEEDS, accepted)}
    return Package("break-it", "Break it", {"draws.json": record}, tables, pictures, tuple(captions), manifest)


def _iterate_curve_rows(curve: DistanceCurve) -> Iterator[list[Any]]:
    for place, n in enumerate(curve.n):
        for arm, name in enumerate(curve.names):
            yield [n, name, curve.tv[place][arm], curve.mean[place], curve.upper[place]]
