"""The distributions by which a known mistake is recognized are those that the mistake itself writes: enumerated on tables, text by text."""

from itertools import product

import numpy as np
import pytest
import torch

from specviz.audit.findings.known_mistakes import (
    DRAFT_KINDS,
    SETTINGS,
    SHARED_UNIFORMS,
    DraftSchedule,
    EdgeProbabilities,
    FurtherDistributions,
    KnownMistake,
    build_draft_rows,
    compute_edge_probabilities,
    compute_next_token,
    list_known_mistakes,
    list_schedules,
)
from specviz.audit.findings.other_rows import draw_other_rows, read_own_rows
from specviz.audit.findings.prefix_table import (
    MIN_SAMPLES_PER_PREFIX,
    PrefixTable,
    build_prefix_table,
    compute_after_rejected,
    compute_distributions,
    compute_kept_rejected,
)
from specviz.decoding.samples import Samples
from specviz.evidence.analytic.enumeration import compute_text_tv, enumerate_output
from specviz.evidence.mistakes.components import ChangedModel, concentrate_on_argmax
from specviz.evidence.mistakes.registry import MISTAKES, OTHER_TEXT, PENALTY, drop_warpers, open_tables
from specviz.settings import Settings
from tests.helpers import toy_tables
from tests.oracle import mistakes as oracle

PROMPT, LENGTH = (0, 1), 3
COVERED = ("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R11", "R16", "R18", "R20", "R21", "gate", "pass-temperature",
           "one-hot-residual", "rejecting-number", "lenience", "greedy-bonus", "first-unverified", "draft-settings", "one-uniform",
           "draft-row", "penalty-twice", "row-after-rejected")  # fmt: skip
GREEDY = (
    "R4",
    "R5",
    "R7",
    "R9",
    "R11",
    "R18",
    "pass-temperature",
    "rejecting-number",
    "lenience",
    "greedy-bonus",
    "first-unverified",
    "one-uniform",
    "penalty-twice",
    "row-after-rejected",
    "no-rollback",
)
ONLY_GREEDY = ("no-rollback",)
LEFT_OUT = ("R10", "no-bonus", "R35", "kept-rest", "best-drawn")
SHARED_NUMBER = ("R7", "one-uniform")


def list_mistakes(open_, settings: Settings, vocabulary: int, prompt=PROMPT) -> tuple[PrefixTable, list[KnownMistake]]:
    """All prefixes of tables, as if every text had been sampled, and every known mistake on them."""
    texts = np.array(list(product(range(vocabulary), repeat=LENGTH)) * MIN_SAMPLES_PER_PREFIX, dtype=np.int32)
    target, draft = open_(settings)
    reading = build_prefix_table(target, draft, prompt, Samples(texts, settings.to_record(), "all"))
    soft = tuple(compute_distributions(model, prompt, reading.prefixes) for model in open_(drop_warpers(settings)))
    uncut = compute_distributions(open_(settings.without_cuts())[1], prompt, reading.prefixes)
    begun = draw_other_rows(target, draft, "other", OTHER_TEXT, LENGTH, 0)
    after, kept = (compute(target, prompt, reading) for compute in (compute_after_rejected, compute_kept_rejected))
    return reading, list_known_mistakes(reading, settings, FurtherDistributions(soft, uncut, after, kept, PENALTY, [begun]))


def enumerate_texts(one: KnownMistake, reading: PrefixTable, schedule: DraftSchedule) -> dict[tuple[int, ...], float]:
    """The distribution of texts of LENGTH tokens that a known mistake has, as products over the tokens."""
    found, _ = compute_edge_probabilities(EdgeProbabilities.from_mistake(one, reading), reading, schedule)
    masses, texts = {(): 1.0}, {}
    for edge, token, share in zip(reading.edge.tolist(), reading.token.tolist(), found.tolist(), strict=True):
        text = (*reading.prefixes[edge], token)
        (texts if len(text) == LENGTH else masses)[text] = masses[text[:-1]] * share
    return texts


def enumerate_decoder(name: str, greedy: bool, settings: Settings, open_) -> dict[tuple[int, ...], float]:
    """What the mutant writes, on a draft that draws or on one that takes its likeliest token."""
    opened = (lambda s: (open_(s)[0], ChangedModel(open_(s)[1], concentrate_on_argmax))) if greedy else open_
    made = MISTAKES[name].build(opened, settings)
    return enumerate_output(made, PROMPT, LENGTH)


@pytest.mark.fast_cases(16)
@pytest.mark.parametrize("seeds", [(0,), pytest.param((1, 2), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("name", "greedy"), [*((name, False) for name in COVERED), *((name, True) for name in GREEDY)])
def test_a_known_mistake_has_the_distribution_that_the_mutant_writes(name, greedy, seeds):
    """To 1e-9; where tokens share a random number, only to the width of its cells. One table in the fast lane, two more in the slow one."""
    mutant = MISTAKES[name]
    gamma = 1 if name == "R20" else 2
    settings = Settings(
        temperature=mutant.settings.temperature, top_k=mutant.settings.top_k and 3, gamma=gamma, max_new_tokens=LENGTH
    )
    vocabulary = 4 if settings.top_k else 3
    for seed in seeds:
        open_ = open_tables(*toy_tables.pair("random", seed, vocabulary, 12))
        reading, ways = list_mistakes(open_, settings, vocabulary)
        inherent = name in ("R1", "R3", "R20", "R21")
        one = next(one for one in ways if one.id == name and one.greedy is (greedy or inherent) and one.factor in (None, 0.5))
        apart = compute_text_tv(
            enumerate_texts(one, reading, DraftSchedule(0, gamma, LENGTH)), enumerate_decoder(name, greedy, settings, open_)
        )
        assert apart < (3.0 / SHARED_UNIFORMS if name in SHARED_NUMBER else 1e-9)


def test_a_gate_off_by_one_on_a_greedy_draft_accepts_what_it_believes_impossible():
    """By fractions: the production rule never meets a draft token of q = 0, but servers divide by it and accept."""
    for seed in range(3):
        p, q = toy_tables.pair("random", seed, 3, 12)
        reading, ways = list_mistakes(open_tables(p, q), Settings(gamma=2, max_new_tokens=LENGTH), 3, oracle.PROMPT)
        one = next(one for one in ways if one.id == "gate" and one.greedy)
        sure = lambda ids, q=q: oracle.certain(q(ids))  # noqa: E731
        expected = oracle.distribution_of(oracle.run(oracle.chain(2, p, sure, oracle.row_before(sure)), LENGTH))
        found = enumerate_texts(one, reading, DraftSchedule(0, 2, LENGTH))
        assert compute_text_tv(found, {text: float(mass) for text, mass in expected.items()}) < 1e-9


def test_rows_of_another_request_are_averaged_by_where_it_stands():
    """By hand, where one token is drafted: sum over its rows r of w (q min(1, p / r) + (1 - sum of these) norm(max(p - r, 0)))."""
    target, draft = open_tables(*toy_tables.pair("random", 2, 3, 12))(Settings(gamma=1, max_new_tokens=LENGTH))
    texts = np.array(list(product(range(3), repeat=LENGTH)) * MIN_SAMPLES_PER_PREFIX, dtype=np.int32)
    reading = build_prefix_table(
        target, draft, PROMPT, Samples(texts, Settings(gamma=1, max_new_tokens=LENGTH).to_record(), "all")
    )
    for rows in (read_own_rows(reading), draw_other_rows(target, draft, "other", (2,), LENGTH, 0)):
        assert np.allclose(np.bincount(rows.place, rows.weight), 1.0) and rows.place.max() == LENGTH - 1
        found = {one.words.rpartition(", ")[2]: next(iter(one.model(reading))) for one in build_draft_rows(rows, LENGTH)}
        for g, prefix in enumerate(reading.prefixes):
            p, q = reading.p[g].numpy(), reading.q[g].numpy()
            weights = {
                "which has just begun": rows.weight * (rows.place == 0),
                "as long as this one": rows.weight * (rows.place == len(prefix)),
                "of any length": rows.weight / LENGTH,
            }
            for where, weight in weights.items():
                expected = np.zeros(3)
                for w, r in zip(weight, rows.q.numpy(), strict=True):
                    kept = q * np.minimum(1.0, p / r)
                    left = np.maximum(p - r, 0.0)
                    expected += w * (kept + (1.0 - kept.sum()) * (left / left.sum() if left.any() else p))
                assert np.allclose((found[where].accepted + found[where].last)[g].numpy(), expected, atol=1e-12)


def test_every_mutant_is_compared_or_named_as_left_out():
    assert {*COVERED, *ONLY_GREEDY, *LEFT_OUT} == set(MISTAKES)


@pytest.mark.parametrize("temperature", (pytest.param(1.0, marks=pytest.mark.slow), 0.5))
def test_whole_distributions_sum_to_one_and_agree_with_those_of_the_tokens_seen(temperature):
    settings = Settings(temperature=temperature, top_p=0.9, gamma=2, max_new_tokens=LENGTH)
    reading, ways = list_mistakes(open_tables(*toy_tables.pair("random", 7, 4, 100)), settings, 4)
    assert {one.id for one in ways} == {*COVERED, *ONLY_GREEDY, SETTINGS} - {
        "R3",
        "penalty-twice",
    }  # no penalty is known under a cut
    for one in ways:
        for schedule in list_schedules(LENGTH, LENGTH):
            found, states = compute_edge_probabilities(EdgeProbabilities.from_mistake(one, reading), reading, schedule)
            probs = compute_next_token(one, reading, schedule, states)
            assert torch.allclose(probs.sum(-1), torch.ones(len(probs)).double(), atol=1e-12)
            assert np.allclose(reading.gather(probs), found, atol=1e-12)


def test_schedules_are_those_that_differ_and_draft_something():
    """Of three tokens, the last never drafted: one or two draft tokens from the start, one from the second on; else three, and two of those."""
    assert all(one.build_drafting_mask(3).any() for one in list_schedules(3, 3))
    assert len({one.build_drafting_mask(3).tobytes() for one in list_schedules(3, 3)}) == len(list_schedules(3, 3))
    assert DraftSchedule(0, 4, 3).build_drafting_mask(3).tolist() == [[True, False, False], [True, True, False], [False] * 3]
    assert DraftSchedule(1, 1, 0).build_drafting_mask(2).tolist() == [[False, False], [True, False]]
    assert list_schedules(1, 1) == [DraftSchedule(0, 1, 0)]


def test_a_draft_is_greedy_or_draws():
    q = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    assert [drawn(q).tolist() for _, drawn in DRAFT_KINDS] == [[[0.2, 0.5, 0.3]], [[0.0, 1.0, 0.0]]]
