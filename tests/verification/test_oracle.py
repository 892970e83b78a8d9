"""'We show that for any distributions p(x) and q(x), the tokens sampled via speculative sampling from p(x) and q(x) are
distributed identically to those sampled from p(x) alone.' (Leviathan et al. 2023, section 2.3 and appendix A.1)

Proved here on fractions, where equality is ``==``: the algorithm of the paper itself, without the package. That the
package does what this algorithm does is test_token_rule.py.
"""

from fractions import Fraction

import pytest

from tests.helpers.toy_tables import DRAFTS, build_one_hot, draw_distribution, pair, remember
from tests.oracle.token_rule import Algorithm1, beta, decoder_distribution, target_distribution, tokens_per_round, total_variation

V = 3
SEEDS = range(5)


def build_decoder(kind: str, seed: int, branching: tuple[int, ...], made=Algorithm1) -> Algorithm1:
    p, q = pair(kind, seed, V, 12)
    return made(p, lambda ids, sibling: q(ids), branching)


def measure_distance(algorithm: Algorithm1, length: int) -> Fraction:
    return total_variation(decoder_distribution(algorithm.round, length), target_distribution(algorithm.p, length))


@pytest.mark.parametrize("gamma", (1, 2, 3))
@pytest.mark.parametrize("kind", DRAFTS)
def test_distribution_of_three_tokens_is_the_targets_for_every_draft(kind, gamma):
    """Distributions differ with every prefix; V = 3, masses in twelfths."""
    for seed in SEEDS:
        algorithm = build_decoder(kind, seed, (1,) * gamma)
        for length in (2, 3):
            assert decoder_distribution(algorithm.round, length) == target_distribution(algorithm.p, length)


@pytest.mark.parametrize("branching", ((2,), (3,), (2, 1), (1, 2), (2, 2)))
@pytest.mark.parametrize("kind", DRAFTS)
def test_distribution_is_the_targets_with_siblings_too(kind, branching):
    """Each rejected sibling leaves a residual that the next one meets (Miao et al. 2024, multi-step speculative sampling)."""
    for seed in SEEDS:
        algorithm = build_decoder(kind, seed, branching)
        assert decoder_distribution(algorithm.round, 2) == target_distribution(algorithm.p, 2)


def test_siblings_may_come_from_different_distributions():
    """Two drafts draft the same token: the second sibling's distribution is another one."""
    for seed in SEEDS:
        p, _ = pair("random", seed, V, 12)
        algorithm = Algorithm1(p, lambda ids, sibling, s=seed: draw_distribution((s, ids, sibling), V, 12), (3, 2))
        assert decoder_distribution(algorithm.round, 2) == target_distribution(p, 2)


def test_a_round_accepts_a_draft_token_with_probability_one_minus_total_variation():
    """'alpha = 1 - E(D_LK(p, q)) = E(min(p, q))' (corollary 3.6): the probability of accepting a draft token is the sum of min(p, q)."""
    for seed in range(20):
        algorithm = build_decoder("random", seed, (1,))
        accepted = sum(mass for text, mass in algorithm.round(()).items() if len(text) == 2)
        p, q = algorithm.p(()), algorithm.q((), 0)
        assert accepted == beta(p, q) == 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


@pytest.mark.parametrize("gamma", (1, 2, 3, 4))
def test_mean_tokens_of_a_round_follow_the_papers_formula(gamma):
    """'E(#generated tokens) = (1 - alpha^(gamma + 1)) / (1 - alpha)' (equation 1), for distributions that do not depend on the prefix."""
    p, q = draw_distribution("p", V, 12), draw_distribution("q", V, 12)
    alpha = beta(p, q)
    assert 0 < alpha < 1
    algorithm = Algorithm1(lambda ids: p, lambda ids, sibling: q, (1,) * gamma)
    assert tokens_per_round(algorithm.round(())) == (1 - alpha ** (gamma + 1)) / (1 - alpha)


class ReplacesFromTarget(Algorithm1):
    """R5: the replacement is drawn from p."""

    def after_rejection(self, prefix, refused, probs, level):
        return self.compute_bonus(prefix)


class GateOffByOne(Algorithm1):
    """The token's probability is read one position too late."""

    def judge(self, prefix, token):
        return self.p((*prefix, token))


class KeepsWhatFollows(Algorithm1):
    """After a rejection, the token drafted behind the rejected one is written anyway."""

    def after_rejection(self, prefix, refused, probs, level):
        own = super().after_rejection(prefix, refused, probs, level)
        if level + 1 == len(self.branching):
            return own
        next_draft_token = self.q((*prefix, refused), 0)
        return {(*text, token): mass * more for text, mass in own.items() for token, more in enumerate(next_draft_token) if more}


class AbsoluteDifference(Algorithm1):
    """The residual is |p - q|, not max(0, p - q)."""

    def compute_residual(self, p, q):
        left = [abs(a - b) for a, b in zip(p, q, strict=True)]
        return tuple(mass / sum(left) for mass in left)


class SwappedLetters(Algorithm1):
    """Chen et al. write q for the target; taken over without swapping."""

    def compute_threshold(self, p, q, token):
        return min(Fraction(1), q[token] / p[token]) if p[token] else Fraction(1)


class Lenient(Algorithm1):
    """Keeps a fifth more than it may."""

    def compute_threshold(self, p, q, token):
        return min(Fraction(1), Fraction(6, 5) * p[token] / q[token])


class KeepsWhenLikelier(Algorithm1):
    """No random number: accepted iff p >= q."""

    def compute_threshold(self, p, q, token):
        return Fraction(int(p[token] >= q[token]))

    def compute_residual(self, p, q):
        return p if p == q else super().compute_residual(p, q)


MISTAKES = (ReplacesFromTarget, GateOffByOne, KeepsWhatFollows, AbsoluteDifference, SwappedLetters, Lenient, KeepsWhenLikelier)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda made: made.__name__)
def test_a_mistake_in_one_sentence_of_the_algorithm_is_seen(mistake):
    """On each of ten tables, none picked. Distributions are positive; p has fifteenths and q sixteenths, so they never agree."""
    for seed in range(10):
        p = remember(lambda ids, s=seed: draw_positive_distribution(("p", s, ids), 12))
        q = remember(lambda ids, s=seed: draw_positive_distribution(("q", s, ids), 13))
        assert measure_distance(mistake(p, lambda ids, sibling, q=q: q(ids), (1, 1)), 3) > 0, f"table {seed}"


def draw_positive_distribution(seed: object, parts: int):
    """A random distribution with mass on every token: ``parts`` random parts, and one more for each token."""
    return tuple((mass * parts + 1) / (parts + V) for mass in draw_distribution(seed, V, parts))


class NoBonus(Algorithm1):
    """After a fully accepted draft nothing is added."""

    def compute_bonus(self, prefix):
        return {(): Fraction(1)}


def test_a_missing_bonus_costs_speed_but_not_exactness():
    for seed in SEEDS:
        slow, right = build_decoder("random", seed, (1, 1), NoBonus), build_decoder("random", seed, (1, 1))
        assert measure_distance(slow, 3) == 0
        assert tokens_per_round(slow.round(())) <= tokens_per_round(right.round(()))
    p = draw_distribution("p", V, 12)
    same = [made(lambda ids: p, lambda ids, sibling: p, (1, 1)) for made in (NoBonus, Algorithm1)]
    assert [tokens_per_round(algorithm.round(())) for algorithm in same] == [2, 3]


def test_a_worthless_draft_still_writes_the_target():
    """Disjoint supports: every draft token is rejected, and the residual is p itself."""
    p, q = build_one_hot(0, V), build_one_hot(2, V)
    algorithm = Algorithm1(lambda ids: p, lambda ids, sibling: q, (1, 1, 1))
    assert algorithm.round(()) == {(0,): 1}
