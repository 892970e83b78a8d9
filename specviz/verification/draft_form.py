"""What a proposer guarantees of its draft trees, known before any model is read. No torch here: the registries use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftForm:
    """What a proposer guarantees of every tree that it drafts under given settings. It is known before any model is read.

    Attributes:
        branches: Whether a node may have two children; if not, the tree is a chain and the other guarantees hold of themselves.
        counts_fixed: Whether the number of children of every node is fixed before the first of them is drawn.
        shares_q: Whether all children of a node are drawn from one and the same distribution.
        fixed_length: Whether the tree is a chain whose length depends only on the length of the row and its remaining tokens,
            each token drawn from a language model's distribution after the text before it. Many samples of one prompt can then be
            drawn at once, from shared distributions (proposers.base.ChainProposer).
    """

    branches: bool = False
    counts_fixed: bool = True
    shares_q: bool = True
    fixed_length: bool = False
