"""Score every sampled token by the exact distributions. This looks inside cells that a test of the joint distribution must pool.

Every sample is read along its own text, with the target's distribution (and the draft's) after each of its prefixes. If the samples
follow the target's distribution, then for any prefixes
- the fraction of tokens with q > p has a known expectation at each position;
- the tokens after one prefix follow its distribution, so their chi-square statistics add up over prefixes (Pearson 1900);
- the randomized probability transform of each token is uniform (Rosenblatt 1952; Smith 1985).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.samples import NONE, Samples, group_rows
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after
from specviz.progress import ProgressCallback, ignore_progress

LEAST = 5.0  # expected count of a cell of a conditional test
Group = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of N samples at L positions. Entries after a sample's end are NaN (False in ``favored``)."""

    below: np.ndarray  # (N, L) the target's mass of all smaller ids at that position
    mass: np.ndarray  # (N, L) the target's mass of the token itself
    favored: np.ndarray  # (N, L) bool: whether q > p for the token
    favored_mass: np.ndarray  # (N, L) the target's mass of all tokens with q > p after that prefix
    ending: np.ndarray  # (N, L) the target's mass of all end-of-sequence tokens after that prefix
    # for each position and prefix: counts of the next tokens in cells fixed by the distribution, and the cells' masses
    groups: tuple[list[Group], ...]

    @classmethod
    def build_empty(cls, rows: int, length: int) -> Scores:
        below, mass, favored_mass, ending = (np.full((rows, length), np.nan) for _ in range(4))
        return cls(below, mass, np.zeros((rows, length), dtype=bool), favored_mass, ending, tuple([] for _ in range(length)))

    @property
    def impossible(self) -> int:
        """Number of tokens that the target never writes. One is enough to reject."""
        return int((self.mass == 0.0).sum())


def score_samples(
    target: LanguageModel,
    draft: LanguageModel | None,
    prompt: Sequence[int],
    samples: Samples,
    eos_token_ids: frozenset[int] = frozenset(),
    on_progress: ProgressCallback = ignore_progress,
) -> Scores:
    """Score every sample. Without a draft ``favored`` and ``favored_mass`` stay empty. Cost: one distribution per distinct prefix.

    Tokens after an end token have mass 0: the target never writes them.
    """
    rows, length = samples.tokens.shape
    scores, ids = Scores.build_empty(rows, length), torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
    after_end = find_tokens_after_end(samples.tokens, eos_token_ids)
    for found in (scores.mass, scores.below, scores.ending, *([scores.favored_mass] if draft is not None else [])):
        found[after_end] = 0.0
    for place in range(length):
        who = np.flatnonzero((samples.tokens[:, place] != NONE) & ~after_end[:, place])
        if not len(who):
            break
        paths, order, ends = group_rows(samples.tokens[who, :place])
        who = who[order]
        drafts = iterate_distributions_after(draft, prompt, paths, stays=True) if draft is not None else None
        for where, p in iterate_distributions_after(target, prompt, paths, stays=True):
            q = next(drafts)[1] if drafts else None
            mine = who[ends[where.start] : ends[where.stop]]
            sizes = np.diff(ends[where.start : where.stop + 1])
            group = np.repeat(np.arange(len(sizes)), sizes)
            _score_position(scores, (mine, place), group, samples.tokens[mine, place].astype(np.int64), p, q, ids)
            on_progress((place + where.stop / len(paths)) / length)
    return scores


def find_tokens_after_end(tokens: np.ndarray, eos_token_ids: frozenset[int]) -> np.ndarray:
    """Which tokens follow an end token in their sample, (N, L) bool. tokens: (N, L), NONE where there is none."""
    ends = np.isin(tokens, sorted(eos_token_ids)) & (tokens != NONE)
    return (ends.cumsum(1) - ends > 0) & (tokens != NONE)


def _score_position(
    scores: Scores, index: tuple, rows: np.ndarray, ids: np.ndarray, p: Tensor, q: Tensor | None, eos_token_ids: Tensor
) -> None:
    """Score the tokens at ``index`` (samples, position). Token j follows the prefix with distributions p[rows[j]] and q[rows[j]].

    Computed on the device of the distributions. The scores of each sample come back in one transfer, the groups in two others.
    """
    p = p / p.sum(-1, keepdim=True)
    group, tokens = torch.from_numpy(np.stack([rows, ids])).to(p.device)
    mass = p[group, tokens]
    ending = p[:, eos_token_ids.to(p.device)].sum(-1)
    found = [mass, p.cumsum(-1)[group, tokens] - mass, ending[group]]
    if q is not None:
        favored = q > p
        found += [favored[group, tokens].double(), (p * favored).sum(-1)[group]]
    parts = torch.stack(found).cpu().numpy()
    scores.mass[index], scores.below[index], scores.ending[index] = parts[:3]
    if q is not None:
        scores.favored[index], scores.favored_mass[index] = parts[3].astype(bool), parts[4]
    sizes = torch.bincount(group, minlength=len(p))
    if bool((often := sizes >= 2 * LEAST).any()):  # the others have fewer than two cells
        line, here = often.cumsum(0) - 1, often[group]
        p = p[often]
        counts = torch.zeros_like(p)
        counts.view(-1).scatter_add_(0, line[group[here]] * p.shape[-1] + tokens[here], torch.ones_like(mass[here]))
        scores.groups[index[1]].extend(group_by_prefix(counts, p))


def group_by_prefix(counts: Tensor, p: Tensor) -> Iterator[Group]:
    """Yield counts and masses by cell, for each prefix that has at least two cells.

    ``counts``, ``p``: (g, V).

    The cells of a prefix depend only on its distribution and on its number of samples n: every token with n p >= 5 is a cell, and
    all other tokens together are one more if they reach 5; otherwise they join the lightest cell.
    """
    n = counts.sum(-1)
    heavy = p * n[:, None] >= LEAST
    rows = torch.nonzero((n >= 2 * LEAST) & heavy.any(-1))[:, 0]
    if not len(rows):
        return
    heavy, p, counts = heavy[rows], p[rows], counts[rows]
    light = ~heavy
    rests = torch.stack([(p * light).sum(-1), (counts * light).sum(-1), n[rows], heavy.sum(-1).double()])
    cells = torch.stack([p[heavy], counts[heavy]])  # of the first prefix, of the second, ...
    (mass_left, seen_left, drawn, sizes), (all_masses, all_seen) = rests.cpu().numpy(), cells.cpu().numpy()
    ends = np.cumsum(sizes.astype(np.int64))[:-1]
    own_cells = zip(np.split(all_masses, ends), np.split(all_seen, ends), strict=True)
    for row, (masses, seen) in enumerate(own_cells):
        if mass_left[row] * drawn[row] >= LEAST:
            masses, seen = np.append(masses, mass_left[row]), np.append(seen, seen_left[row])
        else:
            lightest = masses.argmin()
            masses[lightest] += mass_left[row]
            seen[lightest] += seen_left[row]
        if len(masses) > 1:
            yield seen, masses / masses.sum()
