"""One round, exactly: every block that a proposer can hand over, and every way in which a production rule judges it.

A second way beside evidence/analytic/enumeration.py, and a faster one for trees: the numbers that draw tokens are put into the
middle of each token's share of the distribution that the block reports, those of the rule on both sides of the threshold that it
recorded, and the last token is not drawn at all: the distribution that it would be drawn from is taken whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.evidence.analytic.enumeration import Components, Enumerator, enumerate_target
from specviz.models.pairs.pair import LoadedPair
from specviz.models.table import TableModel
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import ScriptedRandomness

Text = tuple[int, ...]


@dataclass(frozen=True)
class HandedBlock:
    """One row's proposals and how likely they are."""

    block: DraftTree
    weight: float

    @property
    def shape(self) -> tuple[Text, Text]:
        return self.block.tokens[0], self.block.parents[0]


def compute_tokens_per_pass(decoder: Components, prompt: Sequence[int], length: int) -> float:
    """Mean number of tokens that the first round of a run of ``length`` commits, by the enumeration of every outcome."""
    opening = build_first_prefix(prompt, Settings(max_new_tokens=length), decoder.target.context)
    return sum(len(text) * mass for text, mass in Enumerator(decoder).enumerate_round(opening).items())


def enumerate_blocks(proposer, prefix: Prefix) -> list[HandedBlock]:
    """Every block that a proposer can hand over after a prefix; weights sum to 1."""
    pending, found = [({}, 1.0)], []
    while pending:
        randomness = ScriptedRandomness([script for script, _ in pending])
        rows = [Prefix(prefix.ids, prefix.start, prefix.remaining, number, prefix.past) for number in range(len(pending))]
        block, grown = proposer.propose(rows, randomness), []
        for index, ((script, weight), missing) in enumerate(zip(pending, randomness.missing, strict=True)):
            if not missing:
                parts = (block.tokens, block.parents, block.q, block.u_draft)
                found.append(
                    HandedBlock(DraftTree(*((part[index],) for part in parts), block.source, block.counts_fixed), weight)
                )
                continue
            purpose, node = missing[0]
            assert purpose is Purpose.DRAFT
            grown += [(script | {missing[0]: u}, weight * share) for u, share in list_middles(block.q[index][node])]
        pending = grown
    return found


def list_middles(probs: Tensor) -> list[tuple[float, float]]:
    """A random number inside each token's interval, and the token's mass."""
    ends = probs.cumsum(-1)
    return [(u, mass) for u, mass in zip(((ends - probs / 2) / ends[-1]).tolist(), probs.tolist(), strict=True) if mass > 0]


def enumerate_verdicts(rule, row: Prefix, block: DraftTree, p: Tensor) -> Iterator[tuple[float, Text, Tensor]]:
    """Probability, accepted tokens and distribution of the token after them (V,), for every way in which a rule judges a block."""
    pending = [({}, 1.0)]
    while pending:
        script, weight = pending.pop()
        randomness = ScriptedRandomness([script])
        walk = rule.walk(block, 0, row, p, randomness)
        edges, path, probs = {node: check.threshold for node, check in walk.checked.items()}, walk.path, walk.probs
        missing = next((address for address in randomness.missing[0] if address[0] is Purpose.ACCEPT), None)
        if missing is None:
            yield weight, tuple(block.tokens[0][node] for node in path), probs / probs.sum()
            continue
        edge = edges[missing[1]]
        pending += [
            (script | {missing: u}, weight * share) for u, share in ((edge / 2, edge), ((1 + edge) / 2, 1 - edge)) if share > 0
        ]


def enumerate_written(target: TableModel, proposer, rule, prompt: Text, length: int) -> dict[Text, float]:
    """Distribution of ``length`` tokens: one round writes the first, target-only sampling the rest."""
    row, result = Prefix(prompt, 0, length), defaultdict(float)

    @cache
    def rests(ids: Text) -> dict[Text, float]:
        left = length + len(prompt) - len(ids)
        return enumerate_target(target, ids, left) if left else {(): 1.0}

    for one in enumerate_blocks(proposer, row):
        if one.block.widest:  # a rule that refuses the tree raises here
            rule.verify([row], one.block, target.compute_distributions([row], one.block), ScriptedRandomness([{}]))
        p = target.compute_distributions([row], one.block)[0]
        for weight, kept, probs in enumerate_verdicts(rule, row, one.block, p):
            for token, mass in enumerate(probs.tolist()):
                if mass:
                    for rest, more in rests((*prompt, *kept, token)).items():
                        result[(*kept, token, *rest)] += one.weight * weight * mass * more
    return dict(result)


def run_three_rounds(pair: LoadedPair, settings: Settings, rows: Sequence[Prefix]) -> list[list[tuple]]:
    """Three rounds of rows as one batch: for each, what was drafted below which node, what was accepted, what was written."""
    target, proposer = open_proposer(pair, settings)
    found = []
    for _ in range(3):
        rounds = step(rows, target, proposer, TokenRule(), PhiloxRandomness(6))
        found.append([([(d.token, d.parent, d.accepted) for d in one.proposals], one.committed) for one in rounds])
        rows = [advance_prefix(row, one) for row, one in zip(rows, rounds, strict=True)]
    return found
