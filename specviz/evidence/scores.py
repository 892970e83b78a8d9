"""What the exact distributions say of each drawn token: the view inside cells that a test of the joint distribution has to pool.

Every continuation is read along its own text, with the target's distribution (and the draft's) after each of its prefixes. Under the
target's distribution, whatever the prefixes were,
- the share of tokens that the draft likes better than the target does (q > p) has a known expectation at each position;
- the tokens after one prefix follow its distribution, so their chi-square statistics add up over prefixes (Pearson 1900);
- the randomised probability transform of each token is uniform (Rosenblatt 1952; Smith 1985).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.samples import NONE, Samples
from specviz.models.base import LanguageModel
from specviz.models.paths import distributions_after

LEAST = 5.0  # expected count of a cell of a conditional test
Group = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Scores:
    """Of N continuations and L positions; entries after a continuation's end are NaN (False in ``favoured``).

    below     (N, L) the target's mass of all smaller ids at that position; mass  (N, L) of the token itself
    favoured  (N, L) bool: q > p for the token; share  (N, L) the target's mass of all such tokens at that prefix
    ending    (N, L) the target's mass of all stop tokens at that prefix
    groups    for each position, per prefix, the counts of what followed in cells fixed by its distribution, and the cells' masses
    """

    below: np.ndarray
    mass: np.ndarray
    favoured: np.ndarray
    share: np.ndarray
    ending: np.ndarray
    groups: tuple[list[Group], ...]

    @classmethod
    def empty(cls, rows: int, length: int) -> Scores:
        below, mass, share, ending = (np.full((rows, length), np.nan) for _ in range(4))
        return cls(below, mass, np.zeros((rows, length), dtype=bool), share, ending, tuple([] for _ in range(length)))

    @property
    def impossible(self) -> int:
        """Tokens that the target never writes: one is enough to reject."""
        return int((self.mass == 0.0).sum())


def score(
    target: LanguageModel,
    draft: LanguageModel | None,
    prompt: Sequence[int],
    samples: Samples,
    eos_token_ids: frozenset[int] = frozenset(),
    watch: Callable[[float], None] = lambda share: None,
) -> Scores:
    """Read every continuation. Without a draft ``favoured`` and ``share`` stay empty. Work: one distribution per different prefix."""
    rows, length = samples.tokens.shape
    scores, ids = Scores.empty(rows, length), torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
    for place in range(length):
        who = np.flatnonzero(samples.tokens[:, place] != NONE)
        if not len(who):
            break
        paths, which = np.unique(samples.tokens[who, :place], axis=0, return_inverse=True)
        which = which.reshape(-1)
        order = np.argsort(which, kind="stable")
        who, ends = who[order], np.searchsorted(which[order], np.arange(len(paths) + 1))
        drafts = distributions_after(draft, prompt, paths) if draft is not None else None
        for where, p in distributions_after(target, prompt, paths):
            q = next(drafts)[1] if drafts else None
            mine = who[ends[where.start] : ends[where.stop]]
            sizes = np.diff(ends[where.start : where.stop + 1])
            group = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
            _read(scores, (mine, place), group, torch.from_numpy(samples.tokens[mine, place].astype(np.int64)), p, q, ids)
            watch((place + where.stop / len(paths)) / length)
    return scores


def _read(scores: Scores, at: tuple, group: Tensor, tokens: Tensor, p: Tensor, q: Tensor | None, eos_token_ids: Tensor) -> None:
    """Tokens of the draws and the position ``at``; draw j stands at the prefix whose distributions are p[group[j]], q[group[j]]."""
    p = p / p.sum(-1, keepdim=True)
    mass = p[group, tokens]
    scores.mass[at] = mass
    scores.below[at] = p.cumsum(-1)[group, tokens] - mass
    scores.ending[at] = p[:, eos_token_ids].sum(-1)[group]
    if q is not None:
        liked = q > p
        scores.favoured[at] = liked[group, tokens]
        scores.share[at] = (p * liked).sum(-1)[group]
    counts = torch.zeros_like(p).index_put_((group, tokens), torch.ones(len(tokens), dtype=p.dtype), accumulate=True)
    scores.groups[at[1]].extend(conditional(counts, p))


def conditional(counts: Tensor, p: Tensor) -> Iterator[Group]:
    """For each prefix that says something: counts of what followed it, and masses, by cell.

    counts, p  (g, V). Given how often a prefix was written, n, its cells are fixed by its distribution: each token with n p >= 5, and
    all others together, where they reach 5; else they join the lightest. A prefix with one cell says nothing.
    """
    n = counts.sum(-1)
    alone = p * n[:, None] >= LEAST
    for row in torch.nonzero((n >= 2 * LEAST) & alone.any(-1))[:, 0].tolist():
        own = alone[row]
        masses, seen = p[row, own], counts[row, own]
        rest = (p[row, ~own].sum()[None], counts[row, ~own].sum()[None])
        if float(rest[0]) * float(n[row]) >= LEAST or len(masses) == 0:
            masses, seen = torch.cat((masses, rest[0])), torch.cat((seen, rest[1]))
        else:
            lightest = int(masses.argmin())
            masses[lightest], seen[lightest] = masses[lightest] + rest[0][0], seen[lightest] + rest[1][0]
        if len(masses) > 1:
            yield seen.numpy(), (masses / masses.sum()).numpy()
