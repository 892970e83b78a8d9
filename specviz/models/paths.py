"""Laws after many short continuations of one prompt, a group at a time: the prompt is read once, its continuations share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from specviz.models.base import LawSource
from specviz.randomness import Prefix
from specviz.verification.draft_tree import ROOT, Block

NODES = 256  # nodes of one pass: on two cores the cheapest per node, and 8 MB of laws at a vocabulary of 4096


def laws_after(source: LawSource, prompt: Sequence[int], paths: np.ndarray, nodes: int = NODES) -> Iterator[tuple[slice, Tensor]]:
    """The laws of the token after ``prompt + path``, streamed.

    paths    (G, m) int, different rows in lexicographic order: neighbours share their beginnings, and so their nodes
    nodes    most nodes of a pass, ancestors included; at least m
    yields   (which paths, (g, V) float64 on the CPU), in order. The paths of one pass are a tree under the prompt (Miao et
             al. 2024, SpecInfer, tree attention); no more than one pass's laws are held. Draws and counts are numpy's, so
             this is where the distributions leave the model's device.
    """
    row, begin = Prefix(tuple(prompt), 0, paths.shape[1] + 1), 0
    if paths.shape[1] == 0:
        nothing = Block(((),), ((),), (None,), ((),), "paths")
        yield slice(0, 1), source.laws([row], nothing)[:, 0].cpu()
        return
    while begin < len(paths):
        tokens, parents, leaves = _tree(paths, begin, nodes)
        block = Block((tokens,), (parents,), (None,), ((None,) * len(tokens),), "paths")
        laws = source.laws([row], block)[0]
        yield slice(begin, begin + len(leaves)), laws[[leaf + 1 for leaf in leaves]].cpu()
        begin += len(leaves)


def _tree(paths: np.ndarray, begin: int, nodes: int) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """As many paths from ``begin`` on as fit: tokens and parents of their common tree, and each path's last node."""
    tokens, parents, leaves = [], [], []
    open_path: list[tuple[int, int]] = []  # (token, node) of the path added last
    for path in paths[begin : begin + nodes].tolist():
        shared = 0
        while shared < len(open_path) and open_path[shared][0] == path[shared]:
            shared += 1
        if len(tokens) + len(path) - shared > nodes:
            break
        del open_path[shared:]
        for token in path[shared:]:
            parents.append(open_path[-1][1] if open_path else ROOT)
            open_path.append((token, len(tokens)))
            tokens.append(token)
        leaves.append(open_path[-1][1])
    return tuple(tokens), tuple(parents), leaves
