"""Distributions after many short continuations of one prompt. The prompt is read once, and the continuations are read in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree, build_token_tree

KEPT = 1024  # most distributions that ``MemoizedPaths`` keeps: 32 MB at a vocabulary of 4096
NODES = 256  # nodes of one pass: cheapest per node on two cores, and 8 MB of distributions at a vocabulary of 4096
LARGEST = 2**23  # numbers in the distributions of a pass, 64 MB: 256 nodes up to a vocabulary of 32,768, 32 at one of 262,144
GPU_NODES = 8  # times as many nodes in one pass on a GPU, where the number of passes decides


def limit_rows(rows: int, vocabulary: int) -> int:
    """At most ``rows``, and as many as keep their distributions below ``LARGEST`` numbers; at least one."""
    return max(1, min(rows, LARGEST // vocabulary))


def iterate_distributions_after(
    source: LanguageModel, prompt: Sequence[int], paths: np.ndarray, nodes: int = NODES, *, stays: bool = False
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the distributions of the token after ``prompt + path``, one pass of at most ``nodes`` nodes at a time.

    At a large vocabulary a pass has fewer nodes (``limit_rows``). On a GPU a pass has ``GPU_NODES`` times as many nodes.

    ``paths`` (G, m) int are distinct rows in lexicographic order, so that neighbors share nodes of a tree under the prompt (Miao
    et al. 2024, SpecInfer, tree attention). Yields (slice of the paths, (g, V) float64), in order; on the CPU unless the
    distributions may stay on the device of the model.
    """
    if isinstance(source, MemoizedPaths):
        yield from source.iterate_distributions(prompt, paths, nodes, stays)
        return
    row, begin = Prefix(tuple(prompt), 0, paths.shape[1] + 1), 0
    if paths.shape[1] == 0:
        found = source.compute_distributions([row], build_empty_tree(1))[:, 0]
        yield slice(0, 1), found if stays else found.cpu()
        return
    size = _count_nodes(source, nodes, paths)
    while begin < len(paths):
        tokens, parents, leaves = _build_tree(paths, begin, size)
        distributions = source.compute_distributions([row], build_token_tree([tokens], [parents]))[0]
        first = leaves[0] + 1  # the leaves stand together, at the end
        found = distributions[first : first + len(leaves)]
        yield slice(begin, begin + len(leaves)), found if stays else found.cpu()
        begin += len(leaves)


def draw_continuations(
    source: LanguageModel, prompt: Sequence[int], texts: int, length: int, dice: np.random.Generator
) -> tuple[list[tuple[int, ...]], Tensor, np.ndarray]:
    """Draw texts of a model, each token from the distribution after those before it.

    Returns the M distinct prefixes of fewer than ``length`` tokens, shortest first, the distribution after each, (M, V) float64, and the
    number of texts that have it, (M,).
    """
    prefixes: list[tuple[int, ...]] = []
    found: list[Tensor] = []
    often: list[int] = []
    drawn: list[tuple[int, ...]] = [()] * texts
    for place in range(length):
        counts = Counter(drawn)
        paths = sorted(counts)
        array = np.array(paths, dtype=np.int64).reshape(len(paths), place)
        probs = torch.cat([part for _, part in iterate_distributions_after(source, prompt, array)])
        probs = probs / probs.sum(-1, keepdim=True)
        prefixes += paths
        found.append(probs)
        often += [counts[path] for path in paths]
        cumulative = dict(zip(paths, probs.cumsum(-1).numpy(), strict=True))
        drawn = [(*path, _pick_token(cumulative[path], float(dice.random()))) for path in drawn]
    return prefixes, torch.cat(found), np.array(often)


def _pick_token(cumulative: np.ndarray, u: float) -> int:
    return min(int(np.searchsorted(cumulative, u * cumulative[-1], side="right")), len(cumulative) - 1)


def _count_nodes(source: LanguageModel, nodes: int, paths: np.ndarray) -> int:
    """Most nodes of a pass over these paths, and at least those of one path."""
    size = limit_rows(nodes, source.vocabulary)
    return max(size * GPU_NODES if _is_on_gpu(source) else size, paths.shape[1])


def _is_on_gpu(source: LanguageModel) -> bool:
    device = getattr(source, "device", None)
    return device is not None and device.type == "cuda"


class MemoizedPaths:
    """A model of which several ask for the distributions after the same short continuations of one prompt: the first ones are read once.

    A distribution comes from the pass that first computed it; in another one it may differ in its last digits.
    """

    def __init__(self, source: LanguageModel):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context
        self.known: dict[tuple[int, ...], Tensor] = {}

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.source.compute_distributions(rows, tree)

    def iterate_distributions(
        self, prompt: Sequence[int], paths: np.ndarray, nodes: int, stays: bool = False
    ) -> Iterator[tuple[slice, Tensor]]:
        """As ``iterate_distributions_after``, in the same slices: two models read side by side give the same paths."""
        begin, size = 0, _count_nodes(self.source, nodes, paths)
        while begin < len(paths):
            end = begin + (len(_build_tree(paths, begin, size)[2]) if paths.shape[1] else 1)
            asked = list(map(tuple, paths[begin:end].tolist()))
            fresh = [place for place, path in enumerate(asked) if path not in self.known]
            found = {path: self.known[path] for path in asked if path in self.known}
            for where, read in (
                iterate_distributions_after(self.source, prompt, paths[begin:end][fresh], nodes, stays=stays) if fresh else ()
            ):
                found |= {asked[place]: one for place, one in zip(fresh[where], read, strict=True)}
            yield slice(begin, end), torch.stack([found[path] for path in asked])
            for path in asked[: max(0, limit_rows(KEPT, self.vocabulary) - len(self.known))]:
                self.known.setdefault(path, found[path])
            begin = end


def _build_tree(paths: np.ndarray, begin: int, nodes: int) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """As many paths from ``begin`` on as fit: tokens and parents of their common tree, and each path's last node.

    The last nodes come after all others: a pass is cheaper when nodes without followers stand together (fast_llama/passes.py).
    """
    tokens: list[int] = []
    parents: list[int] = []
    ends: list[tuple[int, int]] = []
    # of the nodes on the way; token and parent of each path's last node
    open_path: list[tuple[int, int]] = []  # (token, node) of the nodes on the way of the last path added
    for *way, end in paths[begin : begin + nodes].tolist():
        shared = 0
        while shared < len(open_path) and open_path[shared][0] == way[shared]:
            shared += 1
        if len(tokens) + len(ends) + len(way) - shared + 1 > nodes:
            break
        del open_path[shared:]
        for token in way[shared:]:
            parents.append(open_path[-1][1] if open_path else ROOT)
            open_path.append((token, len(tokens)))
            tokens.append(token)
        ends.append((end, open_path[-1][1] if open_path else ROOT))
    last, above = zip(*ends, strict=True)
    return (*tokens, *last), (*parents, *above), list(range(len(tokens), len(tokens) + len(ends)))
