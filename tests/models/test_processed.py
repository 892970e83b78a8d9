"""A logits processor changes the served distribution. Given the prefix of each node, speculative decoding keeps the changed one exactly.

Enumerated on tables: the distribution of whole texts, over every outcome of the production step. A penalty computed once per round,
and a ban that applies only to drawn tokens, give another distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from transformers import NoBadWordsLogitsProcessor, RepetitionPenaltyLogitsProcessor, SuppressTokensLogitsProcessor

from specviz.evidence.analytic.enumeration import Components, compute_text_tv, enumerate_output, enumerate_target
from specviz.evidence.serving_setups.targets import OncePerRoundModel, ProcessedDrawsRule, ban_tokens
from specviz.models.cache.decoder import CachedModel
from specviz.models.processed import ProcessedModel
from specviz.models.table import TableModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule
from specviz.verification.warp import warp
from tests.helpers.tiny_pairs import build_tiny_model
from tests.helpers.toy_tables import draw_distribution
from tests.helpers.toy_tables import model as remembered

V = 3
PROCESSORS = {
    "penalty": RepetitionPenaltyLogitsProcessor(1.6),
    "ban": SuppressTokensLogitsProcessor([2]),
    "two words": NoBadWordsLogitsProcessor([[0, 1], [2, 2]], eos_token_id=9),
}


@dataclass
class Logits:
    """A table in the form of a network: logarithms of its distributions, to be processed and warped."""

    table: TableModel
    settings: Settings = field(default_factory=Settings)
    vocabulary: int = V
    context: int | None = None

    def compute_processed_logits(self, rows, block):
        return self.table.compute_distributions(rows, block).log()

    def warp_logits(self, logits):
        return warp(logits, self.settings)


def build_tables(seed: int):
    """Target as logits and a draft, all masses above 0."""
    p = TableModel(lambda ids: [float(x) for x in _list_even(("p", seed, ids))], V)
    return Logits(p), remembered(lambda ids: draw_distribution(("q", seed, ids), V, 7), V)


def _list_even(key) -> list[float]:
    probs = draw_distribution(key, V, 7)
    return [(float(x) + 0.1) / 1.3 for x in probs]


def measure_distance(kind, processor, rule, seed: int, length: int = 2) -> float:
    """Total variation over texts between what the decoder writes and the processed distribution."""
    logits, draft = build_tables(seed)
    meant = enumerate_target(ProcessedModel(logits, processor), (0,), length)
    return compute_text_tv(
        enumerate_output(Components(kind(logits, processor) if kind else logits.table, DraftModel(draft, 2), rule), (0,), length),
        meant,
    )


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("seed", range(2))
def test_speculation_writes_the_processed_distribution(name, seed):
    assert measure_distance(ProcessedModel, PROCESSORS[name], TokenRule(), seed) < 1e-12


@pytest.mark.parametrize("seed", range(2))
def test_a_penalty_set_once_a_round_writes_another_distribution(seed):
    """It sees only the committed text, so repetitions within the draft are not penalized. Without memory the mistake has no effect."""
    assert measure_distance(OncePerRoundModel, PROCESSORS["penalty"], TokenRule(), seed) > 1e-3
    assert measure_distance(OncePerRoundModel, PROCESSORS["ban"], TokenRule(), seed) < 1e-12


def test_a_ban_on_drawn_tokens_only_lets_the_draft_tokens_through():
    logits, draft = build_tables(0)
    rule = ProcessedDrawsRule(ban_tokens([2]))
    found = enumerate_output(Components(logits.table, DraftModel(draft, 2), rule), (0,), 2)
    assert sum(mass for text, mass in found.items() if 2 in text) > 0.05
    right = enumerate_output(Components(ProcessedModel(logits, PROCESSORS["ban"]), DraftModel(draft, 2), TokenRule()), (0,), 2)
    assert not any(2 in text for text in right)


def test_a_penalized_distribution_is_the_same_in_trees_batches_and_alone():
    """Every distribution of a pass, compared with the processor on the library's own logits of that text, without a cache."""
    network, processor = build_tiny_model(260, seed=1), RepetitionPenaltyLogitsProcessor(1.4)
    cached = ProcessedModel(CachedModel(network, Settings()), processor)
    texts = [(1, 2, 3, 4), (9, 9, 8)]
    block = DraftTree(((5, 1, 5, 7), (9, 3)), ((-1, 0, -1, 1), (-1, 0)), (None, None), ((None,) * 4, (None,) * 2), "test")
    for _ in range(2):  # the second time from the cache
        distributions = cached.compute_distributions([Prefix(ids, 0, 9, n) for n, ids in enumerate(texts)], block)
        for row, node, path in (
            (0, 0, ()),
            (0, 1, (5,)),
            (0, 2, (5, 1)),
            (0, 3, (5,)),
            (0, 4, (5, 1, 7)),
            (1, 0, ()),
            (1, 2, (9, 3)),
        ):
            ids = torch.tensor([[*texts[row], *path]])
            with torch.inference_mode():
                wanted = processor(ids, network(input_ids=ids).logits[:, -1])[0]
            assert (distributions[row, node] - torch.softmax(wanted.double(), -1)).abs().max() < 2e-5
        texts = [(*texts[0], 5, 1, 7), (*texts[1], 9)]
    assert (
        distributions[0, 0]
        - warp(cached.source.compute_logits([Prefix(texts[0], 0, 9), Prefix(texts[1], 0, 9, 1)], block)[0, 0], Settings())
    ).abs().sum() > 1e-3


def test_ids_that_only_the_draft_knows_are_no_text_of_the_targets():
    network = build_tiny_model(40, seed=1)
    cached = ProcessedModel(CachedModel(network, Settings(), 50), RepetitionPenaltyLogitsProcessor(1.4))
    probs = cached.compute_distributions([Prefix((1, 2, 45), 0, 9)], DraftTree(((48,),), ((-1,),), (None,), ((None,),), "test"))
    assert (
        probs.shape == (1, 2, 50)
        and float(probs[..., 40:].sum()) == 0.0
        and probs.sum(-1).flatten().tolist() == pytest.approx([1, 1])
    )
