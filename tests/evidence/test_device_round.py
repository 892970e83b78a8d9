"""The device round decides as the reference does: in every box of random numbers, in the matrix, and along a text with real networks."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from specviz.decoding.device.round import DeviceSteps
from specviz.decoding.engine import advance_prefix
from specviz.decoding.method_checks import build_rule
from specviz.evidence.analytic.enumeration import BoxCutter, BoxRandomness, Components
from specviz.evidence.decoder import MEMOIZED
from specviz.evidence.matrix import open_session
from specviz.models.memoized import MemoizedPair
from specviz.models.uncached import UncachedModel, build_draft_reference
from specviz.proposers.draft import DraftModel
from specviz.proposers.request import open_proposer
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Purpose
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.block import BlockRule
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule
from tests.decoding.test_device_round import build_bigram_model

TOLERANCE = 5e-6  # total variation that float32 rounding explains


def summarize_round(round_: Round) -> tuple:
    return (
        tuple((one.token, one.parent, one.accepted) for one in round_.proposals),
        round_.accepted_path,
        round_.ending.kind,
        round_.committed,
    )


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (lambda draft: DraftModel(draft, 2), TokenRule()),
        (lambda draft: DraftModel(draft, 2), BlockRule()),
        (lambda draft: FixedTree(draft, (2, 1), "top"), TokenRule()),
        (lambda draft: FixedTree(draft, (2,), "distinct"), TokenRule()),
    ],
    ids=["chain, token", "chain, block", "tree, top", "tree, distinct"],
)
def test_in_every_box_of_random_numbers_it_has_the_references_outcome(made, rule) -> None:
    """The boxes fill the cube, so equal outcomes in each are equal distributions, and the reference's is shown to be the target's."""
    target, draft = build_bigram_model(3, 3, 0.0), build_bigram_model(4, 3, 0.0)
    for remaining in (1, 2, 4):
        row = Prefix((2, 1), 0, remaining)
        boxes, missed = BoxCutter(Components(target, made(draft), rule)).cut_round(row, {})
        assert missed < 1e-9
        numbers = BoxRandomness([box for _, box in boxes], {}, random.Random(5))
        device = DeviceSteps(target, made(draft), rule, numbers, rows=len(boxes), columns=8)
        found = device([replace(row, draw=draw) for draw in range(len(boxes))])
        assert [summarize_round(one) for one in found] == [summarize_round(round_) for round_, _ in boxes]
        assert len(boxes) >= 3
        assert device.by_reference == 0


LINES = {
    "draft, token": {},
    "draft, block": {"rule": "block"},
    "tree, token": {"proposer": "tree", "tree": "2-1"},
    "top tree, token": {"proposer": "tree", "tree": "2-1", "siblings": "top"},
}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "changes", [{}, pytest.param({"temperature": 0.7, "top_p": 0.9}, marks=pytest.mark.slow), {"temperature": 0.0}]
)
def test_a_cell_of_the_matrix_has_the_same_samples(pair, line: str, changes: dict) -> None:
    """So its verdict is the same; ``matrix --engine device`` tests them against the distribution."""
    settings = Settings(prompt="Once upon a time", gamma=2, max_new_tokens=4, **LINES[line], **changes)
    ids = pair.encode(settings.prompt)
    remembering = MemoizedPair(pair, longest=len(ids) + 1)
    found = []
    for engine in ("reference", "device"):
        asked = replace(settings, engine=engine)
        session = open_session(remembering, asked, ids, open_proposer(remembering, asked)[1], build_rule(asked), 300)
        found.append(session.draw(MEMOIZED).tokens)
    assert (found[0] == found[1]).all()


class RecordingModel:
    """A model with a cache of fixed size that keeps what it returned."""

    def __init__(self, model):
        self.model, self.kept = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def compute_probs(self, tokens, begin, fed):
        found = self.model.compute_probs(tokens, begin, fed)
        self.kept.append(found[0].clone())
        return found


class CuttingRandomness:
    """Random numbers that are 0 or nearly 1 where a token is tested, so that chains are cut at every length."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.known: dict = {}

    def take(self, purpose, rows, node, depth):
        keys = [(purpose, row.start, node) for row in rows]
        for key in keys:
            if key not in self.known:
                number = self.rng.random()
                self.known[key] = number if purpose is not Purpose.ACCEPT else 0.0 if number < 0.5 else 1.0 - 2.0**-53
        return np.array([self.known[key] for key in keys])


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("changes", [{}, {"temperature": 0.7}])
def test_along_a_text_the_rule_gets_the_distributions_of_uncached_passes_and_decides_as_the_reference(
    pair, rule, changes
) -> None:
    """The device's caches give the rule the distributions of the library's own forward pass over the same text; its decisions are the reference's."""
    settings = Settings(prompt="Once upon a time", rule=rule, gamma=3, max_new_tokens=40, **changes)
    target, proposer = open_proposer(pair, settings)
    numbers, chosen = CuttingRandomness(3), build_rule(settings)
    device = DeviceSteps(target, proposer, chosen, numbers, rows=1, columns=64)
    device.kernel.target, device.kernel.draft = RecordingModel(device.kernel.target), RecordingModel(device.kernel.draft)
    fresh, drafting = UncachedModel(pair.target, settings, pair.vocabulary), build_draft_reference(pair, settings)
    row, lengths = Prefix(tuple(pair.encode(settings.prompt)), 0, settings.max_new_tokens), set()
    while row.remaining > settings.gamma:
        device.kernel.target.kept, device.kernel.draft.kept = [], []
        (found,) = device([row])
        tokens = tuple(one.token for one in found.proposals)
        p, first, later = device.kernel.target.kept[0], device.kernel.draft.kept[0][:, -1:], device.kernel.draft.kept[1:]
        q = torch.cat([first, *later], 1)
        text = row.ids + tokens
        for given, exact in (
            (p, fresh.compute_distributions(text, len(tokens) + 1)[0]),
            (q, drafting.compute_distributions(text[:-1], len(tokens))[0]),
        ):
            assert float((given[0] - exact).abs().sum(-1).max()) / 2 < TOLERANCE
        tree = DraftTree((tokens,), (tuple(range(-1, len(tokens) - 1)),), (q[0],), ((None,) * len(tokens),), proposer.name)
        (expected,) = chosen.verify([row], tree, p, numbers)
        assert (expected.accepted_path, expected.ending) == (found.accepted_path, found.ending)
        lengths.add(len(found.accepted_path))
        row = advance_prefix(row, found)
    assert lengths == {0, 1, 2, 3}
