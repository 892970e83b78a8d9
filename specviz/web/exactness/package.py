"""Is it exact? and Break it as packages: what the pages have drawn, with every check as it was planned beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.evidence.bugs.comparison import DistanceCurve, DraftingCounts
from specviz.evidence.results import CellShares, SeedPValues
from specviz.export.manifest import conditions
from specviz.export.package import Package, Picture, quoted
from specviz.figures import cell_shares, mistakes
from specviz.settings import Settings

CELLS = ("decoder", "begins_with", "one_text", "exact_probability", "draws", "share", "low", "high")
LOOKS = ("decoder", "draws", "test", "p_value", "level", "detectable_tv", "verdict")
FLAT = ("from", "to", "runs", "expected", "low", "high")
CURVE = ("draws", "decoder", "total_variation", "noise_mean", "noise_99")
SPEEDS = ("decoder", "texts", "draft_tokens_tested", "accepted", "tokens", "target_passes")
Look = Mapping[str, Any]  # keys of LOOKS


def exact(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[Look],
    flat: SeedPValues | None,
    verdict: str,
    manifest: Mapping[str, Any],
) -> Package:
    """The page's samples in their cells, its checks and, where they were asked for, p-values under many seeds.

    verdict   in words, as the page says it
    manifest  settings, models, versions, permalink and commands
    """
    end, where = cell_shares.rows_end(*arms), conditions(settings, manifest["models"])
    pictures = {
        f"draws-{number}": Picture(partial(cell_shares.cell_bars, one, end), one.name) for number, one in enumerate(arms, start=1)
    }
    captions = [f"{_after(one, settings)} {where if number else f'{verdict} {where}'}" for number, one in enumerate(arms)]
    record, tables = _drawn(arms, looks, verdict)
    if flat:
        pictures["p-values"] = Picture(
            partial(cell_shares.p_value_bars, flat), f"{len(flat.values)} runs of {flat.samples:,} samples"
        )
        captions.append(f"{flat.conclusion} {where}")
        record["p_values"] = list(flat.values)
        tables["p-values.csv"] = lambda: (FLAT, _flat(flat))
    return Package("is-it-exact", "Is it exact?", {"draws.json": record}, tables, pictures, tuple(captions), manifest)


def break_it(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[Look],
    curve: DistanceCurve,
    speeds: tuple[DraftingCounts, DraftingCounts],
    verdict: str,
    manifest: Mapping[str, Any],
) -> Package:
    """Both decoders of a trial, the arguments as for ``exact``. Nothing given here may name a mistake that the visitor has yet to guess."""
    where, pictures = conditions(settings, manifest["models"]), {}
    captions = [f"{verdict} {where}"]
    if curve.n:
        pictures["distance"] = Picture(partial(mistakes.curve, curve), "How far from the exact distribution?")
        captions.append(f"{curve.conclusion} {where}")
    pictures["speed"] = Picture(partial(mistakes.speeds, speeds, curve.wrong))
    captions.append(
        " ".join(f"{one.name} accepts {one.accepted:,} of {one.checked:,} draft tokens in {one.texts} texts." for one in speeds)
    )
    if curve.n and curve.wrong is not None:
        one = arms[curve.wrong]
        pictures["draws"] = Picture(partial(mistakes.wrong_cells, one), one.name)
        captions.append(f"{_after(one, settings)} {where}")
    record, tables = _drawn(arms, looks, verdict)
    distances, accepted = (
        list(_curve(curve)),
        [[one.name, one.texts, one.checked, one.accepted, one.tokens, one.passes] for one in speeds],
    )
    record["curve"] = [dict(zip(CURVE, row, strict=True)) for row in distances]
    record["speeds"] = [dict(zip(SPEEDS, row, strict=True)) for row in accepted]
    tables |= {"curve.csv": lambda: (CURVE, distances), "speeds.csv": lambda: (SPEEDS, accepted)}
    return Package("break-it", "Break it", {"draws.json": record}, tables, pictures, tuple(captions), manifest)


def _drawn(arms: Sequence[CellShares], looks: Sequence[Look], verdict: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both pages export: the record of the samples and checks, and their tables."""
    cells = [
        {"decoder": one.name, "n": one.n, "cells": [dict(zip(CELLS[1:], row, strict=True)) for row in cells_of(one)]}
        for one in arms
    ]
    tables = {
        "cells.csv": lambda: (CELLS, ([one.name, quoted(row[0]), *row[1:]] for one in arms for row in cells_of(one))),
        "looks.csv": lambda: (LOOKS, ([one[key] for key in LOOKS] for one in looks)),
    }
    return {"verdict": verdict, "arms": cells, "looks": [dict(one) for one in looks]}, tables


def _after(one: CellShares, settings: Settings) -> str:
    """What a figure of samples shows, and the prompt that they follow."""
    tokens = "1 token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    return f"{one.conclusion} {tokens[0].upper()}{tokens[1:]} after {quoted(settings.prompt)}."


def cells_of(one: CellShares) -> Iterator[list[Any]]:
    """Rows of every cell, after the decoder's name: those of CELLS."""
    for place in sorted(range(len(one.probs)), key=lambda place: -one.probs[place]):
        band = [one.low[place], one.high[place]] if one.n else ["", ""]
        yield [one.labels[place], one.whole[place], one.probs[place], one.counts[place], one.shares[place], *band]


def _flat(flat: SeedPValues) -> Iterator[list[Any]]:
    bins = len(flat.counts)
    for place, count in enumerate(flat.counts):
        yield [place / bins, (place + 1) / bins, count, len(flat.values) / bins, flat.low, flat.high]


def _curve(curve: DistanceCurve) -> Iterator[list[Any]]:
    for place, n in enumerate(curve.n):
        for arm, name in enumerate(curve.names):
            yield [n, name, curve.tv[place][arm], curve.mean[place], curve.upper[place]]
