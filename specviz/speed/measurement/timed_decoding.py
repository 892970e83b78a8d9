"""Rounds of one text without their distributions, as measurements need them, and how long a text takes.

A duration is estimated from a few rounds that are timed here and now. Under load it is too long; what has been done since corrects it
(``progress.estimate_seconds_left``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from statistics import mean, median

from specviz.decoding.device.choice import COMPILED, choose_engine, choose_target_only, wait_for_compilations
from specviz.decoding.engine import decode, sample_target_only
from specviz.decoding.method_checks import build_rule
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.trace import Round

COMPILING_SECONDS = 120.0  # that compiling may take before a measurement goes on without it
PROBE_ROUNDS = 4  # rounds of a probe
BATCH_PASS_ROUNDS = 2.5  # rounds of the target alone that one pass over dozens of tokens, or texts, takes as long as; of the shipped pair on a CPU
PROMPTS = {
    "opening": "Once upon a time there was a little rabbit who lived with his mother in a",
    "mid-sentence": '"Oh, dear me!" said Uncle Wiggily, as he hopped along through the woods and saw that the',
    "after a full stop": "The children ran down to the brook to sail their boats. It was a warm summer day, and the sun was shining.",
}


def decode_speculatively(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    eos_token_ids: frozenset[int] = frozenset(),
    may_compile: bool = False,
) -> Iterator[Round]:
    """One text by the proposer and rule that the settings name, without the distributions of its rounds.

    may_compile: as for ``choose_engine``. A compilation beside a measurement slows it, so ``compile_ahead`` comes first.
    """
    target, proposer = open_proposer(pair, settings)
    arguments = (target, proposer, build_rule(settings), PhiloxRandomness(settings.seed))
    columns = len(ids) + settings.max_new_tokens
    choice = choose_engine(settings.engine, *arguments, eos_token_ids, columns=columns, may_compile=may_compile)
    rounds = decode(*arguments, settings, ids, eos_token_ids, steps=choice.steps)
    yield from (replace(round_, full=None) for round_ in rounds)


def decode_target_only(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    eos_token_ids: frozenset[int] = frozenset(),
    engine: str | None = None,
    may_compile: bool = False,
) -> Iterator[Round]:
    """The same by target-only sampling.

    engine: as for ``choose_engine``; None: the fastest that needs no more time to compile than the settings' own engine. On a CPU
    that is the reference.
    """
    if engine is None:
        engine = COMPILED if settings.engine == COMPILED and pair.target.device.type == "cuda" else "auto"
    target, randomness = pair.open_model(pair.target, settings, pair.vocabulary), PhiloxRandomness(settings.seed)
    columns = len(ids) + settings.max_new_tokens
    choice = choose_target_only(engine, target, randomness, eos_token_ids, columns=columns, may_compile=may_compile)
    rounds = sample_target_only(target, randomness, settings, ids, eos_token_ids, steps=choice.steps)
    yield from (replace(round_, full=None) for round_ in rounds)


def compile_ahead(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], waits: bool = True) -> None:
    """Have compiled what the engine ``auto`` would compile in the background for repeated texts of these settings.

    waits: whether to wait until it is ready; otherwise later texts take it when it is.
    """
    if settings.engine != "auto" or pair.target.device.type != "cuda":
        return
    for decode_text in (decode_speculatively, decode_target_only):
        for _ in range(2):
            next(decode_text(pair, settings, ids, may_compile=True), None)
        if waits:
            wait_for_compilations(pair.target, COMPILING_SECONDS)


@dataclass(frozen=True, slots=True)
class DecodingPace:
    """How fast one way of decoding is.

    Attributes:
        first: Seconds of the first round, which opens the models and reads the prompt.
        each: Seconds of a later round.
        tokens: Tokens per round, at least 1.
    """

    first: float
    each: float
    tokens: float = 1.0

    @classmethod
    def from_rounds(cls, ends: Sequence[float], rounds: Sequence[Round]) -> DecodingPace:
        """The pace of rounds, at least one, by the seconds at the end of each. A first round alone stands for the later ones."""
        later = [after - before for before, after in pairwise(ends)]
        return cls(ends[0], median(later) if later else ends[0], max(1.0, mean(len(one.committed) for one in rounds)))

    def estimate_seconds(self, length: int) -> float:
        """Seconds of a text of so many tokens, at least one."""
        return self.first + self.each * max(0.0, length / self.tokens - 1.0)


def measure_pace(rounds: Iterable[Round], count: int = PROBE_ROUNDS) -> DecodingPace:
    """The pace of the first ``count`` rounds of a text."""
    ends, timed, began = [], [], time.perf_counter()
    for one in islice(rounds, count):
        timed.append(one)
        ends.append(time.perf_counter() - began)
    return DecodingPace.from_rounds(ends, timed)
