"""Two heaps of continuations and no distribution at all: were they drawn from the same one? Speculation on against speculation off.

Continuations are tuples of ids, or texts; a text is compared character by character and never tokenised again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt

import numpy as np
from scipy import stats

from specviz.errors import EvidenceError
from specviz.statistics.findings import ALPHA, POWER, Finding, checked_counts
from specviz.statistics.luck import Use, generator
from specviz.statistics.power import detectable_tv, pooled_draws

MOST = 4000  # continuations per arm
PERMUTATIONS = 1999
AT_ONCE = 64  # permutations worked on together

Continuation = tuple[int, ...] | str


def permutation_test(
    first: Sequence[Continuation],
    second: Sequence[Continuation],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "permutation of two samples",
    watch: Callable[[float], None] = lambda share: None,
) -> Finding:
    """Is any beginning more frequent in one arm than in the other? p = (1 + permutations at least as extreme) / (1 + B).

    first, second  1 to 4,000 continuations each, all tuples of ids or all texts; independent draws of one prompt
    permutations   B; the smallest p-value is 1 / (1 + B)
    seed           of the permutations, which have a stream of their own
    watch          told the share that is done, again and again; what it raises ends the test

    Statistic: over all beginnings that two or more continuations share, whole ones included, the largest gap between the
    arms' shares, in standard deviations that it has under permutation. Long texts hardly ever repeat as wholes, so a
    distance between distributions of whole texts says nothing; their beginnings do repeat. Under the null the arms are
    exchangeable, and the p-value is exact at any size (Pitman 1937; Phipson and Smyth 2010 for the added 1).

    ``detectable_tv``: the least gap in the probability of one beginning that is seen with ``power``, whatever the other
    beginnings do; made from the statistic's own quantile over the permutations, and so a little random. None where B is
    too small for a test of this level.
    """
    arms = [_checked(arm, which) for arm, which in ((first, "first"), (second, "second"))]
    n, m = map(len, arms)
    order, starts, ends = beginnings([*arms[0], *arms[1]])
    sizes = ends - starts
    if not len(sizes):
        note = "All continuations are alike, or no two of them begin alike: nothing can tell the arms apart."
        return Finding(name, n + m, 0.0, None, 1.0, None, alpha, power, note)
    total = n + m
    spread = np.sqrt(n * m / total**2 * sizes * (total - sizes) / (total - 1.0))  # hypergeometric

    def largest(labels: np.ndarray) -> np.ndarray:
        """labels (B, N) 1 for the first arm, in sorted order; returns (B,)."""
        below = np.concatenate([np.zeros((len(labels), 1), dtype=np.int32), np.cumsum(labels, axis=1, dtype=np.int32)], axis=1)
        return (np.abs(below[:, ends] - below[:, starts] - n * sizes / total) / spread).max(axis=1)

    labels = np.repeat([1, 0], [n, m])
    observed = float(largest(labels[order][None])[0])
    luck, null = generator(seed, Use.PERMUTATION), []
    for begin in range(0, permutations, AT_ONCE):
        watch(begin / permutations)
        repeated = np.tile(labels, (min(AT_ONCE, permutations - begin), 1))
        null.append(largest(luck.permuted(repeated, axis=1)))
    extremes = np.concatenate(null)
    p_value = (1 + int((extremes >= observed * (1.0 - 1e-12)).sum())) / (1 + permutations)
    seen = None
    if permutations + 1 >= 1.0 / alpha:
        critical = float(np.sort(extremes)[::-1][max(0, int(alpha * (permutations + 1)) - 1)])
        seen = min(1.0, float(critical + stats.norm.isf(1.0 - power)) / (2.0 * sqrt(pooled_draws(n, m))))
    return Finding(name, total, observed, None, p_value, seen, alpha, power, _words(n, m, len(sizes)))


def homogeneity(
    first: Sequence[int] | np.ndarray,
    second: Sequence[int] | np.ndarray,
    *,
    minimum: float = 5.0,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "homogeneity",
) -> Finding:
    """Pearson's chi-square that two arms share one distribution, for large counts: (2, K) table of outcomes, df = cells - 1.

    first, second  (K,) counts of the same outcomes

    With no exact distribution there is nothing else to make cells from, so outcomes are pooled by the total over both arms, which
    says nothing about a difference between them: given the totals the arms are exchangeable. Outcomes whose smaller
    expected count is below ``minimum`` share one cell. Arms of a and b draws see what a b / (a + b) see against a distribution.
    """
    one = checked_counts(first)
    two = checked_counts(second, one.size)
    n, m, both = int(one.sum()), int(two.sum()), one + two
    share = min(n, m) / (n + m)
    enough = both * share >= minimum
    if enough.any() and both[~enough].sum() * share < minimum:  # what is left is too light for a cell: the lightest takes it in
        enough[np.flatnonzero(enough)[both[enough].argmin()]] = False
    table = np.array([[*arm[enough], arm[~enough].sum()] for arm in (one, two)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        raise EvidenceError("Nothing can be tested: every outcome is pooled, or only one was ever drawn. Draw more.")
    found = stats.chi2_contingency(table, correction=False)
    seen = detectable_tv(found.dof, pooled_draws(n, m), alpha, power)
    return Finding(name, n + m, float(found.statistic), int(found.dof), float(found.pvalue), seen, alpha, power, "")


def beginnings(continuations: Sequence[Continuation]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every set of two or more continuations that share a beginning: the inner nodes of their compressed prefix tree.

    Sorted, those with a common beginning stand side by side. Returns the sorting order (N,), and for each set where it
    starts and ends in that order (I,), (I,): at most N - 1 sets, the set of all left out.
    """
    order = sorted(range(len(continuations)), key=continuations.__getitem__)
    shared = [-1, *(_common(continuations[a], continuations[b]) for a, b in pairwise(order)), -1]
    found, open_ = [], [(-1, 0)]  # open sets: length of the beginning, where the set starts
    for place in range(1, len(shared)):
        start = place - 1
        while open_[-1][0] > shared[place]:
            _, start = open_.pop()
            found.append((start, place))
        if open_[-1][0] < shared[place]:
            open_.append((shared[place], start))
    sets = np.array([one for one in found if one != (0, len(continuations))], dtype=np.int64).reshape(-1, 2)
    return np.array(order, dtype=np.int64), sets[:, 0], sets[:, 1]


def _common(a: Continuation, b: Continuation) -> int:
    """Length of the longest common beginning; the end counts as one more, so that equals share more than a beginning."""
    if a == b:
        return len(a) + 1
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _checked(arm: Sequence[Continuation], which: str) -> list[Continuation]:
    if not 1 <= len(arm) <= MOST:
        raise EvidenceError(
            f"The {which} arm must have between 1 and {MOST:,} continuations, got {len(arm):,}. "
            f"Take the first {MOST:,}: draws are alike, so these are as good as any."
        )
    return list(arm)


def _words(n: int, m: int, sets: int) -> str:
    return f"{n:,} and {m:,} continuations, {sets:,} beginnings that two or more share."
