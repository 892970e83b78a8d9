"""All draws of an examination, shard after shard, kept as they come: where the cuts lie does not depend on when a run stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.sampler import Half, Watch, shared_distributions
from specviz.decoding.samples import Samples
from specviz.evidence import sources
from specviz.evidence.report import fingerprints, versions
from specviz.evidence.saved import ModeSamples, SavedSamples
from specviz.models.pairs.loading import Pair
from specviz.settings import Settings

SHARD = {
    sources.SHARED: 2_000_000,
    sources.ENGINE: 512,
}  # draws between two cuts; on shared distributions each pass may be stopped after
ONE_BY_ONE = 16  # of decoders that draw one text at a time
PILOT = 64  # draws whose time says how many fit a budget


def asked(name: str, pair: Pair, settings: Settings, draws: int, seconds: float) -> dict[str, Any]:
    """What the draws follow from, and what they would differ by on another machine."""
    return {
        "decoder": name,
        "settings": settings.to_record(),
        "draws": draws,
        "seconds": seconds,
        "models": pair.describe() | fingerprints(pair),
        "versions": versions(),
    }


def draw_all(
    kept: SavedSamples,
    name: str,
    mode: str,
    pair: Pair,
    settings: Settings,
    ids: Sequence[int],
    most: int,
    seconds: float,
    watch: Watch,
) -> Samples:
    """On shared distributions ``most`` draws; else as many as fit the seconds, at least a pilot. What is kept is not drawn again.

    Their number follows from the pilot's speed, never from what was drawn, and is kept with the draws.
    """
    if mode not in kept.parts:
        kept.parts[mode] = _begun(name, mode, pair, settings, ids, most, seconds)
    part = kept.parts[mode]
    while len(part.tokens) < part.n:
        first = len(part.tokens)
        count = min(SHARD.get(mode, ONE_BY_ONE), part.n - first)

        def told(share: float, first: int = first, count: int = count) -> None:
            watch((first + count * share) / part.n)

        shard = _shard(kept, part, name, mode, pair, settings, ids, first, count, told)
        part.tokens, part.half = np.concatenate([part.tokens.reshape(-1, shard.tokens.shape[1]), shard.tokens]), None
        part.source = shard.source
        kept.tick()
    watch(1.0)
    return Samples(part.tokens, settings.to_record(), part.source)


def cuts(mode: str, n: int) -> list[int]:
    """How many draws stand between the cuts, in order. In float32 a draw very near an edge may depend on who was drawn beside it."""
    pilot = [] if mode == sources.SHARED else [min(n, PILOT)]
    left, size = n - sum(pilot), SHARD.get(mode, ONE_BY_ONE)
    return pilot + [min(size, left - done) for done in range(0, left, size)]


def _begun(name: str, mode: str, pair: Pair, settings: Settings, ids: Sequence[int], most: int, seconds: float) -> ModeSamples:
    if mode == sources.SHARED:
        return ModeSamples(most, name, np.zeros((0, 0), dtype=np.int32))
    began = time.perf_counter()
    pilot = sources.draw(name, mode, pair, settings, ids, 0, min(most, PILOT))
    each = (time.perf_counter() - began) / len(pilot)
    return ModeSamples(max(len(pilot), min(most, int(seconds / each))), pilot.source, pilot.tokens)


def _shard(
    kept: SavedSamples,
    part: ModeSamples,
    name: str,
    mode: str,
    pair: Pair,
    settings: Settings,
    ids,
    first: int,
    count: int,
    watch: Watch,
) -> Samples:
    if mode != sources.SHARED:
        return sources.draw(name, mode, pair, settings, ids, first, count, watch)

    def keep(half: Half) -> None:
        part.half = half
        kept.tick()

    half = part.half and replace(part.half)
    ours = sources.arguments(name, pair, settings)
    return shared_distributions(*ours, settings, ids, pair.eos_token_ids, first, count, name, watch, half, keep)
