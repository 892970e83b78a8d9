"""Chains whose length is decided while they are drafted, and the policies that decide it.

A policy may use the row's past rounds, the tokens drawn so far, and the distribution of the next token before it is drawn. A
drawn token stays: dropping one changes the distribution of the text (R8 in docs/reference/mistakes.md). So a policy affects the
speed only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.proposers.trees.growth import TreeGrowth, assemble_tree, count_levels, draw_children
from specviz.randomness import Prefix, Randomness
from specviz.settings import GAMMA_MAX, Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree
from specviz.verification.overlap import compute_overlap
from specviz.verification.warp import warp

SHARPNESS, LEAST = 0.2, 0.3  # the entropy bound: its constant, and the value below which drafting stops
ACCEPTANCE_MIN = 0.3  # below it a draft token does not pay off, if a draft step costs a fifth of a target pass
CHECK_COST = 0.05  # cost of one more token in a target pass, in one-token passes
BELIEF, WEIGHT = 0.8, 4.0  # prior acceptance rate of every position, and its weight in tests


@dataclass(frozen=True, slots=True)
class LengthPolicy:
    """Decides how long a chain gets; the base class always drafts gamma tokens."""

    gamma: int
    remembers: ClassVar[bool] = False  # whether it uses past rounds, so that rows with the same text may differ

    def count_max_tokens(self, row: Prefix) -> int:
        """Most tokens that may be drawn, decided before the round begins."""
        return self.gamma

    def continues(self, chains: Sequence[TreeGrowth], distributions: Tensor) -> list[bool]:
        """For each chain, whether to draw a token from its distribution. distributions (B, V) float64, not yet drawn from."""
        return [True] * len(chains)


@dataclass(frozen=True, slots=True)
class HeuristicPolicy(LengthPolicy):
    """Two more after a round in which all draft tokens were accepted, one fewer after any other; between 1 and GAMMA_MAX.

    The schedule of transformers' assisted generation (``num_assistant_tokens_schedule="heuristic"``). It starts with gamma.
    """

    remembers = True

    def count_max_tokens(self, row: Prefix) -> int:
        length = self.gamma
        for drafted, accepted in row.past:
            if drafted:
                length = min(GAMMA_MAX, length + 2) if accepted == drafted else max(1, length - 1)
        return length


@dataclass(frozen=True, slots=True)
class EntropyPolicy(LengthPolicy):
    """Stop where 1 - sqrt(SHARPNESS * H(q)), a lower bound on the acceptance probability, falls below LEAST. H in nats.

    Agrawal et al. 2024, AdaEDL; their threshold adapts to the acceptance rate, ours is fixed. A round always drafts its first
    token.
    """

    def continues(self, chains: Sequence[TreeGrowth], distributions: Tensor) -> list[bool]:
        bounds = 1.0 - (SHARPNESS * torch.special.entr(distributions).sum(-1)).clamp(min=0.0).sqrt()
        return [not chain.tokens or bound >= LEAST for chain, bound in zip(chains, bounds.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class GainPolicy(LengthPolicy):
    """The number of draft tokens with the most expected tokens per cost, given the row's acceptance rate at each position so far.

    E(g) = 1 + sum over j <= g of h_1 ... h_j, where h_j is the acceptance rate of tests at position j; the cost is 1 + g * step.
    With few tests h_j is near the rate over all positions, which is itself near BELIEF at first.
    """

    step: float  # cost of drafting and checking one more token, in one-token passes of the target; above 0
    remembers = True

    def count_max_tokens(self, row: Prefix) -> int:
        reach, tokens, best, chosen = 1.0, 1.0, 0.0, 1
        for count, hazard in enumerate(self.estimate_hazards(row.past), start=1):
            reach *= hazard
            tokens += reach
            if (rate := tokens / (1.0 + count * self.step)) > best:
                best, chosen = rate, count
        return chosen

    def estimate_hazards(self, past: Sequence[tuple[int, int]]) -> list[float]:
        """P(draft token j is accepted, given that it is tested), j = 1 to gamma, each in (0, 1)."""
        tested = [sum(drafted > j and accepted >= j for drafted, accepted in past) for j in range(self.gamma)]
        passed = [sum(accepted > j for _, accepted in past) for j in range(self.gamma)]
        overall = (sum(passed) + BELIEF * WEIGHT) / (sum(tested) + WEIGHT)
        return [(yes + overall * WEIGHT) / (of + WEIGHT) for yes, of in zip(passed, tested, strict=True)]


@dataclass(frozen=True, slots=True)
class CeilingPolicy(LengthPolicy):
    """Stop where the probability that the chain and one more draw are accepted, by the target, is below ACCEPTANCE_MIN.

    No real policy knows this probability, so it bounds all policies that stop before a draw. It calls the target once per draft
    token, so it shows how few draft tokens would do, but saves no time.
    """

    target: LanguageModel  # opened a second time, with its own cache

    def continues(self, chains: Sequence[TreeGrowth], distributions: Tensor) -> list[bool]:
        p = self.target.compute_distributions([chain.row for chain in chains], assemble_tree(chains, "ceiling"))
        result = []
        for index, (chain, probs) in enumerate(zip(chains, distributions, strict=True)):
            accepted = [min(1.0, float(p[index, n, token]) / float(chain.q[n][token])) for n, token in enumerate(chain.tokens)]
            result.append(math.prod(accepted) * float(compute_overlap(p[index, len(chain.tokens)], probs)) >= ACCEPTANCE_MIN)
        return result


# A policy is built from gamma, the cost of a draft step in one-token passes, and a function that opens the target again.
BuildPolicy = Callable[[int, float, Callable[[], LanguageModel]], LengthPolicy]
DRAFT_LENGTH_POLICIES: dict[str, BuildPolicy | None] = {
    "fixed": None,
    "heuristic": lambda gamma, cost, target: HeuristicPolicy(gamma),
    "entropy": lambda gamma, cost, target: EntropyPolicy(gamma),
    "gain": lambda gamma, cost, target: GainPolicy(gamma, cost + CHECK_COST),
    "ceiling": lambda gamma, cost, target: CeilingPolicy(gamma, target()),
}


def find_policy(name: str) -> BuildPolicy | None:
    """The function that builds the policy of a name; None: the length is fixed. Raises SettingsError, which lists the names."""
    if name not in DRAFT_LENGTH_POLICIES:
        raise SettingsError("draft-length-policy", name, f"one of {', '.join(DRAFT_LENGTH_POLICIES)}")
    return DRAFT_LENGTH_POLICIES[name]


class AdaptiveDraft:
    """Draws from the draft's distributions until the policy ``lengths`` stops it.

    With ``settings`` the draft's distributions are at temperature 1 without cuts; the policy sees them so, and tokens are drawn
    after the settings are applied. At temperature 0 a warped distribution is one-hot and does not show how sure the draft is.
    """

    def __init__(self, draft: LanguageModel, lengths: LengthPolicy, settings: Settings | None = None, name: str = "draft"):
        self.draft, self.lengths, self.settings, self.name = draft, lengths, settings, name
        self.remembers = lengths.remembers

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        chains = [TreeGrowth(row, count_levels(row, self.lengths.count_max_tokens(row), self.draft.context)) for row in rows]
        live = [chain for chain in chains if chain.levels]
        while live:
            longer = [chain.row.with_draft_tokens(tuple(chain.tokens)) for chain in live]
            distributions = self.draft.compute_distributions(longer, build_empty_tree(len(live)))[:, 0]
            q = distributions if self.settings is None else warp(distributions.log(), self.settings)
            live = self._draw(live, distributions, q, randomness)
        return assemble_tree(chains, self.name, counts_fixed=True)

    def _draw(self, live: list[TreeGrowth], distributions: Tensor, q: Tensor, randomness: Randomness) -> list[TreeGrowth]:
        """Draw one more token for each chain that continues. Returns those that may still continue."""
        going = [
            on and mass > 0.0
            for on, mass in zip(self.lengths.continues(live, distributions), distributions.sum(-1).tolist(), strict=True)
        ]
        places = [
            (chain, len(chain.tokens) - 1 if chain.tokens else ROOT, probs)
            for chain, probs, on in zip(live, q, going, strict=True)
            if on
        ]
        if places:
            draw_children(places, randomness, len(places[0][0].tokens))
        return [chain for chain, _, _ in places if len(chain.tokens) < chain.levels]
