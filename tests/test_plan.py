"""plan: what a record says follows from its numbers, the command predicts and measures, and every bad input is a sentence.

No test looks at how fast anything is: seconds are given by hand, or only asked to be there.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.commands import bench as bench_command
from specviz.errors import TraceError
from specviz.planning import cost_curve, plan_run
from specviz.planning.forecast import Forecast
from specviz.planning.kept_guess import Chances
from specviz.planning.plan import Checked, Curve, Interval, Plan
from specviz.settings import Settings

TEXT = (
    "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down over the hill, and all slept. "
    * 4
)
PROBES = 3
SHORT = ("--texts", "4", "--opening", "8", "--max-new-tokens", "12", "--gammas", "1-3")


@pytest.fixture
def asked(pair_folders, tmp_path, monkeypatch):
    """The command on the tiny pair, with few turns of probes, and the file of its text."""
    monkeypatch.setattr(plan_run, "Effort", partial(plan_run.Effort, probes=PROBES))
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    target, draft = map(str, pair_folders)
    return ["plan", "--target", target, "--draft", draft, "--device", "cpu", "--text", str(file), *SHORT], file


def curve(guess: float, turns: int = 5, wobble: float = 0.0) -> Curve:
    """Rounds of 5 ms and ``guess`` ms more for each guess; in every other turn one with 4 guesses takes ``wobble`` longer, as a share."""
    plain = [5.0 + n * guess for n in range(5)]
    rounds = tuple((*plain[:4], plain[4] * (1.0 + wobble * (turn % 2))) for turn in range(turns))
    first = tuple((5.0, *one) for one in rounds)
    return Curve((5.0,) * turns, rounds, first, {"draft": tuple(n * guess for n in range(5))})


def planned(guess: float, chance: float = 0.8, wobble: float = 0.0) -> Plan:
    """Twenty texts of forty places that all have one chance, planned by hand."""
    every = Chances.of_chain(np.full((20, 40), chance), 4)
    forecast, costs = Forecast(every, every, (1, 2, 3, 4)), curve(guess, wobble=wobble)
    factors, best = forecast.factors(costs)
    rows = [replace(forecast.row(g), factor=factors[g]) for g in (1, 2, 3, 4)]
    return Plan(Settings(), {"name": "x", "tokens": 9, "sha256": ""}, 20, 8, 40, tuple(rows), costs, best)


def test_a_cheap_draft_is_worth_long_blocks_and_a_dear_one_nothing():
    cheap, dear = planned(0.1), planned(4.6)
    rows = tuple(replace(row, linear=1.2, leviathan=row.gamma / 2.0) for row in cheap.rows)
    assert replace(cheap, rows=rows).chosen_by == {"kept guesses": 4, "hazards": 1, "Leviathan": 4}
    assert cheap.verdict == "speculate" and cheap.best == Interval(4.0, 4.0, 4.0)
    assert dear.verdict == "do not speculate" and dear.best.value == 0.0
    assert "Do not speculate" in dear.in_words


def test_the_factor_is_tokens_over_the_seconds_of_the_rounds_that_are_made():
    """All guesses kept, 40 places, gamma 4: eight rounds of 5 tokens, the last with room for all of them."""
    row = planned(0.5, chance=1.0).row(4)
    assert row.tokens.value == pytest.approx(5.0)
    assert row.factor.value == pytest.approx(40 * 5.0 / (8 * 7.0))


def test_what_the_first_round_takes_longer_is_paid_once_for_every_text():
    """A prompt that the target reads in 30 ms and the draft in 10: both ways of writing 40 tokens pay for it once."""
    every = Chances.of_chain(np.ones((20, 40)), 4)
    plain = curve(0.5)
    slow = replace(plain, first=tuple((x + 30.0, *(y + 40.0 for y in more)) for x, *more in plain.first))
    factors, _ = Forecast(every, every, (4,)).factors(slow)
    assert factors[4].value == pytest.approx((40 * 5.0 + 30.0) / (8 * 7.0 + 40.0))


def test_a_machine_that_is_slower_for_whole_turns_changes_no_ratio():
    """Every other turn takes twice as long, all probes alike: the same factors and intervals, and as steady."""
    every, calm = Chances.of_chain(np.full((20, 40), 0.8), 4), curve(0.1)
    slow = [1.0 + turn % 2 for turn in range(5)]
    torn = replace(
        calm,
        alone=tuple(s * x for s, x in zip(slow, calm.alone, strict=True)),
        rounds=tuple(tuple(s * x for x in turn) for s, turn in zip(slow, calm.rounds, strict=True)),
        first=tuple(tuple(s * x for x in turn) for s, turn in zip(slow, calm.first, strict=True)),
    )
    (one, best), (other, chosen) = (Forecast(every, every, (2, 4)).factors(costs) for costs in (calm, torn))
    assert best == chosen and [one[g].value for g in (2, 4)] == pytest.approx([other[g].value for g in (2, 4)])
    assert [one[g].low for g in (2, 4)] == pytest.approx([other[g].low for g in (2, 4)])
    assert torn.spread == pytest.approx(0.0)


def test_a_machine_that_wobbles_gets_no_verdict_and_is_told_why():
    plan = planned(0.1, wobble=0.6)
    assert plan.verdict == "no verdict" and "busy" in plan.in_words
    assert planned(0.1, wobble=0.1).verdict == "speculate"


def test_the_chosen_gamma_is_held_against_the_one_that_was_fastest_in_the_other_turns():
    point = Interval(1.0, 1.0, 1.0)
    rows = tuple(Checked(g, point, {}, point, rate) for g, rate in ((3, (9.0, 9.0, 30.0, 9.0, 9.0)), (4, (10.0,) * 5)))
    plan = replace(planned(0.1), best=Interval(4.0, 4.0, 4.0), checked=rows, alone=(5.0,) * 5)
    assert plan.lost == 0.0, "one lucky turn of gamma 3 is not held against gamma 4"
    assert replace(plan, best=Interval(3.0, 3.0, 3.0)).lost == pytest.approx(0.1)


def test_a_measurement_whose_turns_lie_far_apart_is_not_believed():
    point = Interval(1.3, 1.2, 1.4)
    calm = replace(planned(0.1), machine={}, checked=(Checked(2, point, {}, point, (9.0, 9.0)),), alone=(7.0, 7.0))
    assert calm.believed and planned(0.1).believed
    torn = replace(calm, checked=(replace(calm.checked[0], factor=Interval(0.9, 0.5, 1.3)),))
    assert not torn.believed


@pytest.mark.parametrize("temperature", (0.0, 1.0))
def test_the_command_predicts_measures_and_its_record_comes_back(asked, capsys, temperature):
    code = main([*asked[0], "--temperature", str(temperature), "--check", "--turns", "2", "--format", "json"])
    plan = Plan.from_json(capsys.readouterr().out)
    assert code == (0 if plan.verdict != "no verdict" and plan.believed else 3)
    assert Plan.from_json(plan.to_json()) == plan
    assert [row.gamma for row in plan.rows] == [row.gamma for row in plan.checked] == [1, 2, 3]
    for row, measured in zip(plan.rows, plan.checked, strict=True):
        assert 1.0 <= row.tokens.low <= row.tokens.value <= row.tokens.high <= row.gamma + 1
        assert measured.gaps["kept guesses"].value == pytest.approx(row.tokens.value / measured.tokens.value - 1.0)
        if temperature == 0.0:
            assert measured.gaps["kept guesses"].value == pytest.approx(0.0, abs=1e-12)
    assert len(plan.alone) == 2 and plan.costs.parts.keys() == {"draft", "target", "rule", "rest"}
    assert len(plan.costs.alone) == PROBES and all(abs(one.luck) < (1e-9 if temperature == 0.0 else 1.0) for one in plan.checked)


def test_without_the_clock_there_are_tokens_and_no_verdict_on_speed(asked, capsys):
    assert main([*asked[0], "--tokens-only", "--check"]) == 0
    said = capsys.readouterr().out
    assert "No verdict on speed" in said and "kept guesses" in said and "times the target" not in said


def test_a_copying_proposer_is_planned_like_any_chain(asked, capsys):
    assert main([*asked[0], "--proposer", "ngram", "--temperature", "0", "--check", "--turns", "2", "--format", "json"]) in (0, 3)
    plan = Plan.from_json(capsys.readouterr().out)
    assert all(row.gaps["kept guesses"].value == pytest.approx(0.0, abs=1e-12) for row in plan.checked)


@pytest.mark.parametrize(
    ("more", "said"),
    (
        (("--gammas", "4-2"), "from the smaller number to the larger, such as 2-4"),
        (("--gammas", "0-2"), "within 1 to 16"),
        (("--gammas", "two"), "a range such as 1-8"),
        (("--texts", "1"), "from 2 to 4096"),
        (("--opening", "100", "--max-new-tokens", "60"), "at most 128 tokens together"),
        (("--proposer", "tree"), "counts chains"),
        (("--proposer", "nobody"), "one of"),
    ),
)
def test_bad_numbers_and_names_are_a_sentence(asked, capsys, more, said):
    assert main([*asked[0], *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    (("Once upon", "at least 20 tokens long"), ("", "empty"), ("!" * 200, "more than one token"), ("\x00" * 0 + " \n", "empty")),
)
def test_a_text_that_nothing_can_be_planned_on_is_a_sentence(asked, capsys, text, said):
    asked[1].write_text(text)
    assert main(asked[0]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_a_sentence(asked, capsys):
    asked[1].unlink()
    assert main(asked[0]) == 2
    assert "a file with a text" in capsys.readouterr().err


def test_a_draft_that_is_the_target_is_refused(asked, pair_folders, capsys):
    arguments = [str(pair_folders[0]) if word == str(pair_folders[1]) else word for word in asked[0]]
    assert main(arguments) == 2
    assert "c = 1" in capsys.readouterr().err


def test_an_interrupt_ends_with_a_sentence(asked, capsys, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("specviz.planning.plan_run.written", stopped)
    assert main(asked[0]) == 130
    assert "nothing was planned" in capsys.readouterr().err


def test_a_record_that_is_none_is_refused():
    whole = json.loads(planned(0.1).to_json())
    for damaged in ({**whole, "schema": "other"}, {k: v for k, v in whole.items() if k != "rows"}, {**whole, "more": 1}, []):
        with pytest.raises(TraceError):
            Plan.from_json(json.dumps(damaged))


def test_a_bench_whose_turns_lie_far_apart_gives_no_verdict():
    ratio = {"median": 1.5, "low": 1.4, "high": 1.6}
    assert bench_command.unsteady([{"temperature": 1.0, "ratio": {"speculative / baseline": ratio}}]) == ""
    wide = {"speculative / baseline": ratio | {"high": 2.4}}
    assert "No verdict: at temperature 0" in bench_command.unsteady([{"temperature": 0.0, "ratio": wide}])


def test_every_text_is_timed_once_and_all_lengths_write_the_same_ones_in_a_turn(monkeypatch):
    seen = []
    monkeypatch.setattr(
        plan_run, "_one_text", lambda pair, settings, prompt: seen.append((settings.seed, settings.gamma, prompt)) or 2
    )
    prompts = [(n,) for n in range(7)]
    shares = []
    seconds, sizes, rounds = plan_run.timed(None, Settings(), (0, 1, 2), prompts, 3, lambda share: None, shares.append)
    assert sizes == [3, 2, 2] and rounds == dict.fromkeys((0, 1, 2), 14), "the text that warms up is not counted"
    assert (
        len(shares) == 8
        and shares == sorted(shares)
        and shares[-1] == 1.0
        and all(len(values) == 3 for values in seconds.values())
    )
    counted = [one for one in seen if one[0] > Settings().seed + 100]
    for gamma in (0, 1, 2):
        assert sorted(prompt for _, g, prompt in counted if g == gamma) == prompts
    for seed in {seed for seed, _, _ in counted}:
        texts = [{p for s, g, p in counted if (s, g) == (seed, gamma)} for gamma in (0, 1, 2)]
        assert texts[0] == texts[1] == texts[2]
    assert plan_run.timed(None, Settings(), (0,), prompts[:2], 3, lambda share: None)[1] == [1, 1, 1]


def test_a_text_is_written_by_all_lengths_before_the_next_begins_and_each_goes_first_equally_often(monkeypatch):
    """A burst of other work then meets all contestants alike, and none has the caches as the one before left them more often."""
    seen = []
    monkeypatch.setattr(plan_run, "_one_text", lambda pair, settings, prompt: seen.append((prompt, settings.gamma)) or 1)
    plan_run.timed(None, Settings(), (0, 1, 2), [(n,) for n in range(6)], 2, lambda share: None)
    threes = [seen[n : n + 3] for n in range(3, len(seen), 3)]
    assert len(threes) == 6
    assert all(len({prompt for prompt, _ in three}) == 1 and {gamma for _, gamma in three} == {0, 1, 2} for three in threes)
    assert sorted(three[0][1] for three in threes) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("proposer", ("draft", "ngram"))
def test_probes_go_on_like_a_run_from_places_spread_over_the_text_and_never_past_its_end(pair, monkeypatch, proposer):
    """Every stretch is opened, reads the prompt, and each of its rounds begins where the one before ended, unless the text is full."""
    seen = []
    plain = cost_curve.step

    def watched(rows, *asked):
        (found,) = plain(rows, *asked)
        seen.append((rows[0], len(found.proposals), len(found.committed)))
        return [found]

    monkeypatch.setattr(cost_curve, "step", watched)
    prompt, tokens = tuple(range(10, 18)), list(range(20, 60))
    probes = cost_curve.Probes(pair, Settings(proposer=proposer, seed=3), [(prompt, tokens)], 3)
    probes.until(8)
    per = 1 + cost_curve.WARM + cost_curve.TIMED
    stretches = [seen[first : first + per] for first in range(0, len(seen), per)]
    assert len(stretches) == 10 * 5 and len(probes.curve().alone) == len(probes.curve().first) == 8
    places = {n: [] for n in range(4)}
    for (first, _, _), *rounds in stretches:
        assert first.ids == prompt and first.room == len(tokens)
        guesses, (begin, _, _) = rounds[-1][1], rounds[0]
        assert begin.ids == (*prompt, *tokens[: begin.start]) and all(made == guesses < row.room for row, made, _ in rounds)
        for (row, _, written), (after, _, _) in pairwise(rounds):
            assert after.start == row.start + written or (after == begin and row.room - written <= guesses)
        places[guesses].append(begin.start / (len(tokens) - guesses))
    for found in places.values():
        gaps = np.diff([0.0, *sorted(found), 1.0])
        assert gaps.max() < 0.25, "ten places, or twenty of rounds without guesses"


def test_under_a_check_probes_are_taken_between_texts_and_never_within_one(asked, capsys, monkeypatch):
    """What slows the machine down for a minute then meets both the prediction and what it is held against."""
    seen = []
    probe, text = cost_curve.Probes.turn, plan_run._one_text
    monkeypatch.setattr(cost_curve.Probes, "turn", lambda self: seen.append("probe") or probe(self))
    monkeypatch.setattr(plan_run, "_one_text", lambda *a: seen.append("text") or text(*a))
    main([*asked[0], "--check", "--turns", "2"])
    *texts, rest = re.split("(?:probe)+", "".join(seen).replace("text", "t"))
    assert rest == "" and seen.count("probe") == PROBES + cost_curve.WARM_TURNS and seen.count("text") == 5 * 4
    assert len(texts) == PROBES and all(len(one) % 4 == 0 for one in texts), "the target alone and three lengths write each text"
