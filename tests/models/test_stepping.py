"""A draft's fast step to one more token gives the result of a fresh pass, whatever was asked before: rejected draft tokens, another
text, another row, a tree, ids that the model lacks.

Random networks as in test_cache.py; in float32 passes of other shapes agree to 2e-5.
"""

import random

import pytest
import torch

from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama import stepping
from specviz.models.fast_llama.draft_8bit import round_weights
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, build_empty_tree, compute_node_depth, compute_node_depths
from tests.models.test_cache import V, build_network, compute_fresh_logits, continue_text, draw_block


def record_steps(model: SteppingModel) -> list[tuple[int, ...]]:
    """A list that grows by the tokens of every fast step."""
    steps, step = [], model._pass.step
    model._pass.step = lambda tokens, *rest: (steps.append(tuple(tokens)), step(tokens, *rest))[1]
    return steps


def measure_worst(network_, rounds: int) -> tuple[float, list[int]]:
    """Largest difference from fresh passes over rounds of drafting and accepting, with an occasional tree, second row or other text."""
    dice, model = random.Random(3), SteppingModel(network_, Settings())
    steps, ids, worst = record_steps(model), (5, 6, 7), 0.0
    for number in range(rounds):
        if number % 5 == 4:  # something else in between
            rows = [Prefix(ids, 0, 9)] * dice.choice((1, 2))
            block = draw_block(dice, len(rows), dice.choice(("chain", "tree")))
            model.compute_logits(rows, block)
            ids = continue_text(dice, ids, block, 0)
        draft_tokens: tuple[int, ...] = ()
        for _ in range(dice.randrange(1, 5)):
            found = model.compute_logits([Prefix(ids + draft_tokens, 0, 9)], build_empty_tree(1))
            worst = max(worst, float((compute_fresh_logits(network_, ids + draft_tokens) - found[0, 0]).abs().max()))
            draft_tokens += (dice.randrange(3),)  # few, so that nodes of a tree meet them again
        if number % 7 == 6:  # another text of the same length
            ids = (*ids[:1], (ids[1] + 1) % V, *ids[2:])
        ids = (
            ids[: dice.randrange(1, 4)]
            if len(ids) > 100
            else ids + draft_tokens[: dice.randrange(len(draft_tokens) + 1)] + (dice.randrange(V),)
        )
    return worst, [len(tokens) for tokens in steps]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("table", (True, False), ids=("table", "no table"))
def test_a_step_is_the_fresh_pass_after_any_history(table, monkeypatch):
    if not table:
        monkeypatch.setattr(stepping, "TABLE_MAX", 0)
    worst, steps = measure_worst(build_network("Llama"), 120)
    assert worst < 2e-5
    assert steps.count(1) > 150 and steps.count(2) > 10 and len(steps) == steps.count(1) + steps.count(2), (
        "the short way was taken"
    )


def test_the_distributions_of_an_8_bit_draft_are_those_of_its_other_way():
    """Its inputs are rounded to bfloat16, which may amplify the effect of another order of sums: within 2% of the spread of logits."""
    network_ = round_weights(build_network("Llama"))
    short, long = SteppingModel(network_, Settings()), CachedModel(network_, Settings())
    steps, ids = record_steps(short), (5, 6, 7)
    for token in range(10, 60):
        one, other = (model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1)) for model in (short, long))
        assert float((one - other).abs().max()) < 0.02 * float(other.std())
        ids += (token,)
    assert len(steps) == 49


def test_an_id_that_the_draft_lacks_is_read_as_its_other_way_reads_it():
    short, long = (kind(build_network("Llama"), Settings(), V + 8) for kind in (SteppingModel, CachedModel))
    steps = record_steps(short)
    for ids in ((3, 4), (3, 4, V + 5), (3, 4, V + 5, 9)):
        one, other = (model.compute_distributions([Prefix(ids, 0, 9)], build_empty_tree(1)) for model in (short, long))
        assert one.shape[-1] == V + 8 and torch.allclose(one, other, atol=1e-6)
    assert steps == [(V - 1,), (9,)]


def test_nodes_of_an_earlier_tree_are_not_taken_for_what_follows_a_step():
    network_ = build_network("Llama")
    model, ids = SteppingModel(network_, Settings()), (5, 6)
    model.compute_logits([Prefix(ids, 0, 9)], DraftTree(((7, 8),), ((-1, -1),), (None,), ((None, None),), "tree"))
    for ids in ((5, 6, 3), (5, 6, 3, 7, 9, 4)):
        assert (
            float(
                (compute_fresh_logits(network_, ids) - model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1))[0, 0])
                .abs()
                .max()
            )
            < 2e-5
        )


def test_after_a_fully_accepted_round_two_tokens_are_read_at_once_and_more_tokens_take_the_usual_pass():
    network_ = build_network("Llama")
    model, ids = SteppingModel(network_, Settings()), (5, 6)
    steps = record_steps(model)
    for fresh_tokens in ((), (7,), (8, 9), (3, 4, 5), (1,)):
        ids += fresh_tokens
        assert (
            float(
                (compute_fresh_logits(network_, ids) - model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1))[0, 0])
                .abs()
                .max()
            )
            < 2e-5
        )
    assert steps == [(7,), (8, 9), (1,)]


@pytest.mark.parametrize("kind", ("GPT2", "Mistral"))
def test_other_families_and_types_go_their_usual_way(kind):
    model = SteppingModel(build_network(kind), Settings())
    ids = (3, 4, 5)
    for token in range(6):
        found = model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1))
        assert float((compute_fresh_logits(model.model, ids) - found[0, 0]).abs().max()) < 2e-5
        ids += (token,)
    assert not hasattr(SteppingModel(build_network("Llama", torch.float64), Settings())._pass, "step")


def test_a_table_is_made_once_for_a_model():
    network_ = build_network("Llama")
    tables = [SteppingModel(network_, Settings())._pass.table for _ in range(2)]
    assert tables[0] is tables[1] and tables[0].shape[0] == V


def test_depths_and_the_mask_of_one_row_are_those_of_several():
    """A single row uses a mask made once for the shape of its tree; with several rows the mask is built from positions."""
    dice, network_ = random.Random(5), build_network("Llama")
    for _ in range(12):
        block = draw_block(dice, 1, "tree")
        assert compute_node_depths(block.parents[0]) == [
            compute_node_depth(block.parents[0], node) for node in range(len(block.parents[0]))
        ]
        twice = DraftTree(block.tokens * 2, block.parents * 2, block.q * 2, block.u_draft * 2, "random")
        ids = tuple(dice.randrange(V) for _ in range(4))
        alone, together = CachedModel(network_, Settings()), CachedModel(network_, Settings())
        for text in (ids, (*ids, 7, 8)):
            one = alone.compute_logits([Prefix(text, 0, 9)], block)
            two = together.compute_logits([Prefix(text, 0, 9), Prefix((*text, 3), 0, 9, 1)], twice)
            assert torch.allclose(one[0], two[0], atol=2e-5)
