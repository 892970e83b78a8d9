"""The protocol of a proposer, and what proposers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import DraftTree, build_empty_tree


class Proposer(Protocol):
    """Drafts the next tokens of each row.

    It returns each token with the distribution it was drawn from, at most ``remaining - 1`` levels for a row, since the rule adds
    one more token. It never drops, reorders or prunes a drawn token.

    Whether one more token is drawn may depend on everything drawn before it, but not on that token itself, nor on a random number
    that the rule will use. The number of tokens at a node may depend on the values drawn there only under a rule that is proved
    for that, such as the token rule. A tree states by ``counts_fixed`` that its numbers were fixed beforehand
    (docs/explanation/exactness.md).
    """

    name: str

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree: ...


class ChainProposer(Proposer, Protocol):
    """A proposer of chains in which each token is drawn from ``draft``'s distribution after the text before it.

    A sampler needs no more than that to draw many samples at once.
    """

    draft: LanguageModel

    def count_levels(self, row: Prefix) -> int:
        """Number of tokens drafted for a row. It depends only on the row's length and its remaining tokens."""
        ...


class HiddenStateProposer:
    """Another proposer's trees under a name of its own. Rows of one token get no draft tokens."""

    def __init__(self, name: str, tree: Proposer):
        self.name, self.tree = name, tree

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        able = [index for index, row in enumerate(rows) if len(row.ids) > 1]
        made = self.tree.propose([rows[index] for index in able], randomness) if able else build_empty_tree(0)
        place = {index: number for number, index in enumerate(able)}

        def spread(values: tuple, nothing: object) -> tuple:
            return tuple(values[place[index]] if index in place else nothing for index in range(len(rows)))

        parts = spread(made.tokens, ()), spread(made.parents, ()), spread(made.q, None), spread(made.u_draft, ())
        return DraftTree(*parts, self.name, made.counts_fixed)
