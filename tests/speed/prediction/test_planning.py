"""plan: what a record says follows from its numbers, the command predicts and measures, and every bad input is a sentence.

No test looks at how fast anything is: seconds are given by hand, or only asked to be there.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.errors import TraceError
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import AcceptanceProbabilities
from specviz.speed.prediction import planning as prediction
from specviz.speed.prediction.planning import PlanForecast
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import MeasuredRow, RoundCostCurve, SpeedPlan

TEXT = (
    "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down over the hill, and all slept. "
    * 4
)
PROBES = 3
SHORT = ("--continuations", "4", "--opening", "8", "--max-new-tokens", "12", "--gammas", "1-3", "--probes", str(PROBES))


@pytest.fixture
def command_options(pair_folders, tmp_path):
    """The command on the tiny pair, with few runs of probes, and the file of its text."""
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    target, draft = map(str, pair_folders)
    return ["plan", "--target", target, "--draft", draft, "--device", "cpu", "--text", str(file), *SHORT], file


def curve(draft_token: float, runs: int = 5, wobble: float = 0.0) -> RoundCostCurve:
    """Rounds of 5 ms and ``draft_token`` ms more for each draft token; in every other run one with 4 draft tokens takes ``wobble`` longer, as a share."""
    plain = [5.0 + n * draft_token for n in range(5)]
    rounds = tuple((*plain[:4], plain[4] * (1.0 + wobble * (run % 2))) for run in range(runs))
    first = tuple((5.0, *one) for one in rounds)
    return RoundCostCurve((5.0,) * runs, rounds, first, {"draft": tuple(n * draft_token for n in range(5))})


def build_plan(draft_token: float, chance: float = 0.8, wobble: float = 0.0) -> SpeedPlan:
    """Twenty texts of forty places with one acceptance probability, planned by hand."""
    every = AcceptanceProbabilities.from_chain(np.full((20, 40), chance), 4)
    forecast, costs = PlanForecast(every, every, (1, 2, 3, 4)), curve(draft_token, wobble=wobble)
    factors, best = forecast.estimate_factors(costs)
    rows = [replace(forecast.build_row(g), factor=factors[g]) for g in (1, 2, 3, 4)]
    return SpeedPlan(Settings(), {"name": "x", "tokens": 9, "sha256": ""}, 20, 8, 40, tuple(rows), costs, best)


def test_a_cheap_draft_is_worth_long_chains_and_an_expensive_one_nothing():
    cheap, costly = build_plan(0.1), build_plan(4.6)
    rows = tuple(replace(row, linear=1.2, leviathan=row.gamma / 2.0) for row in cheap.rows)
    assert replace(cheap, rows=rows).chosen_by == {"accepted draft tokens": 4, "hazards": 1, "Leviathan": 4}
    assert cheap.verdict == "speculate" and cheap.best == Estimate(4.0, 4.0, 4.0, 20)
    assert costly.verdict == "do not speculate" and costly.best.value == 0.0
    assert "Do not speculate" in costly.in_words


def test_the_factor_is_tokens_over_the_seconds_of_the_rounds_that_are_made():
    """All draft tokens accepted, 40 places, gamma 4: eight rounds of 5 tokens."""
    row = build_plan(0.5, chance=1.0).find_row(4)
    assert row.tokens.value == pytest.approx(5.0)
    assert row.factor.value == pytest.approx(40 * 5.0 / (8 * 7.0))


def test_what_the_first_round_takes_longer_is_paid_once_for_every_text():
    """A prompt that the target reads in 30 ms and the draft in 10: both ways of writing 40 tokens pay for it once."""
    every = AcceptanceProbabilities.from_chain(np.ones((20, 40)), 4)
    plain = curve(0.5)
    slow = replace(plain, first=tuple((x + 30.0, *(y + 40.0 for y in more)) for x, *more in plain.first))
    factors, _ = PlanForecast(every, every, (4,)).estimate_factors(slow)
    assert factors[4].value == pytest.approx((40 * 5.0 + 30.0) / (8 * 7.0 + 40.0))


def test_a_machine_that_is_slower_for_whole_runs_changes_no_ratio():
    """Every other run takes twice as long, all probes alike: the same factors and intervals, and as steady."""
    every, calm = AcceptanceProbabilities.from_chain(np.full((20, 40), 0.8), 4), curve(0.1)
    slow = [1.0 + run % 2 for run in range(5)]
    torn = replace(
        calm,
        target_only=tuple(s * x for s, x in zip(slow, calm.target_only, strict=True)),
        rounds=tuple(tuple(s * x for x in run) for s, run in zip(slow, calm.rounds, strict=True)),
        first=tuple(tuple(s * x for x in run) for s, run in zip(slow, calm.first, strict=True)),
    )
    (one, best), (other, chosen) = (PlanForecast(every, every, (2, 4)).estimate_factors(costs) for costs in (calm, torn))
    assert best == chosen and [one[g].value for g in (2, 4)] == pytest.approx([other[g].value for g in (2, 4)])
    assert [one[g].low for g in (2, 4)] == pytest.approx([other[g].low for g in (2, 4)])
    assert torn.spread == pytest.approx(0.0)


def test_a_machine_that_wobbles_gets_no_verdict_and_a_reason():
    plan = build_plan(0.1, wobble=0.6)
    assert plan.verdict == "no verdict" and "busy" in plan.in_words
    assert build_plan(0.1, wobble=0.1).verdict == "speculate"


def test_the_chosen_gamma_is_compared_with_the_one_that_was_fastest_in_the_other_runs():
    point = Estimate(1.0, 1.0, 1.0, 6)
    rows = tuple(MeasuredRow(g, point, {}, point, rate) for g, rate in ((3, (9.0, 9.0, 30.0, 9.0, 9.0)), (4, (10.0,) * 5)))
    plan = replace(build_plan(0.1), best=Estimate(4.0, 4.0, 4.0, 20), checked=rows, target_only_rates=(5.0,) * 5)
    assert plan.lost == 0.0, "one fast run of gamma 3 is no evidence against gamma 4"
    assert replace(plan, best=Estimate(3.0, 3.0, 3.0, 20)).lost == pytest.approx(0.1)


def test_a_measurement_of_few_runs_or_of_runs_that_lie_far_apart_is_not_believed():
    point = Estimate(1.3, 1.2, 1.4, 6, "times")
    calm = replace(
        build_plan(0.1), machine={}, checked=(MeasuredRow(2, point, {}, point, (9.0, 9.0)),), target_only_rates=(7.0, 7.0)
    )
    assert calm.is_conclusive and build_plan(0.1).is_conclusive
    torn = replace(calm, checked=(replace(calm.checked[0], factor=replace(point, low=0.5)),))
    assert not torn.is_conclusive and "spans 69% of it" in torn.inconclusive_reason
    few = replace(calm, checked=(replace(calm.checked[0], factor=replace(point, n=5)),))
    assert not few.is_conclusive and "5 runs; fewer than 6" in few.inconclusive_reason


@pytest.mark.parametrize("temperature", (pytest.param(0.0, marks=pytest.mark.slow), 1.0))  # 0: test_acceptance.py
def test_the_command_predicts_measures_and_its_record_comes_back(command_options, capsys, temperature):
    code = main([*command_options[0], "--temperature", str(temperature), "--check", "--runs", "2", "--format", "json"])
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert code == (0 if plan.verdict != "no verdict" and plan.is_conclusive else 3)
    assert SpeedPlan.from_json(plan.to_json()) == plan
    assert [row.gamma for row in plan.rows] == [row.gamma for row in plan.checked] == [1, 2, 3]
    for row, measured in zip(plan.rows, plan.checked, strict=True):
        assert 1.0 <= row.tokens.low <= row.tokens.value <= row.tokens.high <= row.gamma + 1
        assert measured.gaps["accepted draft tokens"].value == pytest.approx(row.tokens.value / measured.tokens.value - 1.0)
        if temperature == 0.0:
            assert measured.gaps["accepted draft tokens"].value == pytest.approx(0.0, abs=1e-12)
    assert len(plan.target_only_rates) == 2 and plan.costs.parts.keys() == {"draft", "target", "rule", "rest"}
    assert len(plan.costs.target_only) == PROBES and all(
        abs(one.noise) < (1e-9 if temperature == 0.0 else 1.0) for one in plan.checked
    )


def test_without_the_clock_there_are_tokens_and_no_verdict_on_speed(command_options, capsys):
    assert main([*command_options[0], "--tokens-only", "--check"]) == 0
    said = capsys.readouterr().out
    assert "No verdict on speed" in said and "accepted draft tokens" in said and "times the target" not in said


def test_another_machines_costs_take_the_place_of_probes(command_options, capsys, monkeypatch):
    monkeypatch.setattr("specviz.speed.prediction.planning.RoundProbes", None)  # nothing is timed
    assert main([*command_options[0], "--costs", "h200-8b"]) == 0
    said = capsys.readouterr().out
    assert "Costs of H200, target of 8B: NVIDIA H200, 27 November 2026" in said and "Computed from both" in said
    assert "A draft of 28 layers beside this target of 36" in said and "middle half" not in said
    assert main([*command_options[0], "--costs", "two-cpu-cores", "--format", "json"]) == 0
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert plan.cost_model.title == "two CPU cores" and plan.models["draft"]["layers"] >= 1
    for row in plan.rows:
        cost = row.compute_mean_round(plan.costs.rounds[0]) / plan.costs.target_only[0]
        assert row.speedup.value == pytest.approx(row.tokens.value / cost) and sum(row.round_sizes) == pytest.approx(
            1.0, abs=1e-5
        )


def test_costs_that_cannot_be_used_are_a_sentence(command_options, capsys, tmp_path):
    broken = tmp_path / "costs.json"
    broken.write_text('{"schema": "specviz-costs-1", "title": "x"}')
    for costs, said in (("a100", "h200-1.7b, h200-8b, two-cpu-cores, or a file"), (str(broken), "lacks alone, conditions, date")):
        assert main([*command_options[0], "--costs", costs]) == 2
        assert said in capsys.readouterr().err


def test_a_copying_proposer_is_planned_like_any_chain(command_options, capsys):
    assert main(
        [*command_options[0], "--proposer", "ngram", "--temperature", "0", "--check", "--runs", "2", "--format", "json"]
    ) in (0, 3)
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert all(row.gaps["accepted draft tokens"].value == pytest.approx(0.0, abs=1e-12) for row in plan.checked)


def test_a_plan_of_retrieval_names_its_source_text_beside_the_text_to_plan_for(command_options, tmp_path, capsys):
    source = tmp_path / "source.txt"
    source.write_text("Once upon a time there was a rabbit. " * 10)
    more = ["--proposer", "retrieval", "--tokens-only", "--format", "json"]
    assert main([*command_options[0], *more, "--source-text", str(source)]) == 0
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert (plan.settings.source_text, plan.text["name"]) == (str(source), "text.txt")


@pytest.mark.parametrize(
    ("more", "said"),
    (
        (("--gammas", "4-2"), "from the smaller number to the larger, such as 2-4"),
        (("--gammas", "0-2"), "within 1 to 16"),
        (("--gammas", "two"), "a range such as 1-8"),
        (("--continuations", "1"), "from 2 to 4096"),
        (("--probes", "1"), "probes must be a whole number from 2 to 1000, or 0 for a plan without speed, got 1"),
        (("--opening", "100", "--max-new-tokens", "60"), "at most 128 tokens together"),
        (("--proposer", "tree"), "counts chains"),
        (("--texts", "4"), "--texts is called --continuations now."),
        (("--source-text", "dorothy"), "source-text"),
        (("--proposer", "retrieval", "--source-text", "/nowhere.txt"), "There is no text '/nowhere.txt'"),
        (("--proposer", "nobody"), "one of"),
    ),
)
def test_bad_numbers_and_names_are_a_sentence(command_options, capsys, more, said):
    assert main([*command_options[0], *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    (("Once upon", "at least 20 tokens long"), ("", "empty"), ("!" * 200, "more than one token"), ("\x00" * 0 + " \n", "empty")),
)
def test_a_text_that_nothing_can_be_planned_on_is_a_sentence(command_options, capsys, text, said):
    command_options[1].write_text(text)
    assert main(command_options[0]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_a_sentence(command_options, capsys):
    command_options[1].unlink()
    assert main(command_options[0]) == 2
    assert "a file with a text" in capsys.readouterr().err


def test_a_draft_that_is_the_target_is_refused(command_options, pair_folders, capsys):
    arguments = [str(pair_folders[0]) if word == str(pair_folders[1]) else word for word in command_options[0]]
    assert main(arguments) == 2
    assert "c = 1" in capsys.readouterr().err


def test_an_interrupt_ends_with_a_sentence(command_options, capsys, monkeypatch):
    def raise_interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("specviz.speed.prediction.planning.decode_texts", raise_interrupt)
    assert main(command_options[0]) == 130
    assert "nothing was planned" in capsys.readouterr().err


def test_a_long_plan_has_a_first_answer_and_stops_there_if_it_is_asked_to(command_options, capsys, monkeypatch):
    """Twelve continuations for the first answer; the plan that is printed is the refined one, unless ``--quick`` or a stop leaves none."""
    for module in ("specviz.cli.plan", "specviz.speed.prediction.plan_effort"):
        monkeypatch.setattr(f"{module}.QUICK_CONTINUATIONS", 2)
    efforts, make, stops = [], prediction.make_plan, [0]

    def count(pair, settings, text, gammas, effort, *rest, **named):
        efforts.append(effort)
        if len(efforts) == stops[0]:
            raise KeyboardInterrupt
        return make(pair, settings, text, gammas, effort, *rest, **named)

    monkeypatch.setattr(prediction, "make_plan", count)
    asked = [*command_options[0], "--tokens-only", "--continuations", "5", "--format", "json"]
    for more, stop, made, openings in (([], 0, [2, 5], 5), (["--quick"], 0, [2], 2), ([], 2, [2, 5], 2)):
        efforts.clear()
        stops[0] = stop
        assert main([*asked, *more]) == 0
        printed = capsys.readouterr()
        assert [one.continuations for one in efforts] == made and SpeedPlan.from_json(printed.out).openings == openings
        assert ("first answer" in printed.err) == (len(made) > 1)


def test_a_record_that_is_none_is_refused():
    whole = json.loads(build_plan(0.1).to_json())
    for damaged in ({**whole, "schema": "other"}, {k: v for k, v in whole.items() if k != "rows"}, {**whole, "more": 1}, []):
        with pytest.raises(TraceError):
            SpeedPlan.from_json(json.dumps(damaged))


PROMPTS = "The cat sat on the mat\nThen the sun\n\nOnce upon a time there was a dog, who ran to the brook\nThe hill\n"


@pytest.fixture
def prompt_options(command_options):
    """The command on prompts of several lengths in place of a text."""
    command, file = command_options
    file.write_text(PROMPTS)
    return [{"--text": "--prompts"}.get(word, word) for word in command], file


def test_prompts_are_continued_as_they_are_and_acceptance_is_told_by_position(prompt_options, capsys):
    """At temperature 0 the target's text is fixed, so the count is the decoder's own, prompt by prompt."""
    assert main([*prompt_options[0], "--temperature", "0", "--check", "--tokens-only", "--format", "json"]) == 0
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert (plan.openings, plan.opening, plan.text["prompts"], plan.of_prompts) == (4, 0, 4, True)
    assert [row.own_text for row in plan.rows] == [None] * 3 and "own text" not in plan.checked[0].gaps
    assert all(row.gaps["accepted draft tokens"].value == pytest.approx(0.0, abs=1e-12) for row in plan.checked)
    assert 1 <= len(plan.positions) <= 3 and all(0.0 <= one.low <= one.value <= one.high <= 1.0 for one in plan.positions)
    assert plan.positions[0].value * plan.rows[0].tokens.value > 0.0


def test_the_text_of_a_plan_shows_positions_and_leaves_out_what_prompts_do_not_have(prompt_options, capsys):
    assert main([*prompt_options[0], "--tokens-only"]) == 0
    said = capsys.readouterr().out
    assert "position  accepted, of the draft tokens checked there (gamma 3)" in said and "each continued by 12 tokens" in said
    assert "Own text:" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("one alone\n", "prompts must be 2 to 4,096, each on a line of its own, got 1 line."),
        ("a\n" * 4097, "got 4,097 lines"),
        ("short\n" + "The cat sat. " * 60, "prompt 2 is too long: "),
    ),
)
def test_prompts_that_cannot_be_used_are_a_sentence(prompt_options, capsys, text, said):
    prompt_options[1].write_text(text)
    assert main(prompt_options[0]) == 2
    assert said in capsys.readouterr().err


def test_a_plan_wants_a_text_or_prompts_and_not_both(command_options, capsys):
    both = [*command_options[0], "--prompts", str(command_options[1])]
    neither = [word for word in command_options[0] if word not in ("--text", str(command_options[1]))]
    for command in (both, neither):
        assert main(command) == 2
        assert "A plan needs exactly one of --text FILE and --prompts FILE" in capsys.readouterr().err


def test_positions_are_accepted_over_checked_and_their_intervals_resample_texts():
    """Two kinds of text, half accept every first draft token and half none; the second position is reached by the former alone."""
    chances = np.zeros((20, 1, 2))
    chances[:10] = (1.0, 0.5)
    every = AcceptanceProbabilities(chances.repeat(3, axis=1), np.full((20, 3), 2))
    first, second = PlanForecast(every, every, (2,)).estimate_positions()
    assert second.value == second.low == second.high == pytest.approx(0.5)
    assert first.low < first.value < first.high and first.n == 20
    nothing = AcceptanceProbabilities(np.zeros((4, 5, 3)), np.full((4, 5), 3))
    assert len(PlanForecast(nothing, nothing, (3,)).estimate_positions()) == 1, "no round reaches a second position"
