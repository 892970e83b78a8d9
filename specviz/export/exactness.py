"""Is it exact? and Break it as packages: what the pages have drawn, with every look as it was planned beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.export.facts import conditions
from specviz.export.package import Package, Picture, quoted
from specviz.figures import mistakes
from specviz.figures.exactness import evidence
from specviz.figures.exactness.evidence import CellShares, SeedPValues
from specviz.figures.mistakes import Curve, Speed
from specviz.settings import Settings

CELLS = ("decoder", "begins_with", "one_text", "exact_probability", "draws", "share", "low", "high")
LOOKS = ("decoder", "draws", "test", "p_value", "level", "detectable_tv", "verdict")
FLAT = ("from", "to", "runs", "expected", "low", "high")
CURVE = ("draws", "decoder", "distance", "chance_mean", "chance_99_of_100")
SPEEDS = ("decoder", "texts", "draft_tokens_tested", "kept", "tokens", "target_passes")
Look = Mapping[str, Any]  # keys of LOOKS


def exact(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[Look],
    flat: SeedPValues | None,
    verdict: str,
    said: Mapping[str, Any],
) -> Package:
    """The page's draws in their cells, its looks and, where they were asked for, p-values under many seeds.

    verdict  in words, as the page says it; said  of the manifest
    """
    end, where = evidence.axis_end(*arms), conditions(settings, said["models"])
    pictures = {
        f"draws-{number}": Picture(partial(evidence.cell_bars, one, end), one.name) for number, one in enumerate(arms, start=1)
    }
    captions = [f"{_after(one, settings)} {verdict} {where}" if not number else f"{_after(one, settings)} {where}"
                for number, one in enumerate(arms)]  # fmt: skip
    record: dict[str, Any] = {
        "verdict": verdict,
        "arms": [_cells_record(one) for one in arms],
        "looks": [dict(one) for one in looks],
    }
    tables = {"cells.csv": lambda: (CELLS, _cells(arms)), "looks.csv": lambda: (LOOKS, _looks(looks))}
    if flat:
        pictures["p-values"] = Picture(
            partial(evidence.p_value_bars, flat), f"{len(flat.values)} runs of {flat.samples:,} samples"
        )
        captions.append(f"{flat.conclusion} {where}")
        record["p_values"] = list(flat.values)
        tables["p-values.csv"] = lambda: (FLAT, _flat(flat))
    return Package("is-it-exact", "Is it exact?", {"draws.json": record}, tables, pictures, tuple(captions), said)


def break_it(
    settings: Settings,
    arms: Sequence[CellShares],
    looks: Sequence[Look],
    curve: Curve,
    speeds: tuple[Speed, Speed],
    verdict: str,
    said: Mapping[str, Any],
) -> Package:
    """Both decoders of a trial. A secret that the visitor has not guessed yet must not be in what is given here."""
    where, pictures = conditions(settings, said["models"]), {}
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
    record = {
        "verdict": verdict,
        "arms": [_cells_record(one) for one in arms],
        "looks": [dict(one) for one in looks],
        "curve": [dict(zip(CURVE, row, strict=True)) for row in _curve(curve)],
        "speeds": [dict(zip(SPEEDS, row, strict=True)) for row in _speeds(speeds)],
    }
    tables = {
        "cells.csv": lambda: (CELLS, _cells(arms)),
        "looks.csv": lambda: (LOOKS, _looks(looks)),
        "curve.csv": lambda: (CURVE, _curve(curve)),
        "speeds.csv": lambda: (SPEEDS, _speeds(speeds)),
    }
    return Package("break-it", "Break it", {"draws.json": record}, tables, pictures, tuple(captions), said)


def _after(one: CellShares, settings: Settings) -> str:
    """What a picture of draws shows, and after which words."""
    tokens = "1 token" if settings.length == 1 else f"{settings.length} tokens"
    return f"{one.conclusion} {tokens[0].upper()}{tokens[1:]} after {quoted(settings.prompt)}."


def _rows(one: CellShares) -> Iterator[list[Any]]:
    for place in sorted(range(len(one.probs)), key=lambda place: -one.probs[place]):
        band = [one.low[place], one.high[place]] if one.n else ["", ""]
        yield [one.name, one.labels[place], one.whole[place], one.probs[place], one.counts[place], one.shares[place], *band]


def _cells(arms: Sequence[CellShares]) -> Iterator[list[Any]]:
    for one in arms:
        for row in _rows(one):
            yield [row[0], quoted(row[1]), *row[2:]]


def _cells_record(one: CellShares) -> dict[str, Any]:
    return {"decoder": one.name, "n": one.n, "cells": [dict(zip(CELLS[1:], row[1:], strict=True)) for row in _rows(one)]}


def _looks(looks: Sequence[Look]) -> Iterator[list[Any]]:
    for one in looks:
        yield [one[key] for key in LOOKS]


def _flat(flat: SeedPValues) -> Iterator[list[Any]]:
    bins = len(flat.counts)
    for place, count in enumerate(flat.counts):
        yield [place / bins, (place + 1) / bins, count, len(flat.values) / bins, flat.low, flat.high]


def _curve(curve: Curve) -> Iterator[list[Any]]:
    for place, n in enumerate(curve.n):
        for arm, name in enumerate(curve.names):
            yield [n, name, curve.tv[place][arm], curve.mean[place], curve.upper[place]]


def _speeds(speeds: Sequence[Speed]) -> Iterator[list[Any]]:
    for one in speeds:
        yield [one.name, one.texts, one.checked, one.accepted, one.tokens, one.passes]
