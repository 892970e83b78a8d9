"""Draw the samples of a verification shard by shard and save them. The shards do not depend on when a run was stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.sampler import Shard, ShardState, Watch, shared_distributions
from specviz.decoding.samples import Samples
from specviz.evidence import sources
from specviz.evidence.saved import ModeSamples, SavedSamples
from specviz.models.pairs.fingerprint import fingerprints
from specviz.models.pairs.loading import Pair
from specviz.records import versions
from specviz.settings import Settings

SHARD = {sources.SHARED: 2_000_000, sources.ENGINE: 512}  # samples of a shard; a shared shard may be stopped after each pass
ONE_BY_ONE = 16  # the same for decoders that draw one text at a time
PILOT = 64  # samples whose time tells how many fit into the given seconds


def asked(name: str, pair: Pair, settings: Settings, draws: int, seconds: float) -> dict[str, Any]:
    """Everything that determines the samples, including the models and versions of this machine."""
    return {
        "decoder": name,
        "settings": settings.to_record(),
        "draws": draws,
        "seconds": seconds,
        "models": pair.describe() | fingerprints(pair),
        "versions": versions(),
    }


def draw_all(
    saved: SavedSamples,
    name: str,
    mode: str,
    pair: Pair,
    settings: Settings,
    ids: Sequence[int],
    most: int,
    seconds: float,
    watch: Watch,
) -> Samples:
    """Draw ``most`` samples on shared distributions; otherwise as many as fit into ``seconds``, at least a pilot.

    Saved samples are not drawn again. The number of samples depends on the pilot's speed, never on its content, and is saved too.
    """
    if mode not in saved.parts:
        saved.parts[mode] = _begun(name, mode, pair, settings, ids, most, seconds)
    part = saved.parts[mode]

    def keep(state: ShardState) -> None:
        part.half = state
        saved.tick()

    while len(part.tokens) < part.n:
        first = len(part.tokens)
        count = min(SHARD.get(mode, ONE_BY_ONE), part.n - first)

        def told(share: float, first: int = first, count: int = count) -> None:
            watch((first + count * share) / part.n)

        if mode == sources.SHARED:
            shard = Shard(*sources.arguments(name, pair, settings), settings, ids, pair.eos_token_ids, first, count)
            samples = shared_distributions(shard, name, told, part.half and replace(part.half), keep)
        else:
            samples = sources.draw(name, mode, pair, settings, ids, first, count, told)
        part.tokens, part.half = np.concatenate([part.tokens.reshape(-1, samples.tokens.shape[1]), samples.tokens]), None
        part.source = samples.source
        saved.tick()
    watch(1.0)
    return Samples(part.tokens, settings.to_record(), part.source)


def cuts(mode: str, n: int) -> list[int]:
    """Sizes of the shards, in order. In float32 a sample very close to an edge may depend on the other samples of its shard."""
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
