"""Tests of every token of whole texts, each against its own conditional distribution.

Under the null hypothesis token t of a text has the distribution p(. | the tokens before it). So for each token a function of
(token, prefix) minus its expectation under p is a martingale difference with a known conditional variance, and the randomized
probability transform is uniform and independent of everything before it (Rosenblatt 1952). Both stay true under weights that depend on
what came before the token alone: its place in the text, its place in a page of the cache, its place in the round. They do not stay true
given what the token itself decided. Accepted tokens follow min(p, q) and replacements the residual, so neither may be tested against p
by itself; the two together, at one place in the round, may.

Four statistics complement each other:

- *Transform*: tokens in the order of their probability, most likely first. Sees whatever makes likely tokens more or less frequent.
  Blind to what keeps the distribution of the rank's mass: mass that moves between tokens of (nearly) equal probability, or inside one.
- *Log probability*: the sum of log p(token) minus its expectation. Most sensitive to another temperature; sees unlikely tokens that
  the transform squeezes into its last percent. Blind to the same moves.
- *Likeliest token*: how often the token is the likeliest one, against the sum of its probabilities. Most sensitive to a draw that is greedy now
  and then, and the one with most power where the places are uncertain; sees nothing of the other tokens.
- *Token classes*: counts of the likeliest tokens, fixed beforehand, with the exact covariance. Sees mass that moves between tokens whatever
  their probabilities; blind to moves among the other tokens, and to moves that cancel from one prefix to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy import stats

from specviz.statistics.finding import ALPHA, POWER, Finding, format_count
from specviz.statistics.power import find_detectable_distance
from specviz.statistics.quadratic_form import compute_quadratic_form_tail

MIN_TOKENS = 50.0  # effective number of tokens below which a place is not tested
MIN_EXPECTED = 1.0  # tokens that a class must expect
CLASS_ROWS = 8192  # tokens whose masses are summed at a time
TILT = 0.2  # change of a class's mass, as a share of it, for which the test of classes has the most power
TRANSFORM, LOG_PROBABILITY, LIKELIEST = "transform", "log probability", "likeliest token"
FAVORED, CLASSES = "tokens with q > p", "token classes"


class Moments(NamedTuple):
    """A score of each token and its exact conditional moments, (N,) each: mean, variance and third central moment."""

    score: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    third: np.ndarray

    @classmethod
    def of_events(cls, happened: np.ndarray, probability: np.ndarray) -> Moments:
        """Of indicators."""
        variance = probability * (1.0 - probability)
        return cls(happened.astype(np.float64), probability, variance, variance * (1.0 - 2.0 * probability))


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the tests read of N tokens.

    Attributes:
        values: (N,) randomized probability transform of each token, in [0, 1].
        impossible: (N,) bool: whether the token has probability 0.
        log_probability: Of each token.
        likeliest: Whether the token is the likeliest one.
        favored: Whether q > p for the token; None without a draft.
        member: (N,) class of each token, from 0; C where it is in none.
        class_masses: (N, C) the conditional mass of each class.
    """

    values: np.ndarray
    impossible: np.ndarray
    log_probability: Moments
    likeliest: Moments
    favored: Moments | None
    member: np.ndarray
    class_masses: np.ndarray


def count_tests(places: int, has_draft: bool) -> int:
    """Number of tests that ``run_tests_along_texts`` makes for so many places besides all tokens."""
    return (places + 1) * (5 if has_draft else 4)


def run_tests_along_texts(
    scores: TokenScores, places: Mapping[str, np.ndarray], *, alpha: float = ALPHA, power: float = POWER
) -> list[Finding]:
    """All tests, of all tokens and at each place. alpha: level of each test.

    places: name -> weights (N,) in [0, 1] that depend on what came before each token alone.
    """
    everything = np.ones(len(scores.values))
    found = []
    for place, weights in {"all tokens": everything, **places}.items():
        found.append(
            compute_weighted_transform_test(
                scores.values, weights, scores.impossible, alpha=alpha, power=power, name=f"{place}: {TRANSFORM}"
            )
        )
        for moments, name in ((scores.log_probability, LOG_PROBABILITY), (scores.likeliest, LIKELIEST)):
            found.append(compute_score_test(moments, weights, alpha=alpha, power=power, name=f"{place}: {name}"))
        found.append(
            compute_class_test(scores.member, scores.class_masses, weights, alpha=alpha, power=power, name=f"{place}: {CLASSES}")
        )
        if scores.favored is not None:
            found.append(compute_score_test(scores.favored, weights, alpha=alpha, power=power, name=f"{place}: {FAVORED}"))
    return found


def compute_weighted_transform_test(
    values: np.ndarray,
    weights: np.ndarray,
    impossible: np.ndarray | None = None,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = TRANSFORM,
) -> Finding:
    """Kolmogorov-Smirnov test that transformed tokens are uniform, with weights. A token of probability 0 rejects outright.

    The statistic is sup |sum w (1[U <= u] - u)| / sqrt(sum w^2). With weights 0 and 1 the chosen values are independent and uniform,
    and the p-value is exact (Simard and L'Ecuyer 2011). With other weights the process tends to a Brownian bridge by the
    martingale limit theorem, as its conditional covariance is min(u, v) - u v whatever the prefix, and the p-value is that of
    Kolmogorov's distribution.

    ``detectable_tv`` is a gap between distribution functions in the order of probability, where the weight lies (in tokens of weight
    1); the total variation there is at least as much. ``n`` is the sum of squared weights.
    """
    kept = weights > 0.0
    u, w = np.clip(values[kept], 0.0, 1.0), weights[kept]
    size = float((w**2).sum())
    if impossible is not None and (never := int((impossible & kept).sum())):
        note = f"{format_count(never, 'token')} had probability 0 under the exact distribution: one is enough to reject."
        return Finding(name, round(size), 1.0, None, 0.0, None, alpha, power, note)
    if size < MIN_TOKENS:
        return _skip(name, size, alpha, power)
    order = np.argsort(u)
    u, w = u[order], w[order]
    above = np.cumsum(w)
    total = above[-1]
    gap = max(float((above - total * u).max()), float((total * u - (above - w)).max()))
    detectable = find_detectable_distance(int(size), alpha, power)
    if bool((w == 1.0).all()):
        return Finding(
            name,
            len(u),
            gap / total,
            None,
            float(stats.kstwo.sf(gap / total, len(u))),
            detectable,
            alpha,
            power,
            _describe(gap / total),
        )
    p_value = float(stats.kstwobign.sf(gap / sqrt(size)))
    return Finding(name, round(size), gap / sqrt(size), None, p_value, detectable, alpha, power, _describe(gap / size))


def compute_score_test(
    moments: Moments, weights: np.ndarray, *, alpha: float = ALPHA, power: float = POWER, name: str = "score"
) -> Finding:
    """Two-sided test that a weighted sum of scores has its expectation, whose variance is known exactly under p.

    The sum of martingale differences is nearly normal. Each tail is the larger of the normal one and that of Pearson's type III with
    the same three moments, so a skewed score raises no more false alarms. ``statistic`` is the standardized sum. No total variation
    is detected in every direction, so ``detectable_tv`` is None; the note has the mean shift.
    """
    size = float((weights**2).sum())
    if size < MIN_TOKENS:
        return _skip(name, size, alpha, power)
    difference = float(weights @ (moments.score - moments.mean))
    variance = float((weights**2) @ moments.variance)
    if variance <= 0.0:
        note = "Every token is certain, so there is nothing to compare."
        return Finding(name, round(size), 0.0, None, 1.0, None, alpha, power, note)
    skew = float((weights**3) @ moments.third) / variance**1.5
    z = difference / sqrt(variance)
    tail = float(max(stats.norm.sf(abs(z)), stats.pearson3.sf(abs(z), skew if z > 0.0 else -skew)))
    total = float(weights.sum())
    note = f"{difference / total:+.4f} per token, standard error {sqrt(variance) / total:.4f}."
    return Finding(name, round(size), z, None, min(1.0, 2.0 * tail), None, alpha, power, note)


def compute_class_test(
    member: np.ndarray,
    class_masses: np.ndarray,
    weights: np.ndarray,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = CLASSES,
) -> Finding:
    """Test of weighted counts in classes against sums of conditional masses, most powerful where every class is tilted by a factor of its own.

    The statistic is r' (C + K I)^-1 r, with the differences r of counts and expectations, their exact covariance C = sum of w^2 (diag(pi) -
    pi pi'), and K = 1 / TILT^2: the likelihood ratio against classes whose log masses are moved by independent normal numbers of standard
    deviation TILT, and the chi-square statistic for K = 0. Classes that expect few tokens count little, instead of as much as the others.
    Under the null hypothesis it is a sum of chi-square variables with the weights l / (l + K), l the eigenvalues of C. Counts of few tokens
    vary more than normal ones, so the distance from the expectation is divided by the ratio of the standard deviations.

    member: (N,) class of each token, C where it is in none; class_masses: (N, C).
    """
    size = float((weights**2).sum())
    if size < MIN_TOKENS:
        return _skip(name, size, alpha, power)
    expected, spread, fourth, inner = _sum_masses(class_masses, weights)
    kept = spread >= MIN_EXPECTED
    covariance = (np.diag(spread) - inner)[np.ix_(kept, kept)]
    values, vectors = np.linalg.eigh(covariance) if kept.any() else (np.zeros(0), np.zeros((0, 0)))
    varies = values > max(1e-9 * float(values[-1]), 1e-9) if len(values) else np.zeros(0, dtype=bool)
    if not varies.any():
        note = "All tokens lie in one class, or each class expects too few, so there is nothing to compare."
        return Finding(name, round(size), 0.0, None, 1.0, None, alpha, power, note)
    values, vectors = values[varies], vectors[:, varies]
    difference = (np.bincount(member, weights, minlength=len(kept) + 1)[:-1] - expected)[kept]
    shrink = 1.0 / (values + 1.0 / TILT**2)
    statistic = float((vectors.T @ difference) ** 2 @ shrink)
    shares = values * shrink
    excess = float(((vectors**2 @ shrink) ** 2) @ fourth[kept])  # fourth cumulants of the counts
    mean, variance = float(shares.sum()), 2.0 * float((shares**2).sum())
    beyond = max(0.0, statistic - mean) / sqrt(1.0 + excess / variance)
    note = f"{int(kept.sum())} classes; the statistic has the expectation {mean:.4g}."
    p_value = compute_quadratic_form_tail(mean + beyond if beyond else statistic, shares)
    return Finding(name, round(size), statistic, None, p_value, None, alpha, power, note)


def _sum_masses(class_masses: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sums of w pi, w^2 pi, w^4 pi, (C,) each, and of w^2 pi pi', (C, C). A part of the tokens at a time, which bounds the memory."""
    classes = class_masses.shape[1]
    sums, inner = np.zeros((3, classes)), np.zeros((classes, classes))
    rows = np.flatnonzero(weights)
    for begin in range(0, len(rows), CLASS_ROWS):
        part = rows[begin : begin + CLASS_ROWS]
        masses, w = class_masses[part].astype(np.float64), weights[part]
        sums += np.stack((w, w**2, w**4)) @ masses
        inner += masses.T @ ((w**2)[:, None] * masses)
    return sums[0], sums[1], sums[2], inner


def compute_round_weights(acceptance: Sequence[np.ndarray], gamma: int) -> np.ndarray:
    """How likely each token stands at each place of its round, given the tokens before it: (N, gamma + 1), of all texts in turn.

    Place k < gamma: k draft tokens of the round were accepted, and another one is judged here. Place gamma: the bonus token. The
    probabilities follow from those of an exact decoder by Bayes' rule: token x was accepted with probability min(1, q(x) / p(x)) where
    it was judged. They depend on earlier tokens alone, so they are valid weights whatever the server does; where it drafts in another
    way, only power is lost.

    A text may begin with a round, or with a token of the prompt's pass; each is given one half.

    acceptance: of each text (L,), min(1, q / p) of its tokens; of a draft that takes its likeliest token: whether it is this token.
    """
    return (
        np.concatenate([_compute_weights_of_text(one, gamma) for one in acceptance]) if acceptance else np.zeros((0, gamma + 1))
    )


def _compute_weights_of_text(acceptance: np.ndarray, gamma: int) -> np.ndarray:
    found = np.zeros((len(acceptance), gamma + 1))
    state, first = np.zeros(gamma + 1), 0.5
    state[0] = 0.5
    for place, share in enumerate(acceptance):
        found[place] = state
        judged = state[:gamma]
        after = np.zeros(gamma + 1)
        after[1:] = judged * share
        after[0] = judged.sum() * (1.0 - share) + state[gamma] + first
        state, first = after, 0.0
    return found


def _skip(name: str, size: float, alpha: float, power: float) -> Finding:
    note = f"Only {size:.0f} tokens lie here, too few for a test."
    return Finding(name, round(size), 0.0, None, 1.0, None, alpha, power, note)


def _describe(gap: float) -> str:
    return f"Largest gap between distribution functions: {gap:.4f}."
