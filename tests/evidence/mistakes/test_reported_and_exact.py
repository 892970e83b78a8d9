"""Two ways to verify that are reported as mistakes keep the target's distribution: enumerated on tables, to rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz.evidence.enumeration import Components, compute_text_tv, enumerate_output, enumerate_target
from specviz.evidence.mistakes.registry import open_tables
from specviz.evidence.mistakes.rules import OneHotResidualRule
from specviz.proposers.draft import DraftModel
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT
from specviz.verification.draw import draw_tokens
from specviz.verification.token import Check, TokenRule, TreeWalk
from specviz.verification.warp import build_one_hot
from tests import tables

PROMPT, LENGTH = (0,), 3


class CertainDraft(DraftModel):
    """Draws its tokens from q, and reports that each was certain."""

    def propose(self, rows, randomness):
        tree = super().propose(rows, randomness)
        q = (
            None if one is None else build_one_hot(torch.tensor(ids), one.shape[-1])
            for ids, one in zip(tree.tokens, tree.q, strict=True)
        )
        return replace(tree, q=tuple(q))


class SameTokenRule(TokenRule):
    """Accepts a draft token that equals the target's own draw, which is written otherwise."""

    def walk(self, tree, index, row, p, randomness):
        return SameTokenWalk(self, tree, index, row, p, randomness)


class SameTokenWalk(TreeWalk):
    def find_accepted(self, parent, siblings):
        (node,) = siblings
        u = self.take_uniform(node)
        drawn = int(draw_tokens(self.p[parent + 1], torch.tensor(u, dtype=torch.float64)))
        is_same = drawn == self.tokens[node]
        self.checked[node] = Check(self.p_token[node], u, 1.0, is_same)
        if is_same:
            return self.accept(node)
        self.rejected, self.probs = node, build_one_hot(torch.tensor(drawn), self.p.shape[-1])
        return ROOT


def compute_tv(proposer: type[DraftModel], rule: TokenRule, seed: int) -> float:
    target, draft = open_tables(*tables.pair("random", seed, 3, 12))(Settings())
    written = enumerate_output(Components(target, proposer(draft, 2), rule), PROMPT, LENGTH)
    return compute_text_tv(written, enumerate_target(target, PROMPT, LENGTH))


@pytest.mark.parametrize("seed", range(3))
def test_accepting_what_equals_the_targets_own_draw_is_exact(seed):
    assert compute_tv(DraftModel, SameTokenRule(), seed) < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_q_of_1_for_a_token_that_was_drawn_is_exact(seed):
    assert compute_tv(CertainDraft, TokenRule(), seed) < 1e-12


def test_its_residual_beside_the_acceptance_of_a_drawn_token_is_not():
    assert max(compute_tv(DraftModel, OneHotResidualRule(), seed) for seed in range(3)) > 1e-3
