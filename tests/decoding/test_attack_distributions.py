"""Attacks on 'distributed as the target': settings, limits and drafts that could bend the distribution, each enumerated
completely.

The target's distribution is made here a second time, in plain Python from the sentences of ``Settings``, so that a mistake which
``warp`` makes alike for p, q and the baseline would be seen too. No top-p here falls on a sum of the masses: there the last
bit decides, and the distribution that is kept is still the one that ``warp`` gives. Whole texts are compared: stop tokens, length
and context.
"""

import math
from itertools import product

import pytest
import torch

from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import (
    RecordingRandomness,
    World,
    draw_distribution,
    enumerate_round,
    list_interval_branches,
    model,
    pair,
    remember,
)
from tests.oracle.token_rule import target_distribution

V = 4
TIES = ((0.3, 0.3, 0.3, 0.1), (0.1, 0.4, 0.4, 0.1), (0.25, 0.25, 0.25, 0.25), (0.0, 0.5, 0.25, 0.25))


def build_tied_table(offset: int):
    """Distributions full of ties that differ with the prefix; a draft reads the same list from another place."""
    return remember(lambda ids: TIES[(sum(ids) + len(ids) + offset) % len(TIES)])


def warp_by_hand(masses, settings: Settings) -> list[float]:
    """Temperature, top-k, top-p, min-p as the settings describe them; among equals the smaller id comes first."""
    ranked = sorted(range(len(masses)), key=lambda token: -masses[token])
    if settings.temperature == 0.0:
        return [float(token == ranked[0]) for token in range(len(masses))]
    probs = normalize([mass ** (1 / settings.temperature) for mass in masses])
    if settings.top_k is not None:
        probs = normalize([mass if token in ranked[: settings.top_k] else 0.0 for token, mass in enumerate(probs)])
    if settings.top_p is not None:
        kept, held = [], 0.0
        for token in ranked:
            if held >= settings.top_p - 1e-12:
                break
            kept, held = [*kept, token], held + probs[token]
        probs = normalize([mass if token in kept else 0.0 for token, mass in enumerate(probs)])
    if settings.min_p is not None:
        probs = normalize([mass if mass >= settings.min_p * max(probs) * (1 - 1e-12) else 0.0 for mass in probs])
    return probs


def normalize(masses) -> list[float]:
    return [mass / math.fsum(masses) for mass in masses]


def enumerate_texts(world: World, prompt, row: Prefix | None = None, written=(), **limits) -> dict:
    """Distribution of complete texts, each round with the remaining tokens that the engine gives it."""
    row = row or build_first_prefix(prompt, Settings(max_new_tokens=limits["length"]), limits.get("context"))
    result: dict = {}
    for text, mass in enumerate_round(world, row, list_interval_branches).items():
        assert 1 <= len(text) <= row.remaining and not world.eos_token_ids & set(text[:-1])
        after = Prefix(row.ids + text, row.start + len(text), row.remaining - len(text))
        done = after.remaining == 0 or text[-1] in world.eos_token_ids
        for rest, more in ({(): 1.0} if done else enumerate_texts(world, prompt, after, **limits)).items():
            result[text + rest] = result.get(text + rest, 0.0) + mass * more
    return result


def measure_distance(one: dict, other: dict) -> float:
    return max(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other})


def build_world(settings: Settings, gamma: int, p=None, q=None, draft_context=None, eos_token_ids=frozenset()) -> World:
    p, q = p or build_tied_table(0), q or build_tied_table(1)
    return World(model(p, V, settings), DraftModel(model(q, V, settings, draft_context), gamma), eos_token_ids=eos_token_ids)


COMBINATIONS = [
    {"temperature": 0.0, "top_k": 1},
    {"temperature": 0.0, "top_k": 3, "top_p": 0.5, "min_p": 0.5},
    {"min_p": 1.0},
    {"temperature": 0.5, "min_p": 1.0, "top_k": 2},
    {"top_p": 1.0, "min_p": 1.0},
    {"top_p": 0.65, "min_p": 0.9},
    {"top_k": 1},
    {"top_k": 2, "top_p": 1e-9},
    {"top_k": 10_000, "top_p": 0.95, "min_p": 1e-9},
    {"temperature": 5.0, "top_p": 0.9, "min_p": 0.2},
    {"temperature": 0.05, "top_k": 3},
]


@pytest.mark.parametrize("warper", COMBINATIONS, ids=str)
@pytest.mark.parametrize("gamma", (1, 3))
def test_no_combination_of_settings_bends_the_distribution_even_on_ties(gamma, warper):
    settings = Settings(**warper)
    expected = target_distribution(remember(lambda ids: warp_by_hand(build_tied_table(0)(ids), settings)), 3, prefix=(0,))
    assert measure_distance(enumerate_texts(build_world(settings, gamma), (0,), length=3), expected) < 1e-12


@pytest.mark.parametrize(("gamma", "length"), [(g, n) for g, n in product((1, 2, 5, 16), (1, 2, 3)) if g > n - 1])
def test_a_draft_longer_than_the_remaining_tokens_keeps_the_distribution_of_whole_texts(gamma, length):
    """Gamma beyond what may still be written, with two stop tokens that can fall anywhere inside the block."""
    p, q = pair("random", 3, V, 20)
    world = build_world(Settings(), gamma, p, q, eos_token_ids=frozenset({1, 3}))
    expected = target_distribution(remember(lambda ids: [float(x) for x in p(ids)]), length, world.eos_token_ids, (0,))
    assert measure_distance(enumerate_texts(world, (0,), length=length), expected) < 1e-12


@pytest.mark.parametrize("prompt", ((0, 2, 1, 0), (0, 2, 1), (0, 2)))
@pytest.mark.parametrize("draft_context", (None, 1, 3))
def test_a_prompt_near_or_at_the_context_limit_keeps_the_distribution_whatever_the_draft_can_hold(prompt, draft_context):
    """A context of four tokens: one to three tokens are left, and the draft may hold less than the prompt."""
    p, q = pair("random", 5, V, 20)
    world = build_world(Settings(), 4, p, q, draft_context)
    expected = target_distribution(remember(lambda ids: [float(x) for x in p(ids)]), 5 - len(prompt), prefix=prompt)
    assert measure_distance(enumerate_texts(world, prompt, length=50, context=4), expected) < 1e-12


@pytest.mark.parametrize("known_to", ("target", "draft"))
def test_ids_that_only_one_model_knows_keep_the_distribution(known_to):
    """Padded vocabularies: the other's distribution has no mass there, so its ids are never accepted, or never drafted."""
    short = lambda seed: remember(lambda ids: draw_distribution((seed, ids), V, 20, range(2)))  # noqa: E731
    full = lambda seed: remember(lambda ids: draw_distribution((seed, ids), V, 20))  # noqa: E731
    p, q = (full("p"), short("q")) if known_to == "target" else (short("p"), full("q"))
    expected = target_distribution(remember(lambda ids: [float(x) for x in p(ids)]), 3, prefix=(0,))
    assert measure_distance(enumerate_texts(build_world(Settings(), 2, p, q), (0,), length=3), expected) < 1e-12


def test_this_enumeration_sees_a_draft_that_is_cut_otherwise_than_it_says():
    """The machinery is no rubber stamp: one warper for the draw and another for the rule are far apart."""

    class Lying(DraftModel):
        def propose(self, rows, randomness):
            block = super().propose(rows, randomness)
            even = tuple(None if q is None else torch.full_like(q, 1 / V) for q in block.q)
            return type(block)(block.tokens, block.parents, even, block.u_draft, block.source)

    p, q = pair("random", 3, V, 20)
    world = World(model(p, V), Lying(model(q, V), 1))

    def branches(uniform, round_):
        if uniform[0] is Purpose.DRAFT:
            probs = torch.tensor([float(x) for x in q((0,))], dtype=torch.float64)
            return [(u, m) for u, m in zip((probs.cumsum(-1) - probs / 2).tolist(), probs.tolist(), strict=True) if m]
        return list_interval_branches(uniform, round_)

    first: dict = {}
    for text, mass in enumerate_round(world, Prefix((0,), 0, 9), branches).items():
        first[text[:1]] = first.get(text[:1], 0.0) + mass
    assert measure_distance(first, target_distribution(lambda ids: [float(x) for x in p(ids)], 1, prefix=(0,))) > 1e-2


def test_rows_that_leave_a_batch_use_no_random_number_twice_and_keep_their_own():
    """Draw numbers far apart, rows of one text, some ending early: every address once, every number its own."""
    p, q = pair("random", 7, V, 20)
    randomness = RecordingRandomness(PhiloxRandomness(3))
    target, proposer = model(p, V), DraftModel(model(q, V), 3)
    rows = [
        build_first_prefix((0,), Settings(max_new_tokens=n), None, draw)
        for n, draw in ((2, 0), (9, 3), (5, 2**40), (9, 2**62 + 1))
    ]
    numbers: list[float] = []
    while rows:
        rounds = step(rows, target, proposer, TokenRule(), randomness, bars=2)
        for round_ in rounds:
            numbers += [u for one in round_.proposals for u in (one.u_draft, one.u) if u is not None]
            numbers += [round_.ending.u] if round_.ending.u is not None else []
        rows = [after for after in map(advance_prefix, rows, rounds) if after.remaining]
    assert not randomness.reused
    assert len(set(numbers)) == len(numbers) > 40
