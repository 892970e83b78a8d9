"""Serving setups: exact ones keep their own distribution, mistakes do not, and the place where greedy texts part is found.

'Exact' is with respect to the target as it is served: every setup is compared with itself, one token per pass.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import pytest
import torch

from specviz.cli import record
from specviz.decoding.engine import sample_target_only
from specviz.errors import ModelError, SettingsError, TraceError, UnsupportedModelError
from specviz.evidence.serving_setups import targets
from specviz.evidence.serving_setups.comparison import SetupEffort, compare_setups, continue_prompt, time_setups
from specviz.evidence.serving_setups.near_ties import decode_greedy_text
from specviz.evidence.serving_setups.records import (
    COMPARISONS,
    EXACT,
    LOSSY,
    REFERENCE,
    SETUPS,
    TOLERANCE,
    GreedyPair,
    GreedyText,
    NearTies,
    NearTieSummary,
    SetupComparison,
    find_first_difference,
)
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs import loading
from specviz.models.pairs.loading import load_pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import cut_openings
from specviz.speed.records.estimate import MAX_SPREAD, Estimate
from specviz.verification.draft_tree import DraftTree, build_empty_tree, list_node_texts
from specviz.verification.warp import warp
from tests.helpers.foreign_pairs import write_foreign_pair
from tests.helpers.tiny_pairs import TEXT

SETTINGS = Settings(gamma=2)
EFFORT = SetupEffort(positions=10, runs=2, tokens=8, prompts=1, greedy=12)
BOOK = TEXT[0] * 6


@pytest.fixture(scope="module")
def measured_setups(pair) -> SetupComparison:
    """Every row on the tiny pair, with the watch's shares."""
    shares = []
    found = compare_setups(
        pair, SETTINGS, cut_openings(pair, BOOK, 8, 8, 2), EFFORT, "book.txt", lambda share, doing: shares.append(share)
    )
    assert shares == sorted(shares) and shares[0] >= 0.0 and shares[-1] <= 1.0
    return found


def test_exact_setups_keep_their_own_distribution_and_mistakes_do_not(measured_setups):
    """Rounding in float32 explains TOLERANCE."""
    for row in measured_setups.rows:
        assert not row.reason, row.reason
        assert row.own.prefixes >= EFFORT.positions
        if row.entry.kind == EXACT:
            assert row.own.worst <= TOLERANCE, row.key
        if row.entry.kind == LOSSY:
            assert row.own.worst > 1e-3, row.key


def test_every_setup_but_the_reference_has_another_distribution_and_a_mistake_has_that_of_the_setup_it_means(measured_setups):
    for row in measured_setups.rows:
        if row.key == REFERENCE:
            assert row.distance is None
        else:
            assert 0.0 < row.distance.low <= row.distance.value <= row.distance.high <= 1.0
            assert row.distance == measured_setups.find_row(row.entry.reference_key).distance
        assert 0.0 < row.overlap.value < 1.0
    assert (
        measured_setups.find_row("bf16").distance.value
        < measured_setups.find_row("int8").distance.value
        < measured_setups.find_row("top-k").distance.value
    )


def test_counts_and_factors_hang_together(measured_setups):
    reference = measured_setups.find_row(REFERENCE)
    assert (reference.speed_without_draft.value, reference.speed_without_draft.low, reference.speed_without_draft.high) == (
        1.0,
        1.0,
        1.0,
    )
    for row in measured_setups.rows:
        assert row.tokens == EFFORT.runs * EFFORT.tokens and 0 <= row.accepted <= row.checked
        assert 1.0 <= row.per_pass <= 1 + SETTINGS.gamma
        assert (row.speed_without_draft is None) == (row.ms[0] is None) == (row.entry.kind == LOSSY)
        assert row.speed_with_draft.low <= row.speed_with_draft.value <= row.speed_with_draft.high


def test_a_reference_whose_runs_lie_far_apart_is_no_verdict(measured_setups):
    assert replace(measured_setups, spread=MAX_SPREAD).noise_note == ""
    said = replace(measured_setups, spread=0.4).noise_note
    assert "spans 40% of their median" in said and f"at most {MAX_SPREAD:.0%}" in said


def test_a_file_gives_the_comparison_back_and_damage_is_one_sentence(measured_setups):
    text = measured_setups.to_json()
    assert SetupComparison.from_json(text) == measured_setups
    damaged = (text[:-3], "[]", text.replace('"key": "bf16"', '"key": "bf17"'), text.replace("setups-2", "setups-9"),
               text.replace('"fp32-blocks"', '"other"'), text.replace('"margins": [', '"margins": [-1.0, '))  # fmt: skip
    for broken in damaged:
        assert broken != text
        with pytest.raises(TraceError):
            SetupComparison.from_json(broken)


def test_bfloat16_here_is_the_model_that_would_be_loaded_in_that_type(pair, pair_folders):
    """To the last bit, angles included, which stay in float32."""
    loaded = load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="bfloat16")
    ids = pair.encode("Once upon a time")
    block = DraftTree(((5, 6),), ((-1, 0),), (None,), ((None,) * 2,), "test")
    row = [
        targets.open_setup(pair, "bf16").open(SETTINGS).compute_processed_logits,
        CachedModel(loaded.target, SETTINGS).compute_processed_logits,
    ]
    first, second = (logits([Prefix(ids, 0, 9)], block) for logits in row)
    assert first.dtype is torch.bfloat16 and torch.equal(first, second)


def test_what_cannot_be_compared_is_refused_with_a_sentence(pair, pair_folders, encoder_decoders, monkeypatch):
    loaded = load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="bfloat16")
    with pytest.raises(UnsupportedModelError, match="needs a target in float32 on a CPU, and this one is bfloat16 on cpu"):
        targets.refuse_unsupported(loaded)
    with pytest.raises(UnsupportedModelError, match="decoder-only"):
        targets.refuse_unsupported(next(iter(encoder_decoders.values())))
    with pytest.raises(SettingsError, match="at most 28, because 100 more are written"):
        continue_prompt(pair, SETTINGS, BOOK, 100, 1)
    monkeypatch.setattr(targets, "WORD", "xylophone")
    with pytest.raises(ModelError, match="xylophone"):
        targets.find_banned_tokens(pair)
    found = compare_setups(
        pair, SETTINGS, cut_openings(pair, BOOK, 6, 5, 1), SetupEffort(4, 1, 4, 1, 4), "x", keys=(REFERENCE, "ban")
    )
    assert (
        "xylophone" in found.find_row("ban").reason
        and found.find_row("ban").own is None
        and not found.near_ties.summarize("bf16")
    )


def test_a_draft_with_another_tokenizer_keeps_every_exact_setups_distribution(tmp_path):
    foreign = load_pair("|".join(map(str, write_foreign_pair(tmp_path))), device="cpu")
    places = cut_openings(foreign, BOOK, 6, 5, 1)
    found = compare_setups(
        foreign, SETTINGS, places, SetupEffort(6, 1, 4, 1, 4), "x", keys=(REFERENCE, "penalty", "penalty-once")
    )
    plain, changed = found.find_row("penalty"), found.find_row("penalty-once")
    assert plain.own.worst <= TOLERANCE < changed.own.worst / 10 and plain.speed_with_draft is not None
    target, draft = foreign.open(SETTINGS)
    ((opening, text),) = places
    rows = [Prefix(opening + text[:end], 0, 9) for end in range(len(text))]
    p, q = (torch.cat([one.compute_distributions([row], build_empty_tree(1))[0] for row in rows]) for one in (target, draft))
    assert found.find_row(REFERENCE).overlap.value == pytest.approx(float(torch.minimum(p, q).sum(-1).mean()), abs=1e-6)


def test_texts_of_the_visitors_prompt_begin_with_it_and_differ(pair):
    places = continue_prompt(pair, SETTINGS, "Once upon", 12, 3)
    assert {opening for opening, _ in places} == {pair.encode("Once upon")}
    assert len({text for _, text in places}) == 3 and {len(text) for _, text in places} == {12}


def test_intervals_are_of_texts():
    one = Estimate.from_mean([0.2] * 5)
    assert (one.low, one.high) == (pytest.approx(0.2), pytest.approx(0.2))
    wide = Estimate.from_mean([0.0, 0.4])
    assert (wide.value, wide.low, wide.high) == (0.2, 0.0, 0.4)


# near ties


def test_the_first_place_that_differs_is_found():
    one = GreedyText((1, 2, 3, 4), (0.9, 0.8, 0.02, 0.7))
    assert find_first_difference(one, GreedyText((1, 2, 5, 4), (0.9, 0.8, 0.01, 0.7))) == 2
    assert find_first_difference(one, one) is None and find_first_difference(one, GreedyText((9,), (1.0,))) == 0
    seen = NearTieSummary(
        "bf16", (GreedyPair((0,), one, GreedyText((1, 2, 5, 4), (0.9, 0.8, 0.01, 0.7)), {}), GreedyPair((0,), one, one, {}))
    )
    assert (
        len(seen.differences) == 1
        and seen.differences[0].margins == (0.02, 0.01)
        and (seen.median_margin_at_difference, seen.largest_margin_at_difference) == (0.02, 0.02)
    )
    assert seen.margins_before_difference == (0.9, 0.8, 0.02, 0.9, 0.8, 0.02, 0.7), "after they part nothing is compared"


@dataclass
class HandMade:
    """Logits that follow from the length of the text alone: token n at length n, ahead of the next one by ``ahead[n]``."""

    ahead: tuple[float, ...]
    vocabulary: int = 12
    context: int | None = None

    def compute_processed_logits(self, rows, block):
        return torch.stack(
            [
                torch.stack([self._advance(len(ids)) for ids in list_node_texts(row.ids, block, index)])
                for index, row in enumerate(rows)
            ]
        )

    def _advance(self, length: int) -> torch.Tensor:
        logits = torch.zeros(self.vocabulary)
        logits[length], logits[length + 1] = 5.0 + self.ahead[length], 5.0
        return logits

    def warp_logits(self, logits):
        return warp(logits, Settings(temperature=0.0))

    def compute_distributions(self, rows, block):
        return self.warp_logits(self.compute_processed_logits(rows, block))


def test_a_hand_made_pair_parts_where_rounding_turns_its_nearest_tie():
    """Moving the logits by .02 changes the choice at length 4 alone, where the margin is .01; draft tokens, right or wrong, change nothing."""
    ahead = (1.0, 0.5, 0.75, 0.25, 0.01, 2.0, 1.0, 1.0, 1.0)
    moved = tuple(margin - 0.02 for margin in ahead)
    settings = replace(SETTINGS, temperature=0.0, max_new_tokens=5)
    one, other = (decode_greedy_text(HandMade(values), NoDraft(), settings, (0,)) for values in (ahead, moved))
    assert one.tokens == (1, 2, 3, 4, 5) and one.margins == pytest.approx(ahead[1:6], abs=1e-5)
    assert find_first_difference(one, other) == 3 and other.tokens[3] == 5
    assert (one.margins[3], other.margins[3]) == (pytest.approx(0.01, abs=1e-5), pytest.approx(0.01, abs=1e-5))
    for draft in (HandMade(ahead), HandMade(moved), HandMade(tuple(-margin for margin in ahead))):
        assert decode_greedy_text(HandMade(ahead), DraftModel(draft, 2), settings, (0,)) == one


def test_in_float32_draft_tokens_part_from_nothing_and_texts_are_the_engines_greedy_ones(measured_setups, pair):
    """The tiny pair's nearest tie in these texts is far wider than float32's rounding; else this would say nothing."""
    seen = measured_setups.near_ties.summarize("fp32-blocks")
    assert (
        min(seen.margins_before_difference) > 1e-4
        and not seen.differences
        and set(measured_setups.near_ties.comparisons) == set(COMPARISONS)
    )
    settings, (prompt, _) = replace(SETTINGS, temperature=0.0, max_new_tokens=EFFORT.greedy), cut_openings(pair, BOOK, 8, 8, 2)[0]
    alone = sample_target_only(pair.open(settings)[0], PhiloxRandomness(1), settings, prompt)
    assert seen.pairings[0].first.tokens == tuple(token for one in alone for token in one.committed)
    for one in seen.pairings:
        for text in (one.first, one.second):
            assert len(text.tokens) == len(text.margins) == EFFORT.greedy and set(text.tokens) <= one.pieces.keys()


def test_an_unknown_comparison_is_damage():
    with pytest.raises(ValueError, match="arms"):
        NearTies({"bf17": ()})


# the command


def test_record_writes_a_comparison_and_refuses_no_runs(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loading, "load_pair", lambda *key: pair)
    for name, value in {"OPENING_TOKENS": 6, "CONTINUATION_TOKENS": 5, "TIMED_TOKENS": 4, "GREEDY_TOKENS": 4}.items():
        monkeypatch.setattr(record, name, value)
    parser = argparse.ArgumentParser()
    record.add_arguments(parser)
    out = tmp_path / "setups.json"
    asked = ["setups", "--runs", "1", "--continuations", "2", "--positions", "1", "--out", str(out)]
    assert record.run(parser.parse_args(asked)) == 0
    found = SetupComparison.from_json(out.read_text())
    assert [row.key for row in found.rows] == list(SETUPS) and found.settings.gamma == record.RECORDINGS["setups"].gamma
    for wrong in (["--runs", "0"], ["--continuations", "1"], ["--positions", "0"]):
        with pytest.raises(SettingsError, match="or more"):
            record.run(parser.parse_args(["setups", *wrong]))


def test_the_run_that_warms_up_leaves_no_rounds_behind(pair):
    ways = {REFERENCE: targets.open_setup(pair, REFERENCE)}
    places = cut_openings(pair, BOOK, 6, 5, 2)
    *_, (_, fields, spread) = time_setups(pair, ways, replace(SETTINGS, max_new_tokens=6), places, 3, lambda share, doing: None)
    assert fields[REFERENCE]["tokens"] == 18 and spread >= 0.0


def test_the_names_of_setups_hold_the_numbers_that_are_served():
    assert SETUPS["top-k"].name == f"top-k {targets.TOP_K}" and f" {targets.TOP_K} most likely" in SETUPS["top-k"].description
    assert targets.WORD in SETUPS["ban"].name and SETUPS["penalty"].name.endswith(f" {targets.PENALTY:g}")
