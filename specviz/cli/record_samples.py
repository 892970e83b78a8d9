"""What ``record samples`` draws: the samples of the pages, as the pages draw them, but without a visitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from specviz.decoding.samples import Samples
from specviz.evidence import decoders, sequential
from specviz.evidence.bugs import comparison, side_by_side
from specviz.evidence.bugs.comparison import RULES, BugResult, DistanceCurve, DraftingCounts
from specviz.evidence.bugs.registry import MUTANTS
from specviz.evidence.bugs.side_by_side import Side
from specviz.evidence.many_seeds import p_values
from specviz.evidence.recorded_samples import BugSamplesRecord, DecoderSamplesRecord
from specviz.evidence.results import (
    CELLS,
    DECODERS,
    LEAST,
    SEED_SAMPLES,
    SEEDS,
    ExactnessResult,
    SeedPValues,
    build_cell_shares,
    find_latest_difference,
    label_cells,
)
from specviz.evidence.tally import SIZES, Look, Tally, possible
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings

MISTAKE = "R5"  # the commonest one


def of_a_decoder(pair: LoadedPair, settings: Settings, count: int, progress: Any) -> DecoderSamplesRecord:
    """``count`` samples of speculative decoding, and as many of target-only sampling under the next seed; p-values of many seeds."""
    tally, labels = _tally(pair, settings, (DECODERS["speculative"], DECODERS["target"]), 1)
    ids = tuple(pair.encode(settings.prompt))
    asked = (("speculative", settings), ("target", replace(settings, seed=settings.seed + 1)))

    def draw(first: int, size: int) -> Sequence[Samples]:
        return decoders.draw_each(pair, asked, ids, first, size, _named(progress, "samples"))

    found: list[tuple[Look, ...]] = []
    texts = None
    for begin, end in pairwise((0, *(size for size in SIZES if size < count), count)):
        arms = draw(begin, end - begin)
        found += tally.add(arms)
        texts = find_latest_difference(pair.decode, arms) or texts

    def of_seed(own: Settings) -> Samples:
        return decoders.draw("speculative", decoders.SHARED, pair, own, ids, 0, SEED_SAMPLES)

    flat = SeedPValues.from_values(list(p_values(pair, settings, ids, SEEDS, SEED_SAMPLES, of_seed)), SEED_SAMPLES)
    left, right = build_cell_shares(tally, labels)
    result = ExactnessResult((left, right), tuple(found), texts=texts, p_values=flat)
    return DecoderSamplesRecord(settings, "speculative", _models(pair), _today(), result)


def of_a_mistake(pair: LoadedPair, settings: Settings, progress: Any) -> BugSamplesRecord:
    """Samples with and without the commonest mistake from the same random numbers, until a test detects it."""
    mutant = MUTANTS[MISTAKE]
    settings = mutant.under(settings)
    sides = [Side(name, settings, MISTAKE, makes) for name, makes in zip(RULES, ("nothing", "mistake"), strict=True)]
    tally, labels = _tally(pair, settings, RULES, 2)
    ids = tuple(pair.encode(settings.prompt))
    texts = [
        side_by_side.written(pair, side, ids, comparison.TEXTS, comparison.LONG, _named(progress, "texts")) for side in sides
    ]
    found: list[tuple[Look, ...]] = []
    curve, same = DistanceCurve(RULES, None), 0
    for begin, end in pairwise((0, *comparison.POINTS)):
        arms = [side_by_side.samples(pair, side, True, ids, begin, end - begin, _named(progress, "samples")) for side in sides]
        found += tally.add(arms)
        curve, same = curve.with_point(tally), same + int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if found and found[-1][1].verdict == "rejected":
            break
    left, right = build_cell_shares(tally, labels)
    one, other = (
        DraftingCounts(name, comparison.TEXTS, each.checked, each.accepted, each.tokens, each.passes)
        for name, each in zip(RULES, texts, strict=True)
    )
    written = [each.texts for each in texts]
    alike = sum(a == b for a, b in zip(*written, strict=True))
    result = BugResult(
        (left, right), tuple(found), pairs=comparison.find_first_differences(pair.decode, *written), alike=(alike, comparison.TEXTS),
        speeds=(one, other), toy=mutant.toy_tv, curve=curve, same=same,
    )  # fmt: skip
    return BugSamplesRecord(settings, MISTAKE, _models(pair), _today(), result)


def _tally(pair: LoadedPair, settings: Settings, names: tuple[str, str], tested: int) -> tuple[Tally, tuple[str, ...]]:
    """Counts of none yet in the cells of the picture and of every test, and what the cells of the picture are called."""
    shown, *of_looks = sequential.partitions(pair, settings, CELLS, LEAST, lambda share: None)
    cells = possible(shown)
    return Tally(names, tested, cells, of_looks), label_cells(cells, pair.pieces)


def _named(progress: Callable[[float, str], None], doing: str) -> ProgressCallback:
    return lambda share: progress(share, doing)


def _models(pair: LoadedPair) -> dict[str, Any]:
    return pair.describe() | hash_pair(pair)


def _today() -> str:
    return datetime.now(UTC).strftime("%-d %B %Y")
