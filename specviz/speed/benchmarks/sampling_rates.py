"""Samples per second of short texts, by three ways of sampling: one after the other, in batches, and on shared distributions."""

from __future__ import annotations

import resource
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.timed_decoding import PROMPTS
from specviz.speed.records.estimate import Estimate
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.token import TokenRule

BATCH = 64
ONE_BY_ONE, BATCHED, SHARED = "one after the other", f"batches of {BATCH}", "shared distributions"
SAMPLES_PER_RUN = {ONE_BY_ONE: 40, BATCHED: 512}  # samples of one run
UNIT = "draws/s"


@dataclass(frozen=True, slots=True)
class SamplingRates:
    """One prompt: samples per second by each way, and the ratio of each rate to that of one after the other.

    Attributes:
        entropy: Of the first token's distribution, nats.
        seconds: That the ``draws`` samples on shared distributions took; they are drawn once.
    """

    prompt: str
    entropy: float
    draws: int
    seconds: float
    rates: dict[str, Estimate]
    ratios: dict[str, float]


def measure_sampling_rates(
    pair: LoadedPair, draws: int, length: int = 3, gamma: int = 4, runs: int = 3, log: Callable = print
) -> list[SamplingRates]:
    """Interleaved runs of the first two ways around one long run of the third, at temperature 1, for each of the bench's prompts.

    draws: samples on shared distributions; length: tokens of each; runs: of the first two ways.
    """
    asked = {name: Settings(prompt=prompt, max_new_tokens=length, gamma=gamma) for name, prompt in PROMPTS.items()}
    return [_measure_prompt(pair, name, draws, settings, runs, log) for name, settings in asked.items()]


def _measure_prompt(pair: LoadedPair, name: str, draws: int, settings: Settings, runs: int, log: Callable) -> SamplingRates:
    ids = pair.encode(settings.prompt)

    def sample_in_batches(count: int, batch: int) -> Callable[[Lap], object]:
        return lambda lap: sample_with_engine(
            Shard(*_open_decoder(pair, settings), settings=settings, prompt=ids, count=count), batch
        )

    def sample_shared(lap: Lap) -> None:
        log(f"{name}: {draws:,} draws on shared distributions")
        sample_with_shared_distributions(Shard(*_open_decoder(pair, settings), settings=settings, prompt=ids, count=draws))

    short = Clock({way: sample_in_batches(count, 1 if way == ONE_BY_ONE else BATCH) for way, count in SAMPLES_PER_RUN.items()})
    short.run_until((runs + 1) // 2)
    long = Clock({SHARED: sample_shared}, warm_runs=0).run_until(1)
    short.run_until(runs)
    rates = {way: short.compute_rate(way, count, UNIT) for way, count in SAMPLES_PER_RUN.items()} | {
        SHARED: long.compute_rate(SHARED, draws, UNIT)
    }
    ratios = {way: rate.value / rates[ONE_BY_ONE].value for way, rate in rates.items()}
    return SamplingRates(name, _compute_entropy(pair, settings, ids), draws, long.get_seconds(SHARED)[0], rates, ratios)


def _open_decoder(pair: LoadedPair, settings: Settings) -> tuple[Any, DraftModel, TokenRule, PhiloxRandomness]:
    target, draft = pair.open(settings)
    return target, DraftModel(draft, settings.gamma), TokenRule(), PhiloxRandomness(settings.seed)


def _compute_entropy(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> float:
    probs = pair.open(settings)[0].compute_distributions([Prefix(ids, 0, 1)], build_empty_tree(1))[0, 0]
    return float(torch.special.entr(probs).sum())


def read_peak_megabytes() -> float:
    """The most memory that this process has held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def format_rates(measurements: list[SamplingRates]) -> str:
    """A table, and the medians over prompts."""
    lines = [f"draws per second; {measurements[0].draws:,} draws on shared distributions; temperature 1"]
    for one in measurements:
        rates = ", ".join(f"{way} {rate.value:,.0f} ({one.ratios[way]:,.1f}x)" for way, rate in one.rates.items())
        lines.append(f"  {one.prompt:<20} entropy {one.entropy:.2f} nats, {one.seconds:5.1f} s: {rates}")
    medians = {way: statistics.median(one.ratios[way] for one in measurements) for way in (BATCHED, SHARED)}
    seconds = statistics.median(one.seconds for one in measurements)
    return "\n".join(
        [*lines, f"  median over prompts: {seconds:.1f} s; " + ", ".join(f"{way} {x:,.1f}x" for way, x in medians.items()),
         f"  most memory held: {read_peak_megabytes():,.0f} MB"]
    )  # fmt: skip
