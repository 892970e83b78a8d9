"""Adaptive draft lengths are timed against the best fixed length. Tested here: who runs, in which order, and what is taken out.

No test looks at how fast anything is.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.__main__ import main
from specviz.proposers.adaptive import DRAFT_LENGTH_POLICIES
from specviz.settings import Settings
from specviz.speed.benchmarks import draft_length_policies
from specviz.speed.benchmarks.draft_length_policies import (
    BEST_FIXED,
    BEST_FIXED_AGAIN,
    CEILING,
    FIXED_LENGTHS,
    UntimedModel,
    compare_policies,
)
from specviz.speed.records.estimate import Estimate


@pytest.fixture(scope="module")
def comparison(pair):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft_length_policies, "PROMPTS", {"one": "Once upon a time"})
        (found,) = compare_policies(pair, length=8, runs=2, temperatures=(1.0,), log=lambda _: None)
    return found


def test_every_policy_stands_beside_the_best_fixed_length_and_its_second_run(comparison):
    assert set(comparison.fixed) == set(FIXED_LENGTHS) and comparison.best in FIXED_LENGTHS
    assert comparison.fixed[comparison.best].value == max(rate.value for rate in comparison.fixed.values())
    assert list(comparison.paired)[:2] == [BEST_FIXED, BEST_FIXED_AGAIN]
    assert set(comparison.paired) - {BEST_FIXED, BEST_FIXED_AGAIN} == set(DRAFT_LENGTH_POLICIES) - {"fixed"}
    assert comparison.paired[BEST_FIXED].gain == Estimate(1.0, 1.0, 1.0, 2, "times")


def test_the_same_length_under_the_same_seeds_writes_the_same_texts_twice(comparison):
    best, again = comparison.paired[BEST_FIXED], comparison.paired[BEST_FIXED_AGAIN]
    assert (best.tokens_per_pass, best.draft_tokens, best.accepted) == (again.tokens_per_pass, again.draft_tokens, again.accepted)
    for row in comparison.paired.values():
        assert row.tokens_per_pass == pytest.approx(1 + row.draft_tokens * row.accepted), (
            "the accepted tokens, and one more per pass"
        )
        assert row.rate.low <= row.rate.value <= row.rate.high and 0 <= row.accepted <= 1


def test_runs_are_interleaved_and_nobody_always_goes_first(pair, monkeypatch):
    monkeypatch.setattr(draft_length_policies, "PROMPTS", {"one": "Once"})
    seen = []
    monkeypatch.setattr(
        draft_length_policies,
        "_decode_prompt",
        lambda pair, settings, ids, lap: seen.append((settings.seed, settings.gamma)) or [],
    )
    clock = draft_length_policies.time_settings(pair, {name: Settings(gamma=name) for name in (1, 2, 3)}, 2, lambda _: None)
    assert seen == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (1, 1), (2, 3), (2, 1), (2, 2)]
    assert all(len(clock.get_seconds(name)) == 2 for name in (1, 2, 3)), "the first run warms up"


def test_the_ceilings_looks_at_the_target_are_taken_out_of_its_seconds(pair, monkeypatch):
    monkeypatch.setattr(
        UntimedModel,
        "compute_distributions",
        lambda self, rows, block: self.lap.exclude(1000.0) or self.source.compute_distributions(rows, block),
    )
    monkeypatch.setattr(draft_length_policies, "PROMPTS", {"one": "Once upon a time"})
    settings = Settings(draft_length_policy=CEILING, max_new_tokens=4)
    clock = draft_length_policies.time_settings(
        pair, {CEILING: settings, "none": replace(settings, draft_length_policy="fixed")}, 1, lambda _: None
    )
    assert clock.get_seconds(CEILING)[0] < 0.0 < clock.get_seconds("none")[0]


def test_the_comparison_is_printed_with_its_noise(pair_folders, capsys, monkeypatch):
    monkeypatch.setattr(draft_length_policies, "PROMPTS", {"one": "Once upon a time"})
    monkeypatch.setattr(draft_length_policies, "FIXED_LENGTHS", (1, 2))
    folders = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--device", "cpu"]
    assert main(["bench", "policies", *folders, "--runs", "1", "--max-new-tokens", "8"]) == 0
    said = capsys.readouterr().out
    assert "best fixed length" in said and "best fixed, again" in said and "what noise alone does to a ratio" in said
