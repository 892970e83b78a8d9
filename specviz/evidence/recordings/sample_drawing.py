"""Draws the samples that *Exactness test* and *Break it* open with, as the pages draw them: ``specviz record samples``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from specviz.decoding.samples import Samples
from specviz.evidence.decoder import SHARED
from specviz.evidence.mistakes.comparison import LONG, POINTS, TEXTS, DistanceCurve, MistakeResult, find_first_differences
from specviz.evidence.mistakes.registry import VARIANTS
from specviz.evidence.recordings.samples import DecoderSamplesRecord, MistakeSamplesRecord
from specviz.evidence.sampling.sampling_plan import make_cells
from specviz.evidence.sampling.session import SamplingSpec, ShardRange, SideBySide, compute_seed_p_values, draw_shard, write_texts
from specviz.evidence.testing.results import (
    CELLS,
    DECODERS,
    LEAST,
    SEED_SAMPLES,
    SEEDS,
    ExactnessResult,
    FillStep,
    InterimTest,
    SeedPValues,
    label_cells,
)
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.speed.measurement.machine import format_today


def record_decoder(pair: LoadedPair, settings: Settings, count: int, progress: ProgressCallback) -> DecoderSamplesRecord:
    """``count`` samples of speculative decoding, and as many of target-only sampling under the next seed; p-values of many seeds."""
    ids = tuple(pair.encode(settings.prompt))
    own = ("speculative", settings), ("target", replace(settings, seed=settings.seed + 1))
    specs = [SamplingSpec(name, SHARED, one, ids, label=DECODERS[name]) for name, one in own]
    session = _open_session(pair, settings, specs, 1)
    looks: list[tuple[InterimTest, ...]] = []
    steps = []
    for begin, end in pairwise((0, *(point for point in POINTS if point < count), count)):
        samples = session.draw(end - begin, _show_as(progress, "samples"))
        looks += session.test(samples)
        if end in POINTS:
            steps.append(FillStep.from_shares(session.report()[0]))

    def draw_seed(own: Settings) -> Samples:
        return draw_shard(pair, SamplingSpec("speculative", SHARED, own, ids), ShardRange(0, SEED_SAMPLES))

    values = compute_seed_p_values(pair, settings, ids, SEEDS, SEED_SAMPLES, draw_seed)
    flat = SeedPValues.from_values(list(values), SEED_SAMPLES)
    left, right = session.report()
    result = ExactnessResult((left, right), tuple(looks), p_values=flat, steps=tuple(steps))
    return DecoderSamplesRecord(settings, "speculative", pair.describe() | hash_pair(pair), format_today(), result)


def record_mistake(
    pair: LoadedPair, mistake: str, specs: Sequence[SamplingSpec], most: int, progress: ProgressCallback
) -> MistakeSamplesRecord:
    """Samples of two decoders side by side, until a test rejects the second one; at most ``most``.

    Args:
        pair: The models.
        mistake: Its id.
        specs: The right decoder and the wrong one, under the same settings.
        most: Samples of each, a point of the curve.
        progress: Called with the share that is done.
    """
    settings, names = specs[0].settings, (specs[0].label, specs[1].label)
    session = _open_session(pair, settings, specs, 2)
    written = [write_texts(pair, spec, TEXTS, LONG, _show_as(progress, "texts")) for spec in specs]
    looks: list[tuple[InterimTest, ...]] = []
    curve, same, steps = DistanceCurve(names, None), 0, []
    for begin, end in pairwise((0, *(point for point in POINTS if point <= most))):
        samples = session.draw(end - begin, _show_as(progress, "samples"))
        looks += session.test(samples)
        curve, same = session.extend_curve(curve), same + int((samples[0].tokens == samples[1].tokens).all(1).sum())
        steps.append(FillStep.from_shares(session.report()[1]))
        if looks and looks[-1][1].verdict == "rejected":
            break
    left, right = session.report()
    (texts, one), (other_texts, other) = written
    alike = sum(a == b for a, b in zip(texts, other_texts, strict=True))
    pairs = find_first_differences(pair.decode, texts, other_texts)
    result = MistakeResult(
        (left, right), tuple(looks), pairs=pairs, alike=(alike, TEXTS), speeds=(one, other),
        toy=VARIANTS[mistake].toy_tv, curve=curve, same=same, steps=tuple(steps),
    )  # fmt: skip
    return MistakeSamplesRecord(settings, mistake, pair.describe() | hash_pair(pair), format_today(), result)


def _open_session(pair: LoadedPair, settings: Settings, specs: Sequence[SamplingSpec], tested: int) -> SideBySide:
    """Counts of none yet in the cells of the picture and of every test."""
    cells = make_cells(pair, settings, CELLS, LEAST).without_impossible()
    return SideBySide(pair, specs, cells, label_cells(cells.shown, pair.read_pieces), tested)


def _show_as(progress: ProgressCallback, doing: str) -> ProgressCallback:
    """A progress callback with a label."""
    return lambda share, _="", /: progress(share, doing)
