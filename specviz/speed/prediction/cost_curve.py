"""What a whole round costs at every number of draft tokens, as decoding pays for it. The texts of these rounds are not kept.

Contestants of one clock are the target alone and rounds with 0 to G draft tokens. Each opens the models, reads a prompt, jumps to a place of
the text, and makes a round that is not timed, because it finds the caches as the jump left them. Then it goes on like decoding: each
round meets what the one before left behind. Rounds repeated in one place would be a few percent cheaper. The places of the runs are
spread over the text, as the rounds of a text are.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from specviz.decoding.engine import TargetOnlyRandomness, advance, step
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.copied import Copied
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.clock import Clock, Lap
from specviz.speed.prediction.plan import RoundCostCurve
from specviz.speed.prediction.predict import Ids, Texts
from specviz.verification.registry import rule_of
from specviz.verification.token import TokenRule

TIMING_PARTS = ("draft", "target", "rule")
TARGET_ONLY = -1  # "draft tokens" of the target alone
WARM_ROUNDS, TIMED_ROUNDS = 2, 5  # rounds of a stretch that are not timed, with the jump, and that are
PLACE_STEP = 0.6180339887498949  # share of the text between one run's place and the next: the golden ratio spreads any number of runs evenly
WARM_RUNS = 2  # runs that are left out: first passes are slow


class RoundProbes:
    """Runs of probes for 0 to ``most`` draft tokens on texts (prompt, tokens), one text after the other, and the costs that they show.

    Each run has every probe once, all from one place of one text. It may be made at any moment, between other work of the process.
    """

    def __init__(self, pair: LoadedPair, settings: Settings, texts: Texts, most: int):
        self.pair, self.settings, self.texts = pair, settings, texts
        self.kinds = range(TARGET_ONLY, most + 1)
        self.randomness = PhiloxRandomness(settings.seed)
        self.clock: Clock[int] = Clock(
            {n: partial(self._stretch, n) for n in self.kinds}, WARM_RUNS, lambda run: (self._place(run),)
        )

    def run_until(self, runs: int, on_progress: ProgressCallback = ignore_progress) -> RoundProbes:
        """Go on until there are so many runs, without those that warm up."""
        self.clock.run_until(runs, lambda share, run, n: on_progress(share))
        return self

    def curve(self) -> RoundCostCurve:
        """What was timed so far, at least one run."""
        rounds = [[seconds / TIMED_ROUNDS for seconds in self.clock.splits(n, "rounds")] for n in self.kinds]
        first = [self.clock.splits(n, "first") for n in self.kinds]
        parts = {
            part: tuple(statistics.median(one[part] for one in self.clock.kept(n)) for n in self.kinds[1:])
            for part in TIMING_PARTS
        }
        medians = [statistics.median(one) for one in rounds[1:]]
        rest = tuple(max(0.0, whole - sum(parts[part][n] for part in TIMING_PARTS)) for n, whole in enumerate(medians))
        by_run = tuple(zip(*rounds[1:], strict=True))
        return RoundCostCurve(tuple(rounds[0]), by_run, tuple(zip(*first, strict=True)), parts | {"rest": rest})

    def _place(self, run: int) -> tuple[tuple[Ids, Sequence[int]], float]:
        """The text of a run, and the share of it that lies before its place."""
        number = run - 1 + WARM_RUNS
        return self.texts[number % len(self.texts)], (0.5 + number * PLACE_STEP) % 1.0

    def _stretch(self, n: int, lap: Lap) -> None:
        """A text's first round with its opening, and then rounds from a place on, of which the last TIMED are timed."""
        (prompt, tokens), share = lap.item
        draft_tokens = max(n, 0)
        remaining = max(len(tokens), draft_tokens + 1)
        place = int(share * (remaining - draft_tokens))
        begin = Prefix((*prompt, *(int(x) for x in tokens[:place])), place, remaining - place)
        target, proposer, randomness = self._opened(n, tokens)
        rule = TokenRule() if n == TARGET_ONLY else rule_of(self.settings)
        step([Prefix(prompt, 0, remaining)], target, proposer, rule, randomness)
        lap.split("first")
        row, rounds = begin, []
        for number in range(WARM_ROUNDS + TIMED_ROUNDS):
            if number == WARM_ROUNDS:
                lap.split("warming up")
            (round_,) = step([row], target, proposer, rule, randomness)
            rounds.append(round_.timing)
            row = advance(row, round_)
            row = row if row.remaining > draft_tokens else begin  # the last rounds of a text have fewer than n draft tokens
        lap.split("rounds")
        lap.keep({part: statistics.mean(one[part] for one in rounds[WARM_ROUNDS:]) for part in TIMING_PARTS})

    def _opened(self, n: int, tokens: Sequence[int]) -> tuple[LanguageModel, Proposer, object]:
        """Caches of their own for a stretch, and its random numbers."""
        if n == TARGET_ONLY:
            return self.pair.source(self.pair.target, self.settings), Nothing(), TargetOnlyRandomness(self.randomness)
        target, proposer = opened(self.pair, replace(self.settings, gamma=n))
        return target, _force_length(proposer, n, tokens), self.randomness


def _force_length(proposer: Proposer, n: int, tokens: Sequence[int]) -> Proposer:
    """A proposer that makes n draft tokens here: one that copies looks its text up as always, and is then given tokens to copy."""
    if not isinstance(proposer, Copied):
        return proposer
    filler = [int(x) for x in tokens[:n]]

    def follow(ids: Sequence[int], count: int) -> list[int]:
        proposer.follow(ids, count)
        return filler[:count]

    return Copied(proposer.name, follow, n, len(proposer.like), proposer.like.device)
