"""Proposers that break the one thing asked of them: each token with the law it was drawn from, and none dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from specviz.coins import Coins, Prefix
from specviz.models.base import LawSource
from specviz.proposers.draft import DraftModel
from specviz.verification.block import ROOT, Block, empty_block
from specviz.verification.warp import one_hot


class Misreporting(DraftModel):
    """Draws its chain from one source and hands over the laws of another.

    draft    drawn from
    claimed  reported to the rule in ``q``, prefix by prefix; also read by the sampler of many continuations
    """

    name = "misreporting"

    def __init__(self, draft: LawSource, claimed: LawSource, gamma: int):
        super().__init__(draft, gamma)
        self.claimed = claimed

    def propose(self, rows: Sequence[Prefix], coins: Coins) -> Block:
        block = super().propose(rows, coins)
        said = self.claimed.laws(rows, block)
        return replace(block, q=tuple(said[i, : len(tokens)] if tokens else None for i, tokens in enumerate(block.tokens)))


class Dropping(DraftModel):
    """Ends its chain before the first drawn token whose own q is below ``least``: that token is looked at and thrown away."""

    name = "dropping"

    def __init__(self, draft: LawSource, gamma: int, least: float):
        super().__init__(draft, gamma)
        self.least = least

    def propose(self, rows: Sequence[Prefix], coins: Coins) -> Block:
        block = super().propose(rows, coins)
        kept = [self._kept(block, index) for index in range(len(rows))]
        return Block(
            tokens=tuple(tokens[:n] for tokens, n in zip(block.tokens, kept, strict=True)),
            parents=tuple(parents[:n] for parents, n in zip(block.parents, kept, strict=True)),
            q=tuple(q[:n] if n else None for q, n in zip(block.q, kept, strict=True)),
            u_draft=tuple(u[:n] for u, n in zip(block.u_draft, kept, strict=True)),
            source=self.name,
        )

    def _kept(self, block: Block, index: int) -> int:
        for node, token in enumerate(block.tokens[index]):
            if float(block.q[index][node, token]) < self.least:
                return node
        return len(block.tokens[index])


class TopSiblings:
    """The draft's likeliest tokens side by side under the prefix, guessed without chance: each has a one-hot law."""

    name = "top"

    def __init__(self, draft: LawSource, width: int):
        self.draft, self.width = draft, width

    def propose(self, rows: Sequence[Prefix], coins: Coins) -> Block:
        laws = self.draft.laws(rows, empty_block(len(rows)))[:, 0]
        order = torch.sort(laws, dim=-1, descending=True, stable=True).indices[:, : self.width].tolist()
        tokens = tuple(tuple(ids) if row.room > 1 else () for ids, row in zip(order, rows, strict=True))
        return Block(
            tokens=tokens,
            parents=tuple((ROOT,) * len(ids) for ids in tokens),
            q=tuple(one_hot(torch.tensor(ids), self.draft.vocabulary) if ids else None for ids in tokens),
            u_draft=tuple((None,) * len(ids) for ids in tokens),
            source=self.name,
        )
