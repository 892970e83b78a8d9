"""What a server wrote after each prefix, beside what target and draft say there: the prefixes that most samples share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.samples import NONE, Samples, find_distinct_rows
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after
from specviz.progress import ProgressCallback, ignore_progress, scale_progress

MAX_SAMPLES = 20_000  # samples that are read
MIN_SAMPLES_PER_PREFIX = 10  # samples that must share a prefix
MAX_PREFIXES = 512  # most prefixes
MAX_REJECTED = 1024  # most pairs of a prefix and a rejected token that are read
MAX_ENTRIES = 2**24  # most entries of the target's distributions: 128 MB, so a large vocabulary gets fewer prefixes


@dataclass(frozen=True)
class PrefixTable:
    """G prefixes, sorted by length, and the E different tokens that the samples have after them.

    Attributes:
        n: Samples read, the first ones.
        prefixes: (G) ids after the prompt; the empty one first, and with each prefix its own prefixes.
        parent: (G,) index of the prefix without its last token, -1 for the empty one.
        after: (G,) index of the edge that leads to the prefix, -1 for the empty one.
        edge: (E,) index of each edge's prefix.
        token: (E,) its token.
        count: (E,) how many samples have it.
        p, q: (G, V) target's and draft's distribution after each prefix.
        before: (1, V) each: both distributions after the prompt without its last token.
    """

    n: int
    prefixes: tuple[tuple[int, ...], ...]
    parent: np.ndarray
    after: np.ndarray
    edge: np.ndarray
    token: np.ndarray
    count: np.ndarray
    p: Tensor
    q: Tensor
    before: tuple[Tensor, Tensor]

    @property
    def prefix_lengths(self) -> np.ndarray:
        """(G,) length of each prefix."""
        return np.array([len(prefix) for prefix in self.prefixes])

    @property
    def greedy(self) -> list[int]:
        """(G) the draft's likeliest token after each prefix."""
        return self.q.argmax(-1).tolist()

    @property
    def length(self) -> int:
        """Tokens of a sample that can be looked at."""
        return len(self.prefixes[-1]) + 1

    @cached_property
    def levels(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """For each length of a prefix: the edges after such prefixes, the prefixes one longer, and the place of their edges among these."""
        place, found = self.prefix_lengths, []
        for here in range(self.length):
            edges, child = np.flatnonzero(place[self.edge] == here), np.flatnonzero(place == here + 1)
            found.append((edges, child, np.searchsorted(edges, self.after[child])))
        return tuple(found)

    def shift_rows(self, of_draft: bool) -> Tensor:
        """(G, V): after each prefix what belongs one token earlier."""
        rows = torch.cat((self.q if of_draft else self.p, self.before[of_draft]))
        return rows[torch.from_numpy(self.parent)]  # -1 is the last row

    def gather(self, probs: Tensor) -> np.ndarray:
        """(E,): the mass of each edge's token in (G, V)."""
        return probs[torch.from_numpy(self.edge), torch.from_numpy(self.token)].numpy()

    def count_tokens(self, prefix: int) -> Tensor:
        """(V,) float64: how often each token follows that prefix."""
        mine = self.edge == prefix
        return torch.zeros_like(self.p[0]).index_put_(
            (torch.from_numpy(self.token[mine]),), torch.from_numpy(self.count[mine]).double()
        )


def build_prefix_table(
    target: LanguageModel,
    draft: LanguageModel,
    prompt: Sequence[int],
    samples: Samples,
    on_progress: ProgressCallback = ignore_progress,
) -> PrefixTable:
    """The prefixes that at least MIN_SAMPLES_PER_PREFIX of the first MAX_SAMPLES samples share, the most frequent ones first. One pass of each model per group."""
    tokens = samples.tokens[:MAX_SAMPLES]
    kept: list[tuple[int, tuple[int, ...]]] = []
    for place in range(tokens.shape[1]):
        rows, which = find_distinct_rows(tokens[tokens[:, place] != NONE][:, :place])
        often = np.bincount(which, minlength=len(rows))
        kept += [
            (int(count), tuple(row)) for row, count in zip(rows.tolist(), often, strict=True) if count >= MIN_SAMPLES_PER_PREFIX
        ]
    most = max(1, min(MAX_PREFIXES, MAX_ENTRIES // target.vocabulary))
    kept = sorted(kept, key=lambda one: (-one[0], len(one[1]), one[1]))[:most]
    prefixes = tuple(sorted((prefix for _, prefix in kept), key=lambda prefix: (len(prefix), prefix))) or ((),)
    number = {prefix: index for index, prefix in enumerate(prefixes)}
    edge, token, count = _list_edges(tokens, number)
    leads = {(*prefixes[g], int(x)): e for e, (g, x) in enumerate(zip(edge.tolist(), token.tolist(), strict=True))}
    p = compute_distributions(target, prompt, prefixes, scale_progress(on_progress, 0.0, 0.5))
    q = compute_distributions(draft, prompt, prefixes, scale_progress(on_progress, 0.5, 1.0))
    shorter = prompt[:-1] if len(prompt) > 1 else prompt
    before = tuple(compute_distributions(model, shorter, ((),)) for model in (target, draft))
    return PrefixTable(
        len(tokens),
        prefixes,
        np.array([number.get(prefix[:-1], -1) if prefix else -1 for prefix in prefixes]),
        np.array([leads[prefix] if prefix else -1 for prefix in prefixes]),
        edge,
        token,
        count,
        p,
        q,
        (before[0], before[1]),
    )


def _list_edges(tokens: np.ndarray, number: dict[tuple[int, ...], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prefix, token and count of every continuation of the prefixes by one token."""
    found: list[tuple[int, int, int]] = []
    for place in range(max(map(len, number)) + 1):
        rows, which = find_distinct_rows(tokens[tokens[:, place] != NONE][:, : place + 1])
        times = np.bincount(which, minlength=len(rows)).tolist()
        for row, count in zip(rows.tolist(), times, strict=True):
            if (begins := tuple(row[:-1])) in number:
                found.append((number[begins], row[-1], count))
    edge, token, count = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return edge, token, count


def compute_after_rejected(target: LanguageModel, prompt: Sequence[int], table: PrefixTable) -> tuple[Tensor, Tensor]:
    """(G, V) each: the target's distribution after each prefix and a draft token that was rejected there.

    The first is the mean over rejected tokens of a draft that draws, by their probability max(0, q - p): of the MAX_REJECTED pairs of
    prefix and token that the samples meet most often. A prefix without such a pair keeps its own distribution. The second is of a draft that
    takes its likeliest token.
    """
    likeliest = _compute_at(
        target, prompt, [(*prefix, token) for prefix, token in zip(table.prefixes, table.greedy, strict=True)]
    )
    rejected = (table.q - table.p).clamp(min=0.0)
    samples = torch.from_numpy(np.bincount(table.edge, table.count, minlength=len(table.prefixes)))
    often = (rejected * samples[:, None]).flatten()
    most = min(MAX_REJECTED, max(1, MAX_ENTRIES // table.p.shape[-1]), int((often > 0.0).sum()))
    row, token = torch.unravel_index(often.topk(most).indices, rejected.shape)
    if not most:
        return table.p, likeliest
    texts = [(*table.prefixes[g], x) for g, x in zip(row.tolist(), token.tolist(), strict=True)]
    weight = rejected[row, token]
    total = torch.zeros(len(table.prefixes), dtype=weight.dtype).index_add_(0, row, weight)
    summed = torch.zeros_like(table.p).index_add_(0, row, weight[:, None] * _compute_at(target, prompt, texts))
    return torch.where(total[:, None] > 0.0, summed / total.clamp(min=1e-300)[:, None], table.p), likeliest


def compute_kept_rejected(target: LanguageModel, prompt: Sequence[int], table: PrefixTable) -> Tensor:
    """(G, V): the target's distribution after each prefix with the draft's likeliest token in front of its last one.

    The empty prefix keeps its own.
    """
    kept = [
        (*prefix[:-1], table.greedy[parent], prefix[-1]) if prefix else ()
        for prefix, parent in zip(table.prefixes, table.parent.tolist(), strict=True)
    ]
    return _compute_at(target, prompt, kept)


def _compute_at(model: LanguageModel, prompt: Sequence[int], texts: Sequence[tuple[int, ...]]) -> Tensor:
    """(N, V) float64: a model's distributions after prompt and text, in any order and with repeats."""
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    place = {text: number for number, text in enumerate(distinct)}
    return compute_distributions(model, prompt, distinct)[torch.tensor([place[text] for text in texts])]


def compute_distributions(
    model: LanguageModel,
    prompt: Sequence[int],
    prefixes: Sequence[tuple[int, ...]],
    on_progress: ProgressCallback = ignore_progress,
) -> Tensor:
    """(G, V) float64: a model's distributions after prompt and prefix, rescaled. The prefixes are sorted by length, then by ids."""
    found = []
    for place in range(len(prefixes[-1]) + 1):
        paths = [prefix for prefix in prefixes if len(prefix) == place]
        if not paths:
            continue
        for _, probs in iterate_distributions_after(model, prompt, np.array(paths, dtype=np.int64).reshape(len(paths), place)):
            found.append(probs / probs.sum(-1, keepdim=True))
            on_progress(sum(map(len, found)) / len(prefixes))
    return torch.cat(found)
