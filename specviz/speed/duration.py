"""How long a piece of work will take: a few rounds of each way of writing, timed here and now, times the rounds that are counted of it.

A probe under load is slower, and so is what it says. What has been done since corrects it (``progress.estimate_seconds_left``). No torch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import mean, median

from specviz.trace import Round

PROBE_ROUNDS = 4  # rounds of a probe
BATCH_PASS_ROUNDS = 2.5  # rounds of the target alone that one pass over dozens of tokens, or texts, takes as long as; of the shipped pair on a CPU


@dataclass(frozen=True, slots=True)
class DecodingPace:
    """How fast one way of writing is.

    first  seconds of the first round, which opens the models and reads the prompt; each  of a later one; tokens  per round, at least 1
    """

    first: float
    each: float
    tokens: float = 1.0

    @classmethod
    def of(cls, ends: Sequence[float], rounds: Sequence[Round]) -> DecodingPace:
        """Of rounds, at least one, and the seconds at the end of each. A first round alone stands for the later ones."""
        later = [after - before for before, after in pairwise(ends)]
        return cls(ends[0], median(later) if later else ends[0], max(1.0, mean(len(one.committed) for one in rounds)))

    def text(self, length: int) -> float:
        """Seconds of a text of so many tokens, at least one."""
        return self.first + self.each * max(0.0, length / self.tokens - 1.0)


def measure_pace(rounds: Iterable[Round], count: int = PROBE_ROUNDS) -> DecodingPace:
    """The pace of the first ``count`` rounds of a text."""
    ends, made, began = [], [], time.perf_counter()
    for one in islice(rounds, count):
        made.append(one)
        ends.append(time.perf_counter() - began)
    return DecodingPace.of(ends, made)
