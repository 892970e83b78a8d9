"""How far to draft: policies that stop a chain early or let it run on.

A policy may look at the row's past rounds, at the tokens drawn so far, and at the distribution of the next one before it is drawn. It
never sees the token about to be drawn, and what is drawn stays: a stop that drops a drawn token bends the distribution (R8 in
docs/mistakes.md). So each of them costs or saves time, and none can cost exactness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.trees.growth import Growth, tree_of
from specviz.randomness import Prefix
from specviz.settings import GAMMA_MAX
from specviz.verification.overlap import overlap
from specviz.verification.token_rule import acceptance_probability

SHARPNESS, LEAST = 0.2, 0.3  # of the entropy bound: its constant, and the bound below which drafting stops
WORTH = 0.3  # chance of being kept below which a draft token costs more than it brings, on a pair whose draft costs a fifth
CHECKED = 0.05  # what one more token of a block costs the target, in one-token passes
BELIEF, WEIGHT = 0.8, 4.0  # what is believed of every position before anything is seen, and how many tests that is worth


class Length(Protocol):
    """A policy. ``remembers``: whether it looks at past rounds, so that two rows of one text may differ."""

    remembers: bool

    def most(self, row: Prefix) -> int:
        """How many tokens may be drawn at most, known before the round begins."""
        ...

    def goes_on(self, chains: Sequence[Growth], distributions: Tensor) -> list[bool]:
        """For each chain, whether a token is to be drawn from its distribution: (B, V) float64, nothing drawn from it yet."""
        ...


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Two more after a round in which all draft tokens were kept, one less after any other, between 1 and GAMMA_MAX.

    The schedule of transformers' assisted generation (``num_assistant_tokens_schedule="heuristic"``). It begins with gamma.
    """

    gamma: int
    remembers = True

    def most(self, row: Prefix) -> int:
        wanted = self.gamma
        for drafted, kept in row.past:
            if drafted:
                wanted = min(GAMMA_MAX, wanted + 2) if kept == drafted else max(1, wanted - 1)
        return wanted

    def goes_on(self, chains: Sequence[Growth], distributions: Tensor) -> list[bool]:
        return [True] * len(chains)


@dataclass(frozen=True, slots=True)
class Entropy:
    """Stop where 1 - sqrt(SHARPNESS * H(q)), a bound on the chance that a draw from q is kept, falls below LEAST.

    Agrawal et al. 2024, AdaEDL; their threshold moves with the acceptance seen, ours stands still. The first distribution of a round is
    always drawn from: it has been paid for. H in nats, at least 0.
    """

    gamma: int
    remembers = False

    def most(self, row: Prefix) -> int:
        return self.gamma

    def goes_on(self, chains: Sequence[Growth], distributions: Tensor) -> list[bool]:
        bounds = 1.0 - (SHARPNESS * torch.special.entr(distributions).sum(-1)).clamp(min=0.0).sqrt()
        return [not chain.tokens or bound >= LEAST for chain, bound in zip(chains, bounds.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Gain:
    """The number of draft tokens whose expected tokens per cost is largest, by how often each position was kept in the row's past.

    E(g) = 1 + sum over j <= g of h_1 ... h_j, where h_j is the share of tests at position j that were kept; cost 1 + g * step.
    Before much is seen h_j is near the share over all positions, and that near BELIEF.

    step  cost of one more draft token, drafted and checked, in one-token passes of the target; above 0
    """

    gamma: int
    step: float
    remembers = True

    def most(self, row: Prefix) -> int:
        reach, tokens, best, chosen = 1.0, 1.0, 0.0, 1
        for count, hazard in enumerate(self.hazards(row.past), start=1):
            reach *= hazard
            tokens += reach
            if (rate := tokens / (1.0 + count * self.step)) > best:
                best, chosen = rate, count
        return chosen

    def hazards(self, past: Sequence[tuple[int, int]]) -> list[float]:
        """P(draft token j is kept, given that it is tested), j = 1 to gamma, each in (0, 1)."""
        tested = [sum(drafted > j and kept >= j for drafted, kept in past) for j in range(self.gamma)]
        passed = [sum(kept > j for _, kept in past) for j in range(self.gamma)]
        shared = (sum(passed) + BELIEF * WEIGHT) / (sum(tested) + WEIGHT)
        return [(yes + shared * WEIGHT) / (of + WEIGHT) for yes, of in zip(passed, tested, strict=True)]

    def goes_on(self, chains: Sequence[Growth], distributions: Tensor) -> list[bool]:
        return [True] * len(chains)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Stop where the chance that the whole chain and one more draw are kept falls below WORTH, known from the target itself.

    What no real policy can know, and so the ceiling for all that stop before a draw. It sees distributions, never random numbers: a random number looked at
    ahead of its time would be met twice. It asks the target once for each draft token, so it shows how few draft tokens would do and
    saves no time.

    target  a source of its own, with a cache of its own
    """

    gamma: int
    target: LanguageModel
    remembers = False

    def most(self, row: Prefix) -> int:
        return self.gamma

    def goes_on(self, chains: Sequence[Growth], distributions: Tensor) -> list[bool]:
        p = self.target.distributions([chain.row for chain in chains], tree_of(chains, "ceiling"))
        result = []
        for index, (chain, probs) in enumerate(zip(chains, distributions, strict=True)):
            accepted = [
                acceptance_probability(float(p[index, n, token]), float(chain.q[n][token]))
                for n, token in enumerate(chain.tokens)
            ]
            result.append(math.prod(accepted) * float(overlap(p[index, len(chain.tokens)], probs)) >= WORTH)
        return result


# name -> policy, from gamma, the cost of a draft step in one-token passes, and the target opened once more
LENGTHS: dict[str, Callable[[int, float, Callable[[], LanguageModel]], Length] | None] = {
    "fixed": None,
    "heuristic": lambda gamma, cost, target: Heuristic(gamma),
    "entropy": lambda gamma, cost, target: Entropy(gamma),
    "gain": lambda gamma, cost, target: Gain(gamma, cost + CHECKED),
    "ceiling": lambda gamma, cost, target: Ceiling(gamma, target()),
}
