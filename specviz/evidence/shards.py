"""Draw the samples of a verification shard by shard and save them. The shards do not depend on when a run was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from specviz.decoding.sampler import Shard, ShardState, shared_distributions
from specviz.decoding.samples import Samples
from specviz.evidence import decoders
from specviz.evidence.saved import ModeSamples, SavedSamples
from specviz.jobs.tasks import Executor, PairRef, allow_paths, describe_models
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings

SHARD = {decoders.SHARED: 2_000_000, decoders.ENGINE: 512}  # samples of a shard; a shared shard may be stopped after each pass
ONE_BY_ONE = 16  # the same for decoders that draw one text at a time
PILOT = 64  # samples whose time tells how many fit into the given seconds


class ShardRange(NamedTuple):
    """A shard of a run: samples ``first`` to ``first + count - 1``."""

    first: int
    count: int

    def __str__(self) -> str:
        return f"samples {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """What all shards of a run share, besides the pair."""

    name: str
    mode: str
    settings: Settings
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SamplingTask:
    """A run's shards as items of a task. A worker may read the files that its settings name: they come from a command line."""

    pair: PairRef
    work: SamplingSpec

    def prepare(self) -> Callable[[ShardRange, ProgressCallback], Samples]:
        allow_paths(self.work.settings)
        return partial(draw_shard, self.pair.load(), self.work)


def draw_shard(pair: LoadedPair, work: SamplingSpec, cut: ShardRange, on_progress: ProgressCallback = ignore_progress) -> Samples:
    """The samples of a shard."""
    return decoders.draw(work.name, work.mode, pair, work.settings, work.ids, cut.first, cut.count, on_progress)


def describe_run(name: str, pair: LoadedPair, settings: Settings, draws: int, seconds: float) -> dict[str, Any]:
    """Everything that determines the samples, including the models and versions of this machine."""
    return {
        "decoder": name,
        "settings": settings.to_record(),
        "draws": draws,
        "seconds": seconds,
        **describe_models(pair),
    }


def draw_all(
    saved: SavedSamples,
    name: str,
    mode: str,
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    most: int,
    seconds: float,
    on_progress: ProgressCallback,
    executor: Executor | None = None,
) -> Samples:
    """Draw ``most`` samples on shared distributions; otherwise as many as fit into ``seconds``, at least a pilot.

    executor  workers that draw the shards, if there are several; a single one is drawn here

    Saved samples are not drawn again. The number of samples depends on the pilot's speed, never on its content, and is saved too.
    """
    if mode not in saved.parts:
        width = executor.size if executor else 1
        saved.parts[mode] = _begun(name, mode, pair, settings, ids, most, seconds * width)
    part = saved.parts[mode]
    size = SHARD.get(mode, ONE_BY_ONE)
    if executor is not None and part.n - len(part.tokens) > size:
        left = [ShardRange(first, min(size, part.n - first)) for first in range(len(part.tokens), part.n, size)]
        task = SamplingTask(PairRef.from_pair(pair, settings), SamplingSpec(name, mode, settings, tuple(ids)))
        _gathered(executor.run_all(task, left), part, saved, on_progress)

    def keep(state: ShardState) -> None:
        part.half = state
        saved.tick()

    while len(part.tokens) < part.n:
        first = len(part.tokens)
        count = min(size, part.n - first)

        def told(share: float, first: int = first, count: int = count) -> None:
            on_progress((first + count * share) / part.n)

        if mode == decoders.SHARED:
            shard = Shard(*decoders.arguments(name, pair, settings), settings, ids, pair.eos_token_ids, first, count)
            samples = shared_distributions(shard, name, told, part.half and replace(part.half), keep)
        else:
            samples = decoders.draw(name, mode, pair, settings, ids, first, count, told)
        part.add(samples)
        saved.tick()
    on_progress(1.0)
    return Samples(part.tokens, settings.to_record(), part.source)


def _gathered(
    drawn: Iterator[tuple[ShardRange, Samples]], part: ModeSamples, saved: SavedSamples, on_progress: ProgressCallback
) -> None:
    """Add shards that come in any order. The saved samples grow in order, so a shard waits here for those before it."""
    waiting: dict[int, Samples] = {}
    for _, samples in drawn:
        waiting[samples.first] = samples
        while (following := waiting.pop(len(part.tokens), None)) is not None:
            part.add(following)
        saved.tick()
        on_progress((len(part.tokens) + sum(map(len, waiting.values()))) / part.n)


def cuts(mode: str, n: int) -> list[int]:
    """Sizes of the shards, in order. In float32 a sample very close to an edge may depend on the other samples of its shard."""
    pilot = [] if mode == decoders.SHARED else [min(n, PILOT)]
    left, size = n - sum(pilot), SHARD.get(mode, ONE_BY_ONE)
    return pilot + [min(size, left - done) for done in range(0, left, size)]


def _begun(
    name: str, mode: str, pair: LoadedPair, settings: Settings, ids: Sequence[int], most: int, seconds: float
) -> ModeSamples:
    if mode == decoders.SHARED:
        return ModeSamples(most, name, np.zeros((0, 0), dtype=np.int32))
    began = time.perf_counter()
    pilot = decoders.draw(name, mode, pair, settings, ids, 0, min(most, PILOT))
    each = (time.perf_counter() - began) / len(pilot)
    return ModeSamples(max(len(pilot), min(most, int(seconds / each))), pilot.source, pilot.tokens)
