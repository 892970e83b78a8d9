"""Tests of whole texts see faults that act only after whole rounds, or at one place of a page, and pass exact decoders.

The decoder is a small one of its own over a table of 12 tokens in which each token depends on the one before, with a switch for each
fault. Seeds are fixed. An exact decoder is rejected once in 1,000 seeds; each fault is seen at p < 1e-9, so missed in less than one seed
of a million.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError
from specviz.evidence.mistakes.registry import open_tables
from specviz.evidence.sampling.sample_files import SampleFile, parse_samples
from specviz.evidence.sampling.whole_texts import (
    CLASSES,
    PAGE,
    build_whole_text_answer,
    choose_classes,
    describe_text_power,
    explain_no_test,
    infer_rounds,
    read_reported_rounds,
    run_whole_text_tests,
    score_texts,
)
from specviz.settings import Settings
from specviz.statistics.finding import Finding
from tests.helpers.chance_bands import SEED

VOCABULARY, GAMMA, LENGTH, PROMPT = 12, 3, 24, (1, 2, 3)
DICE = np.random.default_rng(SEED)
P, Q = (DICE.dirichlet(np.full(VOCABULARY, 0.7), size=VOCABULARY) for _ in range(2))
Q = 0.3 * Q + 0.7 * P  # a draft that is right often
OPEN = open_tables(lambda ids: P[ids[-1] if ids else 0], lambda ids: Q[ids[-1] if ids else 0])
SETTINGS = Settings(prompt="a b c", max_new_tokens=LENGTH, gamma=GAMMA)
PAIR = SimpleNamespace(
    open=OPEN, encode=lambda text: PROMPT, vocabulary=VOCABULARY, eos_token_ids=frozenset(), name="table", decode=str
)
Bend = Callable[[np.ndarray, str, int, bool], np.ndarray]


def flatten(p: np.ndarray) -> np.ndarray:
    """A total variation of about 0.2 from p: temperature 2."""
    hot = p**0.5
    return hot / hot.sum()


def keep_exact(p: np.ndarray, kind: str, place: int, after_full: bool) -> np.ndarray:
    return p


@dataclass(frozen=True)
class Fault:
    """bend: (p, kind of the draw, position with the prompt, whether the round before was fully accepted) -> what is used for p."""

    bend: Bend
    seen_at: str


FAULTS = {
    "bonus": Fault(lambda p, kind, place, after: flatten(p) if kind == "bonus" else p, "bonus token of a round"),
    "round after a full one": Fault(
        lambda p, kind, place, after: flatten(p) if after and kind == "first" else p, "first token after a fully accepted round"
    ),
    "page": Fault(lambda p, kind, place, after: flatten(p) if place % PAGE == 0 else p, "position 1 of a page"),
}


def draw_texts(n: int, seed: int, bend: Bend = keep_exact, greedy: bool = False) -> tuple[list[list[int]], list[list[int]]]:
    """Texts of LENGTH tokens by the token rule, and the tokens of each pass. A round drafts GAMMA tokens, also where fewer are left."""
    dice = np.random.default_rng([SEED, seed])

    def draw(probs: np.ndarray) -> int:
        return min(int(np.searchsorted(probs.cumsum(), dice.random() * probs.sum(), side="right")), VOCABULARY - 1)

    texts, passes = [], []
    for _ in range(n):
        ids, sizes, after_full = [PROMPT[-1]], [], False
        while len(ids) <= LENGTH:
            begin = len(ids)
            for k in range(GAMMA):
                kind = "first" if k == 0 else "drafted"
                p, q = bend(P[ids[-1]], kind, len(PROMPT) + len(ids) - 1, after_full), Q[ids[-1]]
                q = np.eye(VOCABULARY)[q.argmax()] if greedy else q
                token = draw(q)
                if dice.random() * q[token] < p[token]:
                    ids.append(token)
                    continue
                ids.append(draw(np.maximum(p - q, 0.0)))
                after_full = False
                break
            else:
                ids.append(draw(bend(P[ids[-1]], "bonus", len(PROMPT) + len(ids) - 1, after_full)))
                after_full = True
            sizes.append(min(len(ids) - begin, LENGTH + 1 - begin))
        texts.append(ids[1 : LENGTH + 1])
        passes.append(sizes)
    return texts, passes


def build_file(texts: list[list[int]], passes: list[list[int]]) -> SampleFile:
    n = len(texts)
    stops, lines = ("length",) * n, tuple(range(1, n + 1))
    return SampleFile(
        "whole.jsonl", "a b c", tuple(map(tuple, texts)), tuple(map(len, texts)), stops, lines, {}, "", tuple(map(tuple, passes))
    )


def get_smallest(answer: dict) -> dict:
    return min(answer["tests"], key=lambda test: test["p_value"])


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_a_place_is_seen_there_where_the_server_shows_its_rounds(name):
    """250 texts of 24 tokens."""
    fault = FAULTS[name]
    answer = run_whole_text_tests(build_file(*draw_texts(250, 1, fault.bend)), SETTINGS, PAIR)
    smallest = get_smallest(answer)
    assert answer["verdict"] == "rejected" and answer["plan"]["rounds"] == "told" and answer["plan"]["gamma"] == GAMMA
    assert smallest["name"].startswith(fault.seen_at) and smallest["p_value"] < 1e-9
    assert fault.seen_at in answer["sentence"]


def test_a_fault_at_the_bonus_token_is_seen_where_rounds_are_inferred():
    """700 texts: the places are probabilities, so more are needed. gamma is given."""
    texts, _ = draw_texts(700, 2, FAULTS["bonus"].bend)
    answer = run_whole_text_tests(build_file(texts, []), SETTINGS, PAIR, gamma=GAMMA, accepted_share=0.6)
    assert answer["verdict"] == "rejected" and answer["plan"]["rounds"] == "inferred"
    assert get_smallest(answer)["name"].startswith("bonus token of a round") and get_smallest(answer)["p_value"] < 1e-9


@pytest.mark.parametrize(("greedy", "told"), ((False, True), (True, False)))
def test_an_exact_decoder_is_consistent(greedy, told):
    texts, passes = draw_texts(150, 3, greedy=greedy)
    answer = run_whole_text_tests(build_file(texts, passes if told else []), SETTINGS, PAIR, gamma=GAMMA)
    assert answer["verdict"] == "consistent" and "would have shown" in answer["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ("told", "inferred", "greedy draft, inferred"))
def test_exact_decoders_pass_at_20_seeds(kind):
    """20 seeds, each rejected with a probability of at most 0.001: two or more with less than 2e-4. 300 texts of 24 tokens."""
    rejected = 0
    for seed in range(20):
        texts, passes = draw_texts(300, 100 + seed, greedy=kind.startswith("greedy"))
        answer = run_whole_text_tests(build_file(texts, passes if kind == "told" else []), SETTINGS, PAIR, gamma=GAMMA)
        rejected += answer["verdict"] == "rejected"
    assert rejected <= 1


def test_scores_are_those_of_each_token_by_hand():
    """Two texts that begin alike, and one that ends: mass, mass of likelier tokens, and moments after the prefix of each token."""
    tokens = np.array([[4, 5, 6], [4, 7, NONE], [4, 5, 8]], dtype=np.int32)
    target, draft = OPEN(SETTINGS)
    members = choose_classes(target, [PROMPT], tokens.shape[1], frozenset({7}), 0)
    found = score_texts(target, draft, PROMPT, tokens, frozenset({7}), 0, members=members)
    before, after = np.array([3, 4, 5, 3, 4, 3, 4, 5]), np.array([4, 5, 6, 4, 7, 4, 5, 8])
    mass = P[before, after]
    logs = np.log(np.maximum(P, 1e-9))
    mean = (P * logs).sum(1)
    assert found.lengths.tolist() == [3, 2, 3] and found.place.tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert np.allclose(found.scores.log_probability.score, np.log(mass))
    assert np.allclose(found.scores.log_probability.mean, mean[before])
    assert np.allclose(found.scores.log_probability.variance, (P * (logs - mean[:, None]) ** 2).sum(1)[before])
    likelier = np.array([P[b][P[b] > P[b, a]].sum() for b, a in zip(before, after, strict=True)])
    assert ((found.scores.values >= likelier - 1e-12) & (found.scores.values <= likelier + mass + 1e-12)).all()
    assert np.allclose(found.acceptance, np.minimum(1.0, Q[before, after] / mass))
    assert np.allclose(found.scores.class_masses.sum(1), 1.0) and (
        found.scores.class_masses[0, found.scores.member[4]] == np.float32(P[3, 7])
    )
    alone = score_texts(target, draft, PROMPT, tokens, frozenset({7}), 0).scores
    assert (alone.member == CLASSES + 1).all() and not alone.class_masses.any()
    assert np.array_equal(alone.log_probability.score, found.scores.log_probability.score)


def test_classes_are_the_likeliest_tokens_of_the_targets_own_texts():
    """Fixed by the target alone: 200 tokens after one another, of which the chain visits those of a Dirichlet distribution most."""
    probs = np.random.default_rng(SEED).dirichlet(np.full(200, 0.3))
    target, _ = open_tables(probs, probs)(SETTINGS)
    members = choose_classes(target, [PROMPT], LENGTH, frozenset({7, 9}), 0).numpy()
    order = [token for token in np.argsort(-probs) if token not in (7, 9)]
    assert members[order[:CLASSES]].tolist() == list(range(CLASSES)) and members[[7, 9]].tolist() == [CLASSES, CLASSES]
    assert set(members[order[CLASSES:]].tolist()) == {CLASSES + 1}


def test_a_token_after_the_end_of_a_text_rejects():
    tokens = np.array([[4, 7, 5]], dtype=np.int32)
    assert score_texts(*OPEN(SETTINGS), PROMPT, tokens, frozenset({7}), 0).scores.impossible.tolist() == [False, False, True]


def test_places_of_told_rounds():
    """gamma 2: a pass of three tokens is fully accepted. The first text's passes are 3, 1 and 2 tokens, the last cut by the limit."""
    found = read_reported_rounds([(3, 1, 2), (1, 3, 2)], [6, 6])
    assert found.weights.argmax(1).tolist() == [0, 1, 2, 0, 0, 1, 0, 0, 1, 2, 0, 1] and (found.weights.sum(1) == 1.0).all()
    assert found.after_all.nonzero()[0].tolist() == [3, 10] and found.after_rejection.nonzero()[0].tolist() == [4, 7]
    with_prompt_pass = read_reported_rounds([(1, 3, 2), (1, 2, 3)], [6, 6])
    assert with_prompt_pass.weights.sum(1).tolist() == [0, 1, 1, 1, 1, 1] * 2
    assert with_prompt_pass.after_all.nonzero()[0].tolist() == [4] and with_prompt_pass.after_rejection.nonzero()[0].tolist() == [
        9
    ]


def test_two_passes_in_one_event_are_no_longer_round():
    """gamma 2 by the server's counters, and an event of six tokens: the last three are at no place."""
    found = read_reported_rounds([(6, 1)], [7], known_gamma=2)
    assert found.gamma == 2 and found.weights.sum(1).tolist() == [1, 1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(("gamma", "rounds", "said"), ((None, "unbroken", "in one piece"), (GAMMA, "told", "showed its rounds")))
def test_texts_that_arrive_in_one_piece_show_no_rounds(gamma, rounds, said):
    """Where the length of a round is known, the first tokens of the piece are still at their places."""
    texts, _ = draw_texts(60, 5)
    answer = run_whole_text_tests(build_file(texts, [[LENGTH]] * 60), SETTINGS, PAIR, gamma=gamma)
    assert answer["plan"]["rounds"] == rounds and said in answer["sentence"]
    assert any("bonus" in test["name"] for test in answer["tests"]) is (rounds == "told")


def test_the_share_of_accepted_tokens_tells_a_greedy_draft_from_one_that_draws():
    share, greedy = np.full(6, 0.9), np.zeros(6, dtype=bool)
    drawn, likeliest, both = (infer_rounds(share, greedy, [6], 1, said).weights for said in (0.85, 0.05, None))
    assert np.allclose(both, (drawn + likeliest) / 2.0) and not np.allclose(drawn, likeliest)


def test_what_cannot_be_tested_is_said():
    file = build_file([[4]], [])
    assert explain_no_test(file, SETTINGS) == ""
    assert "a cut such as top-p" in explain_no_test(file, Settings(top_p=0.9))
    assert "no token ids" in explain_no_test(SampleFile("t", "a", ("text",), (4,), ("stop",), (1,), {}, ""), SETTINGS)
    assert "2,000 whole texts of 24 tokens detect a gap of 0.0" in describe_text_power(2000, 24, 1.0)


@pytest.mark.parametrize("rounds", ("[1, 1]", "[3, 0]", "3", "[1.5, 1.5]", "[-1, 4]"))
def test_rounds_of_a_file_that_do_not_add_up_are_a_sentence(rounds):
    line = f'{{"prompt": "a", "tokens": [4, 5, 6], "rounds": {rounds}}}'
    with pytest.raises(EvidenceError, match='line 1: "rounds" must be'):
        parse_samples(line.encode(), "x")
    good = parse_samples(b'{"prompt": "a", "tokens": [4, 5, 6], "rounds": [1, 2]}', "x")
    assert good.rounds == ((1, 2),) and parse_samples(b'{"prompt": "a", "tokens": [4]}', "x").rounds == ()


def test_an_answer_is_built_again_from_its_findings():
    answer = run_whole_text_tests(build_file(*draw_texts(60, 4)), SETTINGS, PAIR)
    tests = [Finding(**{key: value for key, value in test.items() if key != "adjusted_p"}) for test in answer["tests"]]
    assert build_whole_text_answer(tests, answer["plan"]) == answer
