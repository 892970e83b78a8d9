"""Proposers that read the target's hidden states. A text of one token has none yet: the target has read nothing before it."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import DraftTree, empty_tree


class HiddenStateProposer:
    """Another proposer's trees under a name of its own. Rows of one token get no draft tokens."""

    def __init__(self, name: str, tree: Proposer):
        self.name, self.tree = name, tree

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        able = [index for index, row in enumerate(rows) if len(row.ids) > 1]
        made = self.tree.propose([rows[index] for index in able], randomness) if able else empty_tree(0)
        place = {index: number for number, index in enumerate(able)}

        def spread(values: tuple, nothing: object) -> tuple:
            return tuple(values[place[index]] if index in place else nothing for index in range(len(rows)))

        parts = spread(made.tokens, ()), spread(made.parents, ()), spread(made.q, None), spread(made.u_draft, ())
        return DraftTree(*parts, self.name, made.counts_fixed)
