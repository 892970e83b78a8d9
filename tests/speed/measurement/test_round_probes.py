"""What plan puts on the clock: probes that go on like a run, and texts that all lengths write side by side.

Nothing here looks at how fast anything is, only at what is done and in which order.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.settings import Settings
from specviz.speed.measurement import costs
from specviz.speed.prediction import planning
from tests.speed.prediction.test_planning import PROBES, command_options  # noqa: F401


def test_every_text_is_timed_once_and_all_lengths_write_the_same_ones_in_a_run(monkeypatch):
    seen = []
    monkeypatch.setattr(
        planning, "_count_rounds", lambda pair, settings, prompt: seen.append((settings.seed, settings.gamma, prompt)) or 2
    )
    prompts = [(n,) for n in range(7)]
    shares, parts = [], planning.split_into_runs(prompts, 3)
    clock = planning.time_gammas(None, Settings(), (0, 1, 2), parts, between=shares.append)
    assert [len(part) for part in parts] == [3, 2, 2]
    assert all(sum(clock.get_kept(gamma)) == 14 for gamma in (0, 1, 2)), "the text that warms up is not counted"
    assert len(shares) == 8 and shares == sorted(shares) and shares[-1] == 1.0
    assert all(len(clock.get_seconds(gamma)) == 3 for gamma in (0, 1, 2))
    counted = [one for one in seen if one[0] > Settings().seed + 100]
    for gamma in (0, 1, 2):
        assert sorted(prompt for _, g, prompt in counted if g == gamma) == prompts
    for seed in {seed for seed, _, _ in counted}:
        texts = [{p for s, g, p in counted if (s, g) == (seed, gamma)} for gamma in (0, 1, 2)]
        assert texts[0] == texts[1] == texts[2]
    assert [len(part) for part in planning.split_into_runs(prompts[:2], 3)] == [1, 1, 1]


def test_a_text_is_written_by_all_lengths_before_the_next_begins_and_each_goes_first_equally_often(monkeypatch):
    """A burst of other work then meets all contestants alike, and none has the caches as the one before left them more often."""
    seen = []
    monkeypatch.setattr(planning, "_count_rounds", lambda pair, settings, prompt: seen.append((prompt, settings.gamma)) or 1)
    planning.time_gammas(None, Settings(), (0, 1, 2), planning.split_into_runs([(n,) for n in range(6)], 2))
    threes = [seen[n : n + 3] for n in range(3, len(seen), 3)]
    assert len(threes) == 6
    assert all(len({prompt for prompt, _ in three}) == 1 and {gamma for _, gamma in three} == {0, 1, 2} for three in threes)
    assert sorted(three[0][1] for three in threes) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("proposer", ("draft", pytest.param("ngram", marks=pytest.mark.slow)))
def test_probes_go_on_like_a_run_from_places_spread_over_the_text_and_never_past_its_end(pair, monkeypatch, proposer):
    """Every stretch is opened, reads the prompt, and each of its rounds begins where the one before ended, unless the text is full."""
    seen = []
    plain = costs.step

    def watched(rows, *more):
        (found,) = plain(rows, *more)
        seen.append((rows[0], len(found.proposals), len(found.committed)))
        return [found]

    monkeypatch.setattr(costs, "step", watched)
    prompt, tokens = tuple(range(10, 18)), list(range(20, 60))
    probes = costs.RoundProbes(pair, Settings(proposer=proposer, seed=3), [(prompt, tokens)], 3)
    probes.run_until(8)
    per = 1 + costs.WARM_ROUNDS + costs.TIMED_ROUNDS
    stretches = [seen[first : first + per] for first in range(0, len(seen), per)]
    assert len(stretches) == 10 * 5 and len(probes.build_curve().target_only) == len(probes.build_curve().first) == 8
    places = {n: [] for n in range(4)}
    for (first, _, _), *rounds in stretches:
        assert first.ids == prompt and first.remaining == len(tokens)
        draft_tokens, (begin, _, _) = rounds[-1][1], rounds[0]
        assert begin.ids == (*prompt, *tokens[: begin.start]) and all(
            made == draft_tokens < row.remaining for row, made, _ in rounds
        )
        for (row, _, written), (after, _, _) in pairwise(rounds):
            assert after.start == row.start + written or (after == begin and row.remaining - written <= draft_tokens)
        places[draft_tokens].append(begin.start / (len(tokens) - draft_tokens))
    for found in places.values():
        gaps = np.diff([0.0, *sorted(found), 1.0])
        assert gaps.max() < 0.25, "ten places, or twenty of rounds without draft tokens"


def test_sizes_that_are_not_timed_lie_on_lines_between_those_that_are(pair):
    probes = costs.RoundProbes(pair, Settings(seed=3), [(tuple(range(10, 18)), list(range(20, 60)))], 4, (0, 1, 4), warm_runs=1)
    curve = probes.run_until(2).build_curve()
    assert set(probes.clock.contestants) == {costs.TARGET_ONLY, 0, 1, 4} and len(curve.rounds) == len(curve.first) == 2
    for run in curve.rounds:
        assert len(run) == 5 and run[2] == pytest.approx(run[1] + (run[4] - run[1]) / 3)
    assert [len(one) for one in curve.first] == [6, 6] and {len(one) for one in curve.parts.values()} == {5}


def test_under_a_check_probes_are_taken_between_texts_and_never_within_one(command_options, capsys, monkeypatch):  # noqa: F811
    """What slows the machine down for a minute then affects both the prediction and the measurement."""
    seen = []
    place, text = costs.RoundProbes._locate_run, planning._count_rounds  # asked for once a run
    monkeypatch.setattr(costs.RoundProbes, "_locate_run", lambda self, run: seen.append("probe") or place(self, run))
    monkeypatch.setattr(planning, "_count_rounds", lambda *a: seen.append("text") or text(*a))
    main([*command_options[0], "--check", "--runs", "2"])
    *texts, rest = re.split("(?:probe)+", "".join(seen).replace("text", "t"))
    assert rest == "" and seen.count("probe") == PROBES + costs.WARM_RUNS and seen.count("text") == 5 * 4
    assert len(texts) == PROBES and all(len(one) % 4 == 0 for one in texts), "the target alone and three lengths write each text"
