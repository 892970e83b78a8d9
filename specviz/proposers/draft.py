"""A draft model drafts a chain of gamma tokens, one after the other (Leviathan et al. 2023, Algorithm 1, first loop)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.models.base import LanguageModel
from specviz.proposers.trees.growth import count_levels
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.draw import draw_tokens


class DraftModel:
    """Draws gamma tokens from the draft's distributions; each token keeps the distribution it was drawn from.

    A row near its length cap or the draft's context gets fewer. ``name`` is that of the drafting method.
    """

    def __init__(self, draft: LanguageModel, gamma: int, name: str = "draft"):
        self.draft, self.gamma, self.name = draft, gamma, name

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        wanted = [self.count_levels(row) for row in rows]
        drawn: list[list[int]] = [[] for _ in rows]
        distributions: list[list[torch.Tensor]] = [[] for _ in rows]
        uniforms: list[list[float]] = [[] for _ in rows]
        live = list(range(len(rows)))
        for level in range(max(wanted)):
            if not (live := [index for index in live if level < wanted[index]]):
                break
            longer = [rows[i].with_draft_tokens(tuple(drawn[i])) for i in live]
            q = self.draft.compute_distributions(longer, build_empty_tree(len(live)))[:, 0]
            if not all(masses := q.sum(-1).tolist()):  # where nothing can be drafted, the chain ends before a token is drawn
                places = [place for place, mass in enumerate(masses) if mass]
                live, q = [live[place] for place in places], q[places]
                if not live:
                    break
            u = randomness.take(Purpose.DRAFT, [rows[i] for i in live], level, level)
            tokens = draw_tokens(q, torch.from_numpy(u)).tolist()
            for place, index in enumerate(live):
                drawn[index].append(tokens[place])
                distributions[index].append(q[place])
                uniforms[index].append(float(u[place]))
        return DraftTree(
            tokens=tuple(map(tuple, drawn)),
            parents=tuple(tuple(range(-1, len(row) - 1)) for row in drawn),
            q=tuple(torch.stack(row) if row else None for row in distributions),
            u_draft=tuple(map(tuple, uniforms)),
            source=self.name,
            counts_fixed=True,
        )

    def count_levels(self, row: Prefix) -> int:
        """Number of tokens drafted for a row. It depends only on the row's length and its remaining tokens."""
        return count_levels(row, self.gamma, self.draft.context)
