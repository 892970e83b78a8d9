"""Policies of how far to draft, timed against the best fixed length.

The best fixed length is chosen first, on turns of its own, and then runs anew beside the policies: the fastest of several noisy
measurements looks better than it is, and nothing should be held against luck. Within a turn all write the same prompts under
the same seed, in an order that moves on by one from turn to turn; ratios are taken turn by turn. The best fixed length runs twice,
under two names: how far its second run is from its first is what the machine's noise alone does to a ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from specviz.decoding.engine import decode
from specviz.measure.bench import PROMPTS, Spread, drain, speculative
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair
from specviz.proposers.adaptive.policies import LENGTHS, Ceiling
from specviz.proposers.adaptive.proposer import AdaptiveDraft
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import rule_of

FIXED = tuple(range(1, 9))  # lengths among which the best is chosen
MOST = 8  # tokens that a policy may draft; the heuristic has a most of its own and begins with the best fixed length
BEST, AGAIN, CEILING = "best fixed", "best fixed, again", "ceiling"


@dataclass(frozen=True, slots=True)
class Paired:
    """One contestant beside the best fixed length.

    rate    tokens per second; gain  seconds of the best fixed length over its own, turn by turn: above 1 is faster
    tokens_per_pass  committed per target pass; draft_tokens  drafted per pass; kept  share of the drafted tokens that were kept
    """

    rate: Spread
    gain: Spread
    tokens_per_pass: float
    draft_tokens: float
    kept: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One temperature: the best fixed length, the rates it was chosen by, and everyone beside it."""

    temperature: float
    best: int
    fixed: dict[int, Spread]
    paired: dict[str, Paired]


@dataclass(slots=True)
class Runs:
    """Seconds of each counted turn, and all its rounds."""

    seconds: list[float] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)


class Clocked:
    """Another source's distributions, and the seconds that computing them has taken."""

    def __init__(self, source: LanguageModel):
        self.source, self.vocabulary, self.context, self.seconds = source, source.vocabulary, source.context, 0.0

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        began = time.perf_counter()
        distributions = self.source.distributions(rows, block)
        self.seconds += time.perf_counter() - began
        return distributions


def compare(
    pair: Pair, length: int = 96, turns: int = 5, temperatures: tuple[float, ...] = (0.0, 1.0), say: Callable = print
) -> list[Comparison]:
    """Every policy against the best fixed length. length: tokens per prompt; turns: counted ones, for choosing and again for comparing.

    The ceiling's looks at the target are taken out of its seconds: it shows what could be gained by knowing when to stop.
    """
    return [_compared(pair, Settings(length=length, temperature=t), turns, say) for t in temperatures]


def _compared(pair: Pair, settings: Settings, turns: int, say: Callable) -> Comparison:
    told = f"temperature {settings.temperature:g}: "
    tokens = settings.length * len(PROMPTS)
    lengths = timed(pair, {gamma: replace(settings, gamma=gamma) for gamma in FIXED}, turns, lambda s: say(f"{told}fixed, {s}"))
    fixed = {gamma: _rate(run, tokens) for gamma, run in lengths.items()}
    best = max(FIXED, key=lambda gamma: fixed[gamma].median)
    others = {name: replace(settings, lengths=name, gamma=MOST) for name in LENGTHS if name != "fixed"}
    others["heuristic"] = replace(others["heuristic"], gamma=best)
    contestants = {BEST: replace(settings, gamma=best), AGAIN: replace(settings, gamma=best), **others}
    runs = timed(pair, contestants, turns, lambda s: say(f"{told}policies, {s}"))
    paired = {name: _paired(run, runs[BEST], tokens) for name, run in runs.items()}
    return Comparison(settings.temperature, best, fixed, paired)


def timed(pair: Pair, contestants: dict, turns: int, say: Callable) -> dict:
    """Interleaved turns, after one that warms up; name -> Runs. Who goes first moves on by one each turn."""
    runs, names = {name: Runs() for name in contestants}, list(contestants)
    for turn in range(turns + 1):
        say(f"turn {turn} of {turns}")
        spent = dict.fromkeys(names, 0.0)
        for prompt in PROMPTS.values():
            ids = pair.encode(prompt)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                rounds, seconds = _run(pair, replace(contestants[name], seed=turn, prompt=prompt), ids)
                spent[name] += seconds
                runs[name].rounds += rounds if turn else []
        for name in names if turn else ():
            runs[name].seconds.append(spent[name])
    return runs


def _run(pair: Pair, settings: Settings, ids: tuple[int, ...]) -> tuple[list[Round], float]:
    began = time.perf_counter()
    if settings.lengths != CEILING:
        rounds = speculative(pair, settings, ids)
        return rounds, time.perf_counter() - began
    target, draft = pair.open(settings)
    looks = Clocked(pair.open(settings)[0])
    proposer = AdaptiveDraft(draft, Ceiling(settings.gamma, looks))
    rounds = drain(decode(target, proposer, rule_of(settings), PhiloxRandomness(settings.seed), settings, ids))
    return rounds, time.perf_counter() - began - looks.seconds


def _rate(run: Runs, tokens: int) -> Spread:
    return Spread.of([tokens / seconds for seconds in run.seconds])


def _paired(run: Runs, best: Runs, tokens: int) -> Paired:
    passes, drafted = len(run.rounds), sum(len(round_.proposals) for round_ in run.rounds)
    return Paired(
        rate=_rate(run, tokens),
        gain=Spread.of([one / own for one, own in zip(best.seconds, run.seconds, strict=True)]),
        tokens_per_pass=sum(len(round_.committed) for round_ in run.rounds) / passes,
        draft_tokens=drafted / passes,
        kept=sum(len(round_.accepted_path) for round_ in run.rounds) / max(1, drafted),
    )
