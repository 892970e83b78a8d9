"""A target split in two has two caches, and 'the verification reuses what the draft stage computed' (Elhoushi et al. 2024, LayerSkip).
After any history of accepted and rejected draft tokens, every layer below and above the exit holds what a fresh pass gives it.

Random networks of four layers as in test_cache.py; in float32 passes of other shapes agree to 2e-5, in float64 to 1e-10.
"""

import random
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache, Gemma3TextConfig, LlamaConfig

from specviz.decoding.engine import step
from specviz.models.attachments.exits import build_bare_exit
from specviz.models.layered import LayeredModel, LowerLayers
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.token import TokenRule
from specviz.verification.warp import warp
from tests.decoding.test_attack_caches import build_network, compute_fresh_distribution
from tests.decoding.test_attack_distributions import enumerate_texts, measure_distance
from tests.helpers.toy_tables import World
from tests.models.test_cache import GROUPED, WINDOW, V, continue_text, draw_block, find_path
from tests.oracle.token_rule import target_distribution

LAYERS, PLAIN = 4, Settings()
GEMMA3 = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
}


def build_deep_network(dtype: torch.dtype = torch.float32, family: str = "llama"):
    torch.manual_seed(0)
    own = {**GROUPED, "num_hidden_layers": LAYERS}
    config = LlamaConfig(**own) if family == "llama" else Gemma3TextConfig(**own, **GEMMA3)
    network_ = AutoModelForCausalLM.from_config(config).to(dtype).eval()
    for weight in network_.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.2)
    return network_


def build_layered(network_, layer: int, settings: Settings = PLAIN) -> LayeredModel:
    return LayeredModel(network_, settings, None, build_bare_exit(network_, layer))


def build_chain(*tokens: int) -> DraftTree:
    return DraftTree((tokens,), (tuple(range(-1, len(tokens) - 1)),), (None,), ((None,) * len(tokens),), "x")


@torch.inference_mode()
def run_fresh_pass(network_, ids):
    """(logits, states after each layer, cache) of one text from the library, without a previous cache."""
    out = network_(
        input_ids=torch.tensor([ids]), past_key_values=DynamicCache(), position_ids=torch.arange(len(ids))[None],
        output_hidden_states=True,
    )  # fmt: skip
    return out.logits[0], [state[0] for state in out.hidden_states], out.past_key_values


def list_held(model: LayeredModel, row: int) -> list[tuple[tuple[int, ...], list[tuple[torch.Tensor, torch.Tensor]]]]:
    """For the part below the exit and the part above: the text that it holds, and the keys and values of each of its layers."""
    found = []
    for part, count in ((model.lower, model.lower.exit.layer), (model, LAYERS - model.lower.exit.layer)):
        one = part._rows[row]
        layers = part._cache.layers[:count]
        assert len(layers) == count
        found.append(
            (tuple(one.tokens), [(layer.keys[row][:, one.columns], layer.values[row][:, one.columns]) for layer in layers])
        )
    return found


def measure_layers_distance(network_, model: LayeredModel, rows: int) -> float:
    """Largest difference of any key or value of any layer, in each row's own columns, from a fresh pass over that row's text."""
    worst = 0.0
    for row in range(rows):
        below = 0
        for text, layers in list_held(model, row):
            fresh = run_fresh_pass(network_, text)[2].layers[below : below + len(layers)]
            for (keys, values), wanted in zip(layers, fresh, strict=True):
                for one, other in ((keys, wanted.keys[0]), (values, wanted.values[0])):
                    apart_ = float((one - other).abs().max())
                    worst = max(worst, apart_ if apart_ == apart_ else float("inf"))
            below += len(layers)
        assert below == LAYERS
    return worst


def compare_histories(network_, layer: int, shape: str, rows: int, rounds: int) -> tuple[float, float]:
    """Largest difference of logits, and of any layer's keys and values, from fresh passes over ``rounds`` random rounds.

    In each round the exit drafts a chain, or is asked about a tree, or is not used. Then the target is asked about the same or about
    something else. A random part is accepted, and at times the text goes back.
    """
    dice, model = random.Random(f"{layer} {shape} {rows}"), build_layered(network_, layer)
    words = [tuple(dice.randrange(V) for _ in range(dice.randrange(1, 6))) for _ in range(rows)]
    logits_apart = keys_apart = 0.0
    for _ in range(rounds):
        prefixes = [Prefix(ids, 0, 9, draw) for draw, ids in enumerate(words)]
        block = draw_block(dice, rows, shape)
        asked = []
        if shape == "chain":  # as a proposer asks: one more token each time, by those rows that have one
            for length in range(dice.choice((0, block.widest))):
                live = [row for row, tokens in enumerate(block.tokens) if len(tokens) >= length]
                longer = [replace(prefixes[row], ids=words[row] + block.tokens[row][:length]) for row in live]
                draft_tokens = model.lower.compute_logits(longer, build_empty_tree(len(longer)))
                asked += [(row.ids, logits[0], True) for row, logits in zip(longer, draft_tokens, strict=True)]
        elif dice.random() < 0.5:
            asked += list_places(model.lower.compute_logits(prefixes, block), words, block, True)
        if dice.random() < 0.2:
            block = draw_block(dice, rows, "tree")
        asked += list_places(model.compute_logits(prefixes, block), words, block, False)
        for ids, logits, early in dice.sample(asked, min(2, len(asked))):
            logits_apart = max(logits_apart, float((logits - compute_wanted(network_, model, ids, early)).abs().max()))
        keys_apart = max(keys_apart, measure_layers_distance(network_, model, rows))
        words = [continue_text(dice, ids, block, row) for row, ids in enumerate(words)]
    return logits_apart, keys_apart


def list_places(logits, words, block: DraftTree, early: bool) -> list[tuple]:
    return [
        (ids + tuple(block.tokens[row][i] for i in find_path(block.parents[row], node)), logits[row, node + 1], early)
        for row, ids in enumerate(words)
        for node in range(-1, len(block.tokens[row]))
    ]


def compute_wanted(network_, model: LayeredModel, ids, early: bool):
    logits, states, _ = run_fresh_pass(network_, ids)
    return model.lower.exit.compute_logits(states[model.lower.exit.layer][None, -1:])[0, 0] if early else logits[-1]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("rounds", [10, pytest.param(25, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("layer", "shape", "rows"), ((1, "chain", 1), (2, "chain", 3), (3, "tree", 1), (1, "tree", 3)))
@pytest.mark.parametrize("family", ("llama", "gemma3"))
def test_every_layer_holds_what_a_fresh_pass_gives_it_after_random_histories(family, layer, shape, rows, rounds):
    """Gemma 3 has windows shorter than the texts in some layers, and another rotary base in these."""
    assert max(compare_histories(build_deep_network(family=family), layer, shape, rows, rounds)) < 1e-4
    exact = build_deep_network(torch.float64, family)
    assert max(compare_histories(exact, layer, shape, rows, rounds // 2)) < 1e-10, "so the rest is rounding"


class KeepsRejected(DynamicCache):
    """A mistake: after a rejection the keys and the state of the first rejected draft token stay, in place of the token before it."""

    def crop(self, tokens_to_remove: int) -> None:
        refused = self.layers[0].keys.shape[2] + tokens_to_remove
        for layer in self.layers:
            layer.keys, layer.values = (
                torch.cat((held[..., : refused - 1, :], held[..., refused : refused + 1, :]), -2)
                for held in (layer.keys, layer.values)
            )


def test_keys_of_rejected_draft_tokens_left_below_the_exit_are_seen(monkeypatch):
    """Seen in the layers' own keys, and in the target's distribution, which reads the states of the draft tokens."""

    def measure_distances() -> tuple[float, float]:
        model, network_ = build_layered(build_deep_network(), 2), build_deep_network()
        for ids in ((1, 2, 3), (1, 2, 3, 8)):  # 5, and 6 after it, are rejected
            for count in range(3):
                model.lower.compute_logits([Prefix(ids + (5, 6)[:count], 0, 9)], build_empty_tree(1))
            logits = model.compute_logits([Prefix(ids, 0, 9)], build_chain(5, 6))[0, 0]
        probs, fresh = warp(logits, PLAIN), warp(run_fresh_pass(network_, ids)[0][-1], PLAIN)
        return measure_layers_distance(network_, model, 1), float((probs - fresh).abs().sum()) / 2

    assert max(measure_distances()) < 1e-4
    monkeypatch.setattr(LowerLayers, "_create_cache", lambda self: KeepsRejected())
    assert min(measure_distances()) > 1e-2


def test_the_pass_that_verifies_reads_one_draft_token_below_the_exit_and_all_of_them_above(monkeypatch):
    """Of three draft tokens the layers below have already read the first two. None is read there twice, in any round."""
    model, fed = build_layered(build_deep_network(), 1), {"below": [], "above": []}
    for name, part in (("below", model.lower), ("above", model)):
        go = part._pass
        monkeypatch.setattr(
            part, "_pass", lambda given, *rest, go=go, name=name: fed[name].append(given.shape[1]) or go(given, *rest)
        )
    for ids in (
        (1, 2, 3),
        (1, 2, 3, 5, 6, 7, 9),
        (1, 2, 3, 5, 6, 7, 9, 5, 8),
    ):  # all accepted, with a bonus token; one accepted, one replaced
        for count in range(3):
            model.lower.compute_logits([Prefix(ids + (5, 6, 7)[:count], 0, 9)], build_empty_tree(1))
        model.compute_logits([Prefix(ids, 0, 9)], build_chain(5, 6, 7))
    assert fed["below"] == [3, 1, 1, 1] + [1, 1, 1, 1] * 2
    assert fed["above"] == [3 + 3, 1 + 3, 1 + 3]


def test_what_is_said_is_a_function_of_the_question_whatever_was_asked_before():
    model, network_ = build_layered(build_deep_network(), 2), build_deep_network()
    questions = [[(1, 2, 3, 4, 5)], [(1, 2)], [(1, 2, 3)], [(9,)], [(1, 2, 3), (1, 2)], [(1, 2), (1, 2, 3)], [(1, 2, 3)]]
    for number, texts_ in enumerate(questions * 3):
        part = model.lower if number % 2 else model
        logits = part.compute_logits([Prefix(ids, 0, 9) for ids in texts_], build_empty_tree(len(texts_)))
        for row, ids in enumerate(texts_):
            assert (logits[row, 0] - compute_wanted(network_, model, ids, part is model.lower)).abs().max() < 2e-5


def test_a_batch_says_what_each_row_says_alone_and_draws_the_same_draft_tokens():
    """In float64, six ragged rows through the production step, three rounds each."""
    network_ = build_deep_network(torch.float64)
    rows = [Prefix((1, 2, 3, 4, 5, 6)[: 1 + draw], 0, 12, draw) for draw in range(6)]

    def rounds(some):
        model, found = build_layered(network_, 2), []
        proposer = DraftModel(model.lower, 3)
        for _ in range(3):
            made = step(some, model, proposer, TokenRule(), PhiloxRandomness(3))
            found.append(made)
            some = [
                replace(row, ids=row.ids + one.committed, start=row.start + len(one.committed))
                for row, one in zip(some, made, strict=True)
            ]
        return found

    together = rounds(rows)
    for index, row in enumerate(rows):
        for both, alone in zip(together, rounds([row]), strict=True):
            assert both[index].committed == alone[0].committed
            assert (both[index].full.p - alone[0].full.p).abs().max() < 1e-12
            assert (both[index].full.q - alone[0].full.q).abs().max() < 1e-12


@pytest.mark.parametrize("warper", ({}, {"temperature": 0.7, "top_k": 3, "min_p": 0.2}, {"temperature": 0.0}), ids=str)
def test_whole_texts_have_the_distribution_of_fresh_passes(warper):
    """Every outcome of the production step in float64: gamma 2, three tokens, one end token, rows leaving and coming back."""
    settings, network_ = Settings(**warper), build_network("llama", 4, 0, 64)
    model = build_layered(network_, 1, settings)
    world = World(model, DraftModel(model.lower, 2), eos_token_ids=frozenset({1}))
    known: dict = {}

    def fresh(ids):
        return known[ids] if ids in known else known.setdefault(ids, compute_fresh_distribution(network_, ids, settings, 4))

    assert (
        measure_distance(
            enumerate_texts(world, (0, 2, 3), length=3), target_distribution(fresh, 3, world.eos_token_ids, (0, 2, 3))
        )
        < 1e-10
    )
