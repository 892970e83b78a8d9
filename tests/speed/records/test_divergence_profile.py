"""Where two models differ: kinds of word by rules, Lorenz's curve on distributions made by hand, intervals, scored texts that come back whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specviz.randomness import Prefix
from specviz.records import build, to_json_value
from specviz.settings import Settings
from specviz.speed.benchmarks.passage import score_text
from specviz.speed.records.divergence_profile import (
    MIN_TEXTS,
    TOP_SHARES,
    ScoredText,
    compute_divergence_profile,
    compute_lorenz_curve,
)
from specviz.speed.records.word_kinds import FUNCTION, INSIDE, NAME, OTHER, PUNCTUATION, START, classify_tokens
from specviz.verification.draft_tree import build_empty_tree
from specviz.web.whole_text.figures import describe_kinds


def build_scored_text(*betas: float, sorts: tuple[str, ...] | None = None) -> ScoredText:
    """A text of which only the betas matter."""
    return ScoredText((1,) * len(betas), (0.5,) * len(betas), (0.5,) * len(betas), betas, sorts or (OTHER,) * len(betas))


SENTENCE = (
    ("The", START), (" old", OTHER), (" Dor", NAME), ("othy", INSIDE), (" met", OTHER), (" Mr", NAME), (".", PUNCTUATION), (" Wolf", NAME),
    (" on", FUNCTION), (" the", FUNCTION), (" road", OTHER), (",", PUNCTUATION), (" and", FUNCTION), (" I", FUNCTION), ("'m", INSIDE),
    (" here", FUNCTION), ("!", PUNCTUATION), (' "', PUNCTUATION), ("Come", START), (',"', PUNCTUATION), (" Zeb", NAME), (" said", OTHER), (".", PUNCTUATION),
    ("\n", PUNCTUATION), ("Then", START), (" there", FUNCTION), ("fore", INSIDE),
)  # fmt: skip


def test_each_token_has_the_kind_of_the_word_that_it_stands_in():
    expected = [kind for _, kind in SENTENCE]
    expected[-2] = OTHER  # "therefore" stands in no list: the token is judged by the whole word
    assert classify_tokens(b"", [piece.encode() for piece, _ in SENTENCE]) == tuple(expected)


def test_the_text_before_decides_whether_a_word_begins_or_continues():
    assert classify_tokens(b"He met Dor", [b"othy"]) == (INSIDE,)
    assert classify_tokens(b"He met", [b" Dorothy"]) == (NAME,)
    assert classify_tokens(b"He met.", [b" Dorothy"]) == (START,)
    assert classify_tokens(b"He met Mr.", [b" Dorothy"]) == (NAME,)


def test_bytes_of_a_cut_character_and_tokens_that_are_no_text_have_a_kind():
    cut = "é".encode()
    assert classify_tokens(b"caf", [cut[:1], cut[1:], b"", b" \n"]) == (INSIDE, INSIDE, PUNCTUATION, PUNCTUATION)
    assert classify_tokens(b"", [cut[:1], b" a"]) == (PUNCTUATION, FUNCTION)


def test_the_curve_of_four_tokens_is_the_one_worked_out_by_hand():
    """1 - beta: .4, .3, .2, .1 of 1; the tenth of four tokens is four tenths of the first one."""
    x, y = compute_lorenz_curve(np.array([0.2, 0.4, 0.1, 0.3]))
    assert x.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0] and np.allclose(y, [0.0, 0.4, 0.7, 0.9, 1.0])
    assert np.interp(0.1, x, y) == pytest.approx(0.16)


def test_an_even_spread_holds_what_its_share_of_tokens_holds_and_one_divergence_holds_all():
    even = compute_divergence_profile((build_scored_text(*[0.7] * 200),))
    assert [share.value for share in even.tops] == pytest.approx(TOP_SHARES)
    one = compute_divergence_profile((build_scored_text(*[1.0] * 99, 0.25),))
    assert [share.value for share in one.tops] == pytest.approx([1.0, 1.0, 1.0]) and one.total == pytest.approx(0.75)


def test_two_models_that_agree_everywhere_have_no_divergence_to_share_out():
    none = compute_divergence_profile((build_scored_text(1.0, 1.0, 1.0),))
    assert none.total == 0.0 and set(none.y) == {0.0} and [share.value for share in none.tops] == [0.0, 0.0, 0.0]


def test_kinds_share_all_tokens_and_all_divergence_among_them():
    found = compute_divergence_profile((build_scored_text(0.9, 0.5, 0.6, 1.0, sorts=(START, NAME, NAME, PUNCTUATION)),))
    rows = {row.name: row for row in found.kinds}
    assert {name: row.count for name, row in rows.items()} == {START: 1, NAME: 2, PUNCTUATION: 1}
    assert rows[NAME].distance.value == pytest.approx(0.45) and rows[NAME].divergence.value == pytest.approx(0.9)
    assert sum(row.tokens for row in found.kinds) == pytest.approx(1.0)
    assert sum(row.divergence.value for row in found.kinds) == pytest.approx(1.0)
    assert rows[START].distance.n == 1, "a single token cannot be resampled"
    assert rows[NAME].distance.low == pytest.approx(0.4) and rows[NAME].distance.high == pytest.approx(0.5)


def test_intervals_hold_the_mean_that_texts_were_drawn_from(monkeypatch):
    """Half of the variance lies between texts. An interval that resamples whole texts holds the mean 9 times in 10 or more, so 28 of
    40 do with probability 0.9997. One that took tokens for independent would hold it about half the time; 28 of 40 then have a
    probability below 0.04."""
    monkeypatch.setattr("specviz.speed.records.divergence_profile.RESAMPLES", 200)
    rng, held = np.random.default_rng(5), 0
    for _ in range(40):
        levels = rng.uniform(0.2, 0.6, 12)
        texts = tuple(build_scored_text(*(1.0 - (level + rng.uniform(-0.2, 0.2, 20))).tolist()) for level in levels)
        found = compute_divergence_profile(texts)
        assert found.by_text and len(texts) >= MIN_TEXTS
        held += found.kinds[0].distance.low <= 0.4 <= found.kinds[0].distance.high
    assert held >= 28


def test_kinds_are_ranked_only_where_their_intervals_lie_apart():
    far = build_scored_text(*[0.9, 0.88] * 10, *[0.3, 0.32] * 10, sorts=(START,) * 20 + (NAME,) * 20)
    assert f"The models differ most at “{NAME}”: a draft token is rejected with probability 0.69 (" in describe_kinds(
        compute_divergence_profile((far,))
    )
    near = build_scored_text(*[0.2, 0.9] * 10, *[0.3, 0.8] * 10, sorts=(START,) * 20 + (NAME,) * 20)
    assert "No kind of word stands out" in describe_kinds(compute_divergence_profile((near,)))
    assert "too few words" in describe_kinds(compute_divergence_profile((build_scored_text(0.2, 0.3),)))


def test_a_scored_text_comes_back_from_its_record_and_a_damaged_one_is_refused():
    one = build_scored_text(0.25, 0.5, sorts=(START, NAME))
    assert build(ScoredText, to_json_value(one)) == one
    for broken in ({"beta": [0.5]}, {"beta": [0.5, 7.0]}, {"kinds": [START, "verb"]}):
        with pytest.raises(ValueError, match="scored text"):
            build(ScoredText, to_json_value(one) | broken)


def test_scores_in_passes_of_several_tokens_are_those_of_one_token_at_a_time(pair, monkeypatch):
    """beta, p and q along a text, seven tokens to a pass, against a fresh pass for each; float32 rounds to 1e-5."""
    settings, prompt = Settings(prompt="Once upon a time"), pair.encode("Once upon a time")
    tokens = pair.encode(" the old bear ran to the river, and he was hungry.")
    monkeypatch.setattr("specviz.speed.benchmarks.passage.TOKENS_PER_PASS", 7)
    found = score_text(pair, settings, prompt, tokens)
    assert len(found.beta) == len(found.kinds) == len(tokens) > 7
    for place, token in enumerate(tokens):
        row = Prefix((*prompt, *tokens[:place]), 0, 1)
        p, q = (model.compute_distributions([row], build_empty_tree(1))[0, 0] for model in pair.open(settings))
        expected = (float(p[token]), float(q[token]), 1.0 - 0.5 * float((p - q).abs().sum()))
        assert (found.p[place], found.q[place], found.beta[place]) == pytest.approx(expected, abs=1e-5)
    probs = found.divergences[found.divergence_places[0]]
    assert probs.beta == pytest.approx(min(found.beta)) and tokens[found.divergence_places[0]] in probs.tokens
    assert all(found.pieces[token] for token in probs.tokens), "every bar has a name"
    assert torch.tensor(probs.p).sum() + probs.rest["p"] == pytest.approx(1.0)
