"""What a whole round costs at every number of guesses, whatever becomes of them: probes in turns, no text is decoded.

The target alone and rounds with 0 to G guesses take turns in one process, each at the cache lengths that the texts have halfway.
Every probe makes some rounds in a row and the last of them are timed: the first find the caches of the model and of the processor as
another probe left them, which in a run of one kind they never are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from specviz.coins import PhiloxCoins, Prefix
from specviz.engine import TargetOnlyCoins, step
from specviz.models.base import LawSource
from specviz.models.loading import Pair
from specviz.planning.plan import Curve
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.copied import Copied
from specviz.proposers.gallery import opened
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.gallery import rule_of
from specviz.verification.rules import Rule, TokenRule

PARTS = ("draft", "target", "rule")
WARM, TIMED = 2, 3  # rounds of a probe before its clock starts, and on it


def cost_curve(
    pair: Pair,
    settings: Settings,
    texts: Sequence[tuple[tuple[int, ...], Sequence[int]]],
    most: int,
    turns: int,
    watch: Callable[[float], None] = lambda share: None,
) -> Curve:
    """Probes after half of each (prompt, tokens), text after text, for 0 to ``most`` guesses.

    turns  how often each probe is timed, at least 1; two more warm up
    """
    coins = PhiloxCoins(settings.seed)
    asked = [replace(settings, gamma=n) for n in range(most + 1)]
    opened_once = [(pair.open(settings)[0], Nothing()), *(opened(pair, one) for one in asked)]
    warm, cold, parts = [], [], {part: [[] for _ in asked] for part in PARTS}
    for turn in range(turns + 2):
        prompt, tokens = texts[turn % len(texts)]
        half = len(tokens) // 2
        row = Prefix((*prompt, *(int(x) for x in tokens[:half])), half, max(len(tokens) - half, most + 1))
        here, first = [], []
        for n, (target, proposer) in enumerate(opened_once, start=-1):
            luck, guesser = (TargetOnlyCoins(coins), proposer) if n < 0 else (coins, _full(proposer, n, tokens))
            spent, one = _timed(row, target, guesser, TokenRule() if n < 0 else rule_of(settings), luck)
            here.append(spent)
            first.append(_first(pair, settings if n < 0 else asked[n], prompt, len(tokens), luck, n, tokens))
            for part in PARTS if turn > 1 and n >= 0 else ():
                parts[part][n].append(one.timing[part])
        if turn > 1:
            warm.append(tuple(here))
            cold.append(tuple(first))
        watch((turn + 1) / (turns + 2))
    medians = {part: tuple(statistics.median(values) for values in by) for part, by in parts.items()}
    whole = [statistics.median(column) for column in zip(*warm, strict=True)][1:]
    rest = tuple(max(0.0, all_ - sum(medians[part][n] for part in PARTS)) for n, all_ in enumerate(whole))
    return Curve(tuple(one[0] for one in warm), tuple(one[1:] for one in warm), tuple(cold), medians | {"rest": rest})


def _first(
    pair: Pair, settings: Settings, prompt: tuple[int, ...], room: int, coins: object, n: int, tokens: Sequence[int]
) -> float:
    """Seconds of a text's first round, caches opened and the prompt read; n below 0: by the target alone."""
    began = time.perf_counter()
    if n < 0:
        target, proposer = pair.source(pair.target, settings), Nothing()
    else:
        target, proposer = opened(pair, settings)
        proposer = _full(proposer, n, tokens)
    step([Prefix(prompt, 0, room)], target, proposer, TokenRule() if n < 0 else rule_of(settings), coins)
    return time.perf_counter() - began


def _timed(row: Prefix, target: LawSource, proposer: Proposer, rule: Rule, coins: object) -> tuple[float, Round]:
    """Mean seconds of the timed rounds, and the last of them."""
    for _ in range(WARM):
        step([row], target, proposer, rule, coins)
    began = time.perf_counter()
    for _ in range(TIMED):
        (round_,) = step([row], target, proposer, rule, coins)
    return (time.perf_counter() - began) / TIMED, round_


def _full(proposer: Proposer, n: int, tokens: Sequence[int]) -> Proposer:
    """A proposer that makes n guesses here: one that copies looks its text up as ever, and is then handed some to copy."""
    if not isinstance(proposer, Copied):
        return proposer
    filler = [int(x) for x in tokens[:n]]

    def follow(ids: Sequence[int], count: int) -> list[int]:
        proposer.follow(ids, count)
        return filler[:count]

    return Copied(proposer.name, follow, n, len(proposer.like), proposer.like.device)
