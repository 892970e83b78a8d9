"""Other rules on fractions, from their papers and with nothing of the package: block verification, k-sequential selection,
siblings drawn without replacement. Distributions and tables are those of token_rule.py; each class gives the distribution of the
tokens that a round commits.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from tests.oracle.token_rule import ONE, Algorithm1, Distribution, Table, Texts

ZERO = Fraction(0)


def norm(masses) -> Distribution:
    total = sum(masses, ZERO)
    return tuple(mass / total for mass in masses)


class BlockVerification:
    """Sun et al. 2024, Algorithm 2. p, q tables; gamma draft tokens, or as many as ``draft_tokens`` says after the ones before."""

    def __init__(self, p: Table, q: Table, gamma: int, continues=lambda chain: True):
        self.p, self.q, self.gamma, self.continues = p, q, gamma, continues

    def chains(self, prefix: tuple[int, ...], chain: tuple[int, ...] = ()):
        """Every chain of draft tokens with its probability."""
        if len(chain) == self.gamma or not self.continues(chain):
            yield chain, ONE
            return
        for token, mass in enumerate(self.q(prefix + chain)):
            if mass:
                for longer, more in self.chains(prefix, (*chain, token)):
                    yield longer, mass * more

    def round(self, prefix: tuple[int, ...]) -> Texts:
        result: Texts = defaultdict(Fraction)
        for chain, drawn in self.chains(prefix):
            for text, mass in self.on_comparison(prefix, chain):
                if mass:
                    result[text] += drawn * mass
        return dict(result)

    def compute_replacement(self, joint: Fraction, p: Distribution, q: Distribution) -> Distribution | None:
        """'norm(max(0, p_tau p - q))'; None where nothing is left, and nothing is ever drawn."""
        rest = [max(ZERO, joint * a - b) for a, b in zip(p, q, strict=True)]
        return norm(rest) if any(rest) else None

    def on_comparison(self, prefix: tuple[int, ...], chain: tuple[int, ...]):
        """'p_i = min(p_(i-1) p/q, 1)'; tau is the last i whose random number is at most h_i, whatever the random numbers before it showed."""
        joint, heights, left = ONE, [], []
        for i, token in enumerate(chain):
            p, q = self.p(prefix + chain[:i]), self.q(prefix + chain[:i])
            mass = sum((max(ZERO, joint * a - b) for a, b in zip(p, q, strict=True)), ZERO)
            heights.append(mass / (mass + ONE - joint) if i and mass + ONE - joint else ONE)
            left.append(self.compute_replacement(joint, p, q))
            joint = min(ONE, joint * p[token] / q[token])
        heights.append(joint)
        left.append(self.p(prefix + chain))
        none_after = ONE
        for i in range(len(chain), -1, -1):
            eos_token_ids = none_after * heights[i]
            if eos_token_ids:
                for token, mass in enumerate(left[i]):
                    yield (*chain[:i], token), eos_token_ids * mass
            none_after *= ONE - heights[i]


class Sequential(Algorithm1):
    """SpecTr, Sun et al. 2023, Algorithm 3: k drafts from one distribution, each accepted with probability min(1, p / (rho q))."""

    def __init__(self, p: Table, q: Table, branching: tuple[int, ...], rho):
        super().__init__(p, lambda prefix, count: q(prefix), branching)
        self.rho = rho  # (p, q, k) -> Fraction

    def left(self, p: Distribution, q: Distribution, k: int) -> list[Fraction]:
        """'p - min(q, p/rho) (1 - (1 - beta)^k) / beta', not rescaled and not cut at 0."""
        rho = self.rho(p, q, k)
        share = [min(b, a / rho) for a, b in zip(p, q, strict=True)]
        beta = sum(share, ZERO)
        times = (ONE - (ONE - beta) ** k) / beta if beta else ZERO
        return [a - one * times for a, one in zip(p, share, strict=True)]

    def round(self, prefix: tuple[int, ...], level: int = 0) -> Texts:
        if level == len(self.branching):
            return self.compute_bonus(prefix)
        p, q, k = self.p(prefix), self.q(prefix, 0), self.branching[level]
        rho = self.rho(p, q, k)
        share = [min(b, a / rho) for a, b in zip(p, q, strict=True)]
        missed, result = ONE - sum(share, ZERO), defaultdict(Fraction)
        for tries in range(k):
            for token, mass in enumerate(share):
                if mass:
                    for text, more in self.round((*prefix, token), level + 1).items():
                        result[(token, *text)] += missed**tries * mass * more
        for token, mass in enumerate(self.left(p, q, k)):
            if missed and mass:
                result[(token,)] += mass
        return dict(result)


class Distinct(Algorithm1):
    """Recursive rejection where each sibling is drawn from the draft's distribution without its elder siblings, renormalized."""

    def __init__(self, p: Table, q: Table, branching: tuple[int, ...]):
        super().__init__(p, lambda prefix, count: q(prefix), branching)

    def _siblings(self, prefix, level, count, left, gone: frozenset[int] = frozenset()):
        q = norm([ZERO if token in gone else mass for token, mass in enumerate(self.q(prefix, 0))])
        for token, drawn in enumerate(q):
            if not drawn:
                continue
            probs = self.p(prefix) if left is None else left
            kept = self.compute_threshold(probs, q, token)
            if kept:
                for text, mass in self.round((*prefix, token), level + 1).items():
                    yield (token, *text), drawn * kept * mass
            if kept == 1:
                continue
            rest, more = self.compute_residual(probs, q), gone | {token}
            if count + 1 < self.branching[level] and any(m for t, m in enumerate(self.q(prefix, 0)) if t not in more):
                later = self._siblings(prefix, level, count + 1, rest, more)
            else:
                later = self.after_rejection(prefix, token, rest, level).items()
            for text, mass in later:
                yield text, drawn * (1 - kept) * mass


def constant(probs: Distribution) -> Table:
    return lambda prefix: probs
