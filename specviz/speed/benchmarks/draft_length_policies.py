"""Adaptive draft lengths, timed against the best fixed length.

The best fixed length is chosen first, in runs of its own, and is then timed again beside the policies: the fastest of several noisy
measurements looks better than it is, and a policy should not be compared with that. Within a run all write the same prompts under the
same seed. The best fixed length is timed twice, under two names: the ratio of the two shows what the machine's noise alone does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from specviz.decoding.engine import decode
from specviz.decoding.method_checks import build_rule
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.adaptive import DRAFT_LENGTH_POLICIES, AdaptiveDraft, CeilingPolicy
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.benchmarks.bench import TOKENS_A_SECOND, log_each_run
from specviz.speed.measurement.clock import Clock, Key, Lap
from specviz.speed.measurement.timed_decoding import PROMPTS, decode_speculatively
from specviz.speed.records.estimate import Estimate
from specviz.trace import Round
from specviz.verification.draft_tree import DraftTree

FIXED_LENGTHS = tuple(range(1, 9))  # lengths among which the best is chosen
MAX_DRAFT_TOKENS = 8  # tokens that a policy may draft; the heuristic has a bound of its own and begins with the best fixed length
BEST_FIXED, BEST_FIXED_AGAIN, CEILING = "best fixed", "best fixed, again", "ceiling"


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One contestant beside the best fixed length.

    Attributes:
        gain: Seconds of the best fixed length over its own, run by run: above 1 is faster.
        accepted: Share of the drafted tokens that were accepted.
    """

    rate: Estimate
    gain: Estimate
    tokens_per_pass: float
    draft_tokens: float
    accepted: float


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """One temperature: the best fixed length, the rates that it was chosen by, and a row for each contestant."""

    temperature: float
    best: int
    fixed: dict[int, Estimate]
    paired: dict[str, PolicyRow]


class UntimedModel:
    """Another model's distributions; the seconds that computing them takes are left out of a lap."""

    def __init__(self, source: LanguageModel, lap: Lap):
        self.source, self.vocabulary, self.context, self.lap = source, source.vocabulary, source.context, lap

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        began = time.perf_counter()
        distributions = self.source.compute_distributions(rows, tree)
        self.lap.exclude(time.perf_counter() - began)
        return distributions


def compare_policies(
    pair: LoadedPair, length: int = 96, runs: int = 6, temperatures: tuple[float, ...] = (0.0, 1.0), log: Callable = print
) -> list[PolicyComparison]:
    """Every policy against the best fixed length, at each temperature.

    length: tokens after each prompt; runs: that count, for choosing and again for comparing.

    The ceiling uses the target itself to decide when to stop, without counting that time: it shows the gain of perfect knowledge.
    """
    return [_compare_policies(pair, Settings(max_new_tokens=length, temperature=t), runs, log) for t in temperatures]


def _compare_policies(pair: LoadedPair, settings: Settings, runs: int, log: Callable) -> PolicyComparison:
    prefix = f"temperature {settings.temperature:g}: "
    tokens = settings.max_new_tokens * len(PROMPTS)
    lengths = time_settings(
        pair, {gamma: replace(settings, gamma=gamma) for gamma in FIXED_LENGTHS}, runs, lambda s: log(f"{prefix}fixed, {s}")
    )
    fixed = {gamma: lengths.compute_rate(gamma, tokens, TOKENS_A_SECOND) for gamma in FIXED_LENGTHS}
    best = max(FIXED_LENGTHS, key=lambda gamma: fixed[gamma].value)
    others = {
        name: replace(settings, draft_length_policy=name, gamma=MAX_DRAFT_TOKENS)
        for name in DRAFT_LENGTH_POLICIES
        if name != "fixed"
    }
    others["heuristic"] = replace(others["heuristic"], gamma=best)
    contestants = {BEST_FIXED: replace(settings, gamma=best), BEST_FIXED_AGAIN: replace(settings, gamma=best), **others}
    clock = time_settings(pair, contestants, runs, lambda s: log(f"{prefix}policies, {s}"))
    return PolicyComparison(settings.temperature, best, fixed, {name: _build_row(clock, name, tokens) for name in contestants})


def time_settings(pair: LoadedPair, contestants: Mapping[Key, Settings], runs: int, log: Callable[[str], None]) -> Clock[Key]:
    """Runs after one that warms up; the clock keeps the rounds of those that count."""

    def write(settings: Settings, lap: Lap) -> None:
        lap.keep(_decode_prompt(pair, replace(settings, seed=lap.run, prompt=lap.item), pair.encode(lap.item), lap))

    clock = Clock(
        {key: partial(write, settings) for key, settings in contestants.items()}, items=lambda run: tuple(PROMPTS.values())
    )
    return clock.run_until(runs, log_each_run(runs, log))


def _decode_prompt(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], lap: Lap) -> list[Round]:
    if settings.draft_length_policy != CEILING:
        return list(decode_speculatively(pair, settings, ids))
    target, draft = pair.open(settings)
    proposer = AdaptiveDraft(draft, CeilingPolicy(settings.gamma, UntimedModel(pair.open(settings)[0], lap)))
    rounds = decode(target, proposer, build_rule(settings), PhiloxRandomness(settings.seed), settings, ids)
    return [replace(round_, full=None) for round_ in rounds]


def _build_row(clock: Clock[str], name: str, tokens: int) -> PolicyRow:
    rounds = [round_ for made in clock.get_kept(name) for round_ in made]
    drafted = sum(len(round_.proposals) for round_ in rounds)
    return PolicyRow(
        rate=clock.compute_rate(name, tokens, TOKENS_A_SECOND),
        gain=clock.compute_ratio(BEST_FIXED, name),
        tokens_per_pass=sum(len(round_.committed) for round_ in rounds) / len(rounds),
        draft_tokens=drafted / len(rounds),
        accepted=sum(len(round_.accepted_path) for round_ in rounds) / max(1, drafted),
    )
