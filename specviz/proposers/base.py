"""What a proposer is asked for, and the proposer that drafts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import DraftTree, empty_tree


class Proposer(Protocol):
    """Draft tokens the next tokens of each row.

    A proposer returns each token with the distribution it was drawn from, proposes at most ``room - 1`` levels for a row (the
    rule adds one more token), and never drops, reorders or prunes a token once it is drawn.

    Whether one more token is drawn may depend on everything drawn before it, never on that token itself and never on a number
    that the rule will use. How many tokens it proposes at a node may not depend on the values drawn there unless the rule is
    proved for that: the token rule is, k-sequential selection is not. A block says that its numbers are fixed beforehand by
    ``counts_fixed``; a proposer that does not say so is refused by the rules that need it (docs/exactness.md).
    """

    name: str

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree: ...


class ChainProposer(Proposer, Protocol):
    """A proposer of chains, each token drawn from what ``draft`` says of the text before it.

    That is all a sampler needs to know in order to draw many continuations at once.
    """

    draft: LanguageModel

    def levels(self, row: Prefix) -> int:
        """How many tokens are drafted for a row: a function of its room and length alone."""
        ...


class Nothing:
    """gamma = 0: no draft tokens, so the target decodes alone, one token per pass."""

    name = "none"
    draft = None

    def levels(self, row: Prefix) -> int:
        return 0

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        return empty_tree(len(rows))
