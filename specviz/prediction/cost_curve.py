"""What a whole round costs at every number of draft tokens, as a run pays for it: stretches of rounds in turns, of which no text is kept.

The target alone and rounds with 0 to G draft tokens take turns in one process. Each opens the models, reads a prompt, jumps to a place of
the text, makes a round that is not timed (it finds the caches of model and processor as the jump left them, which in a run it never does), and
goes on from there like a run: what a round leaves behind is what the next one meets. One round made over and over from one place is
a few hundredths cheaper than that. The places of the turns are spread over the text, as the rounds of a run are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from specviz.decoding.engine import TargetOnlyRandomness, advance, step
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair
from specviz.prediction.plan import Curve
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.copied import Copied
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.registry import rule_of
from specviz.verification.token_rule import TokenRule

PARTS = ("draft", "target", "rule")
ALONE = -1  # "draft tokens" of the target alone
WARM, TIMED = 2, 5  # rounds of a stretch before its clock starts, the jump among them, and on it
SPREAD = 0.6180339887498949  # how far on the next turn's place lies, as a share of the text: any number of turns is spread evenly
WARM_TURNS = 2  # turns that are left out: first passes are slow

Text = tuple[tuple[int, ...], Sequence[int]]


class Probes:
    """Turns of probes for 0 to ``most`` draft tokens, on texts (prompt, tokens), one text after the other; and what they say.

    Each turn may come at any moment, between other work of the process.
    """

    def __init__(self, pair: Pair, settings: Settings, texts: Sequence[Text], most: int):
        self.pair, self.settings, self.texts = pair, settings, texts
        self.kinds = range(ALONE, most + 1)
        self.randomness = PhiloxRandomness(settings.seed)
        self.turns = -WARM_TURNS
        self._warm: list[tuple[float, ...]] = []
        self._first: list[tuple[float, ...]] = []
        self._parts: list[list[dict[str, float]]] = []

    def turn(self) -> None:
        """Every probe once, all from one place of one text; who goes first moves on by one with every turn."""
        number = self.turns + WARM_TURNS
        share, begin = (0.5 + number * SPREAD) % 1.0, number % len(self.kinds)
        found = {}
        for n in (*self.kinds[begin:], *self.kinds[:begin]):
            found[n] = self._stretch(n, *self.texts[number % len(self.texts)], share)
        self.turns += 1
        if self.turns > 0:
            first, warm, parts = zip(*(found[n] for n in self.kinds), strict=True)
            self._first.append(first)
            self._warm.append(warm)
            self._parts.append(list(parts[1:]))

    def until(self, turns: int) -> None:
        """Take turns until there are so many, those that warm up not counted."""
        while self.turns < turns:
            self.turn()

    def curve(self) -> Curve:
        """What was timed so far, at least one turn."""
        by_draft_tokens = list(zip(*self._parts, strict=True))
        medians = {part: tuple(statistics.median(one[part] for one in turns) for turns in by_draft_tokens) for part in PARTS}
        whole = [statistics.median(column) for column in zip(*self._warm, strict=True)][1:]
        rest = tuple(max(0.0, all_ - sum(medians[part][n] for part in PARTS)) for n, all_ in enumerate(whole))
        alone, rounds = tuple(one[0] for one in self._warm), tuple(one[1:] for one in self._warm)
        return Curve(alone, rounds, tuple(self._first), medians | {"rest": rest})

    def _stretch(
        self, n: int, prompt: tuple[int, ...], tokens: Sequence[int], share: float
    ) -> tuple[float, float, dict[str, float]]:
        """Seconds of a text's first round, opening included; of a round on the way, in the mean; and of the parts of that."""
        draft_tokens = max(n, 0)
        remaining = max(len(tokens), draft_tokens + 1)
        place = int(share * (remaining - draft_tokens))
        begin = Prefix((*prompt, *(int(x) for x in tokens[:place])), place, remaining - place)
        began = time.perf_counter()
        target, proposer, randomness = self._opened(n, tokens)
        rule = TokenRule() if n == ALONE else rule_of(self.settings)
        step([Prefix(prompt, 0, remaining)], target, proposer, rule, randomness)
        first, row, rounds = time.perf_counter() - began, begin, []
        for number in range(WARM + TIMED):
            if number == WARM:
                began = time.perf_counter()
            (round_,) = step([row], target, proposer, rule, randomness)
            rounds.append(round_.timing)
            row = advance(row, round_)
            row = row if row.remaining > draft_tokens else begin  # the text's last rounds have no room for n draft tokens
        spent = (time.perf_counter() - began) / TIMED
        return first, spent, {part: statistics.mean(one[part] for one in rounds[WARM:]) for part in PARTS}

    def _opened(self, n: int, tokens: Sequence[int]) -> tuple[LanguageModel, Proposer, object]:
        """Caches of their own for a stretch, and its random numbers."""
        if n == ALONE:
            return self.pair.source(self.pair.target, self.settings), Nothing(), TargetOnlyRandomness(self.randomness)
        target, proposer = opened(self.pair, replace(self.settings, gamma=n))
        return target, _full(proposer, n, tokens), self.randomness


def cost_curve(
    pair: Pair,
    settings: Settings,
    texts: Sequence[Text],
    most: int,
    turns: int,
    watch: Callable[[float], None] = lambda share: None,
) -> Curve:
    """So many turns of probes, at least 1, with nothing between them."""
    probes = Probes(pair, settings, texts, most)
    while probes.turns < turns:
        probes.turn()
        watch((probes.turns + WARM_TURNS) / (turns + WARM_TURNS))
    return probes.curve()


def _full(proposer: Proposer, n: int, tokens: Sequence[int]) -> Proposer:
    """A proposer that makes n draft tokens here: one that copies looks its text up as ever, and is then handed some to copy."""
    if not isinstance(proposer, Copied):
        return proposer
    filler = [int(x) for x in tokens[:n]]

    def follow(ids: Sequence[int], count: int) -> list[int]:
        proposer.follow(ids, count)
        return filler[:count]

    return Copied(proposer.name, follow, n, len(proposer.like), proposer.like.device)
