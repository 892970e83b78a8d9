"""Two samples of continuations: were both drawn from the same, unknown distribution? For example speculation on and off.

Continuations are tuples of ids, or texts; a text is compared character by character and never tokenized again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import numpy as np
from scipy import stats

from specviz.errors import EvidenceError
from specviz.progress import ProgressCallback, ignore_progress
from specviz.statistics.finding import ALPHA, POWER, Finding, check_counts
from specviz.statistics.power import compute_pooled_draws, find_detectable_tv
from specviz.statistics.random_streams import RandomUse, make_generator

MOST = 4000  # continuations per sample
AT_ONCE = 256  # permutations worked on together

Continuation = tuple[int, ...] | str


def compare_two_rates(hits: tuple[int, int], draws: tuple[int, int]) -> float:
    """p-value of Fisher's exact test that something is as frequent in both samples, from how often it came in how many draws of each."""
    table = [[count, total - count] for count, total in zip(hits, draws, strict=True)]
    return float(stats.fisher_exact(table).pvalue)


def count_permutations(alpha: float) -> int:
    """How many permutations a test of this level needs, so that its smallest possible p-value is below the level."""
    return int(1.5 / alpha)


def compute_permutation_test(
    first: Sequence[Continuation],
    second: Sequence[Continuation],
    *,
    permutations: int | None = None,
    seed: int = 0,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "permutation of two samples",
    on_progress: ProgressCallback = ignore_progress,
) -> Finding:
    """Is any beginning more frequent in one sample than in the other? p = (1 + permutations at least as extreme) / (1 + B).

    ``first``, ``second``: 1 to 4,000 continuations each, all tuples of ids or all texts; independent, of one prompt.
    ``permutations``: B; None: as many as the level needs. The smallest possible p-value is 1 / (1 + B). ``seed``: of the permutations, which have their own random
    stream. ``on_progress``: called repeatedly with the fraction that is done; may raise to stop the test.

    The statistic is the largest difference between the two samples' frequencies of a beginning, in standard deviations under
    permutation, over all beginnings that two or more continuations share (whole continuations included). Long texts hardly ever
    repeat as a whole, so a distance between distributions of whole texts says nothing; their beginnings do repeat. Under the null
    hypothesis the samples are exchangeable, and the p-value is exact at any size (Pitman 1937; Phipson and Smyth 2010 for the
    added 1).

    ``detectable_tv`` is the smallest difference in the probability of one beginning that is detected with ``power``, whatever the
    other beginnings do. It uses the quantile of the statistic over the permutations, so it is slightly random. None if B is too
    small for a test of this level.
    """
    one, two = _check_sample(first, "first"), _check_sample(second, "second")
    n, m = len(one), len(two)
    permutations = count_permutations(alpha) if permutations is None else permutations
    order, starts, ends = find_shared_beginnings([*one, *two])
    sizes = ends - starts
    if not len(sizes):
        note = "All continuations are equal, or no two of them begin alike: nothing can tell the samples apart."
        return Finding(name, n + m, 0.0, None, 1.0, None, alpha, power, note)
    total = n + m
    spread = np.sqrt(n * m / total**2 * sizes * (total - sizes) / (total - 1.0))  # hypergeometric

    def find_largest(labels: np.ndarray) -> np.ndarray:
        """The statistic, (B,). labels (B, N): 1 for the first sample, in sorted order."""
        below = np.concatenate([np.zeros((len(labels), 1), dtype=np.int32), np.cumsum(labels, axis=1, dtype=np.int32)], axis=1)
        return (np.abs(below[:, ends] - below[:, starts] - n * sizes / total) / spread).max(axis=1)

    labels = np.repeat(np.array([1, 0], dtype=np.int8), [n, m])  # one byte each: permuting them is most of the work
    observed = float(find_largest(labels[order][None])[0])
    random, null = make_generator(seed, RandomUse.PERMUTATION), []
    for begin in range(0, permutations, AT_ONCE):
        on_progress(begin / permutations)
        repeated = np.tile(labels, (min(AT_ONCE, permutations - begin), 1))
        null.append(find_largest(random.permuted(repeated, axis=1)))
    extremes = np.concatenate(null)
    p_value = (1 + int((extremes >= observed * (1.0 - 1e-12)).sum())) / (1 + permutations)
    detectable = None
    if permutations + 1 >= 1.0 / alpha:
        critical = float(np.sort(extremes)[::-1][max(0, int(alpha * (permutations + 1)) - 1)])
        detectable = min(1.0, float(critical + stats.norm.isf(1.0 - power)) / (2.0 * sqrt(compute_pooled_draws(n, m))))
    note = f"{n:,} and {m:,} continuations, {len(sizes):,} beginnings that two or more share."
    if p_value * (1 + permutations) <= 1.0:
        note += f" No smaller p-value is possible with {permutations:,} permutations."
    return Finding(name, total, observed, None, p_value, detectable, alpha, power, note)


def compute_homogeneity_test(
    first: Sequence[int] | np.ndarray,
    second: Sequence[int] | np.ndarray,
    *,
    minimum: float = 5.0,
    alpha: float = ALPHA,
    power: float = POWER,
    name: str = "homogeneity",
) -> Finding:
    """Pearson's chi-square test that two samples have one distribution, for large counts: (2, K) table, df = cells - 1.

    ``first``, ``second``: (K,) counts of the same outcomes.

    Without an exact distribution, outcomes are pooled by the total over both samples. The totals say nothing about a difference
    between the samples: given the totals, the samples are exchangeable. Outcomes whose smaller expected count is below
    ``minimum`` share one cell. Samples of a and b draws detect what a b / (a + b) draws detect against an exact distribution.
    """
    one = check_counts(first)
    two = check_counts(second, one.size)
    n, m, both = int(one.sum()), int(two.sum()), one + two
    smaller = min(n, m) / (n + m)
    enough = both * smaller >= minimum
    if enough.any() and both[~enough].sum() * smaller < minimum:  # the rest is too light for a cell: it joins the lightest one
        enough[np.flatnonzero(enough)[both[enough].argmin()]] = False
    table = np.array([[*counts[enough], counts[~enough].sum()] for counts in (one, two)])
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2:
        raise EvidenceError("Nothing can be tested: every outcome is pooled, or only one was ever drawn. Draw more.")
    found = stats.chi2_contingency(table, correction=False)
    detectable = find_detectable_tv(found.dof, compute_pooled_draws(n, m), alpha, power)
    return Finding(name, n + m, float(found.statistic), int(found.dof), float(found.pvalue), detectable, alpha, power, "")


def find_shared_beginnings(continuations: Sequence[Continuation]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every set of two or more continuations that share a beginning: the inner nodes of their compressed prefix tree.

    In sorted order, continuations with a common beginning are neighbors. Returns the sorting order (N,), and the start and end
    of each set in that order, (I,) and (I,): at most N - 1 sets. The set of all continuations is left out.
    """
    order = sorted(range(len(continuations)), key=continuations.__getitem__)
    shared = [-1, *(_count_common(continuations[a], continuations[b]) for a, b in pairwise(order)), -1]
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


def _count_common(a: Continuation, b: Continuation) -> int:
    """Length of the longest common beginning. Equal continuations count one more, so that they share more than a beginning."""
    if a == b:
        return len(a) + 1
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _check_sample(sample: Sequence[Continuation], which: str) -> list[Continuation]:
    if not 1 <= len(sample) <= MOST:
        raise EvidenceError(
            f"The {which} sample must have between 1 and {MOST:,} continuations, got {len(sample):,}. "
            f"Take the first {MOST:,}: continuations are independent, so these are as good as any."
        )
    return list(sample)
