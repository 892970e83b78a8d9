"""How fast?: recorded plans open without torch, links lead back, a plan takes its place, pictures show the record's numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from specviz.errors import CancelledError, TraceError
from specviz.jobs.queue import FairQueue, Ticket
from specviz.models.fast_llama.products import HALVED
from specviz.settings import Settings
from specviz.speed.records import headline
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import PLAN_CHOICES, PLAN_DRAFTS, PLAN_GAMMAS, PLANS_SCHEMA, PlanChoice, dump_plans, load_plans
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor
from specviz.web.drafting_methods.state import load_recorded_comparisons
from specviz.web.speed import batch_figures, export, other_speeds, surface_figures, timeline_figures, view, words, work
from specviz.web.speed import plan_figures as figures
from specviz.web.speed import study_figures as fast_study
from specviz.web.speed.round_model import (
    RoundParts,
    build_headline_model,
    build_machine_model,
    build_plan_model,
    build_unknown_model,
)
from specviz.web.speed.state import (
    SpeedQuestion,
    SpeedState,
    choose_rounds,
    load_batches,
    load_example_text,
    load_gpu_costs,
    load_recorded_plans,
    load_study,
)
from tests.helpers.pages import PROMPT, FreeTicket, draw_first_paint
from tests.speed.prediction.test_planning import TEXT, build_plan, curve

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def ready_page(page_pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are, and texts are short."""
    for name, value in {"TEXTS": 3, "OPENING": 8, "LENGTH": 12, "PROBES": 2, "GAMMAS": (1, 2, 3)}.items():
        monkeypatch.setattr(work, name, value)


@pytest.fixture(scope="module")
def recorded_plan():
    return load_recorded_plans()["storybook 1"]


def open_page(query: dict[str, str]) -> dict:
    """What the first paint shows, in a process where torch cannot be imported."""
    return draw_first_paint("speed", query, f'{PROMPT}, "captions": [one.value for one in app.caption]')


def test_the_recorded_plan_opens_without_torch_and_says_where_it_was_made(recorded_plan):
    seen = open_page({"tab": "text"})
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], load_example_text())
    assert seen["figures"] == 2 and "Predict for this text" in seen["buttons"]
    assert sum("Best here" in one for one in seen["captions"]) == 1, "one place names the best number"
    assert any(
        one.startswith("Recorded: Storybook, temperature 1") and "bedtime.txt" in one and "cores" in one for one in seen["text"]
    )


def test_the_recorded_plans_hold_every_draft_at_every_temperature_and_their_measurement():
    """Twice the half width of a 95% interval is four standard errors: beyond it one gap in 16,000 lies by chance, and here are 36."""
    found = load_recorded_plans()
    assert list(found) == [choice.key for choice in PLAN_CHOICES]
    for choice in PLAN_CHOICES:
        one = found[choice.key]
        assert one.settings == replace(choice.build_settings(Settings()), gamma=PLAN_GAMMAS[-1], max_new_tokens=one.length)
        assert [row.gamma for row in one.rows] == [row.gamma for row in one.checked] == list(PLAN_GAMMAS)
        for row in one.checked:
            gap = row.gaps["accepted draft tokens"]
            assert abs(gap.value) <= gap.high - gap.low + 1e-9
            if choice.temperature == "0":
                assert gap.value == pytest.approx(0.0, abs=1e-9)


def test_plans_come_back_and_damage_is_refused():
    text = dump_plans({"x": build_plan(0.1)})
    assert load_plans(text) == {"x": build_plan(0.1)}
    for damaged in ("[]", "{}", text[:-5], text.replace(f'"{PLANS_SCHEMA.tag}"', '"other"'), text.replace('"rows"', '"lines"')):
        with pytest.raises(TraceError):
            load_plans(damaged)


def test_the_picture_of_tokens_shows_every_formula_and_the_measurement(recorded_plan):
    figure = figures.plot_tokens(recorded_plan)
    named = {trace.name: trace for trace in figure.data}
    assert list(named["predicted"].y) == [row.tokens.value for row in recorded_plan.rows]
    assert list(named[figures.PER_POSITION].y) == [row.hazards for row in recorded_plan.rows]
    assert list(named["one alpha"].y) == [row.independent for row in recorded_plan.rows]
    assert list(named["measured"].y) == [row.tokens.value for row in recorded_plan.checked]
    band = named["middle 95%"]
    assert list(band.y) == [
        *(row.tokens.high for row in recorded_plan.rows),
        *(row.tokens.low for row in recorded_plan.rows[::-1]),
    ]
    assert figure.layout.yaxis.title.text == "tokens per target pass"
    worst = max(abs(row.gaps["accepted draft tokens"].value) for row in recorded_plan.checked)
    assert f"is within {worst:.1%} of the measurement" in figures.describe_tokens(recorded_plan)
    assert "equals the measurement" in figures.describe_tokens(load_recorded_plans()["ngram 0"])


def test_the_picture_of_speed_shows_the_factors_of_its_plan(recorded_plan):
    """Prediction with its band, measurement with its intervals, and nothing else but the line of 1."""
    named = {trace.name: trace for trace in figures.plot_factors(recorded_plan).data}
    assert list(named) == ["middle 95%", "predicted", "measured"]
    assert list(named["predicted"].y) == [row.factor.value for row in recorded_plan.rows]
    assert list(named["measured"].y) == [row.factor.value for row in recorded_plan.checked]
    assert "measured" not in {trace.name for trace in figures.plot_factors(build_plan(0.1)).data}, "nothing was"


def test_the_sentence_under_the_speeds_counts_the_predictions_that_miss_and_names_the_worst(recorded_plan):
    measured = {one.gamma: one.factor for one in recorded_plan.checked}
    missed = [
        row.gamma for row in recorded_plan.rows if not measured[row.gamma].low <= row.factor.value <= measured[row.gamma].high
    ]
    worst = max(recorded_plan.rows, key=lambda row: abs(row.factor.value / measured[row.gamma].value - 1.0))
    said, off = figures.describe_gap(recorded_plan), worst.factor.value / measured[worst.gamma].value - 1.0
    assert f"{8 - len(missed)} of 8 lie within the bars" in said
    assert f"too {'high' if off > 0.0 else 'low'}, by at most {abs(off):.0%} (at {worst.gamma} draft tokens)" in said
    assert all(row.factor.value > measured[row.gamma].value for row in recorded_plan.rows), "so it says that all are too high"
    assert "Every prediction is too high" in said and figures.describe_gap(build_plan(0.1)) == "", "nothing was measured"


@pytest.mark.parametrize("key", [choice.key for choice in PLAN_CHOICES])
def test_the_best_length_stands_with_both_its_speeds_or_none_is_advised(key):
    plan = load_recorded_plans()[key]
    number, said = figures.describe_best(plan)
    row = figures.choose_row(plan)
    measured = next(one.factor for one in plan.checked if one.gamma == row.gamma)
    assert f"predicted {row.factor.value:.2f}×" in said and f"measured {measured.value:.2f}×" in said
    assert (number == str(row.gamma)) == (plan.verdict == "speculate") and (number == "Do not draft") == (
        plan.verdict != "speculate"
    )


def test_a_second_speed_of_the_pair_stands_beside_why_it_is_not_the_first():
    """The text differs, and with it how often its draft tokens are accepted: the reason points the way of the difference."""
    state = SpeedState(SpeedQuestion(load_example_text()), FairQueue())
    plan, bench = state.shown_result, headline.get_round("1")
    row = next(one for one in plan.checked if one.gamma == headline.load_headline().gamma)
    said = words.introduce_plan(state, plan)
    assert f"accepted {'less' if row.tokens.value < bench.tokens else 'more'} often than those of the benchmark" in said
    assert said.endswith(f"{row.factor.value:.2f}× is measured here, not {bench.factor:.2f}×.")
    assert (row.tokens.value < bench.tokens) == (row.factor.value < bench.factor), "the reason points the way of the difference"
    assert "not 1" not in words.introduce_plan(state, load_recorded_plans()["ngram 1"]), "another draft has no headline"


def test_many_texts_begin_at_the_headline_and_say_what_the_sliders_say():
    batches = load_batches()
    model, sizes = build_headline_model(batches), batches.rows
    figure = batch_figures.plot_model_speeds(model, batches)
    speeds = next(trace.y for trace in figure.data if trace.name == "with a draft")
    assert speeds[0] == pytest.approx(headline.get_speed("1").value)
    assert list(speeds) == [
        max(model.compute_speed(model.alpha, model.c, gamma, texts) for gamma in range(1, 17)) for texts in sizes
    ]
    number, said = words.describe_batches(model, batches)
    assert (number, said) == (f"{speeds[0]:.2f}×", f"with one text, {speeds[-1]:.2f}× with {sizes[-1]}.")
    dip = figure.layout.annotations[-1]
    assert f"above {HALVED} tokens in a pass" in dip.text and sizes[dip.x] == 8, "the cause stands at the lowest point"
    found = batch_figures.estimate_speeds(model, batches)
    assert (found[0].low, found[0].high) == pytest.approx((headline.get_speed("1").low, headline.get_speed("1").high))
    slower = [str(texts) for texts, one in zip(sizes, found, strict=True) if one.high < 1.0]
    assert "8" in slower and words.explain_dip(model, batches).startswith("Why 8 texts gain least")


def test_passes_of_both_machines_stand_over_the_batch_size_in_tokens_without_a_draft():
    """Those of the pair's machine are the lanes', those of the GPU the quotient of two recorded passes."""
    batches, gpu = load_batches(), load_gpu_costs()
    model = build_headline_model(batches)
    figure = batch_figures.plot_pass_costs(model, batches, gpu)
    here, there = figure.data[1:]
    assert (here.name, there.name) == (batch_figures.OWN, batch_figures.SERVER)
    assert list(here.y) == [model.compute_parts(4, model.c, texts).target_pass for texts in batches.rows]
    rows = gpu.rows["8B"]
    assert [batches.rows[place] for place in there.x] == [1, 8, 32, 64]
    assert list(there.y) == [rows[f"{texts} x 5"] / rows[f"{texts} x 1"] for texts in (1, 8, 32, 64)]
    assert there.y[-1] > 1.5 > there.y[0] and here.y[-1] > 1.5 > here.y[0], "both machines are busy with many texts"
    said = batch_figures.describe_pass_costs(model, batches, gpu)
    assert all(f"{line.y[0] - 1.0:.0%} longer with one text and {line.y[-1] - 1.0:.0%} with 64" in said for line in (here, there))
    assert [line.name for line in batch_figures.plot_pass_costs(model, batches, None).data] == ["one token", batch_figures.OWN]


def test_passes_longer_than_those_of_the_batches_grow_as_the_machines_cost_model_and_not_as_the_last_jump():
    """9 tokens are over the limit of the quick passes, 7 are not: their difference says nothing of a 17th token."""
    batches, costs = load_batches(), load_cost_models()["two-cpu-cores"]
    model = build_headline_model(batches)
    assert model.passes[16] / model.passes[8] == pytest.approx(costs.compute_pass(17) / costs.compute_pass(9))
    assert model.passes[16] < 1.2 * model.passes[8]


def test_the_dip_stands_where_drafting_leaves_the_quick_passes():
    """By the record: one more draft token takes a pass of so many texts over the limit, which costs most just there."""
    batches, model = load_batches(), build_headline_model(load_batches())
    few, many = batch_figures.find_dip(model, batches)
    assert batch_figures.QUICK_TOKENS == HALVED and few <= HALVED < 2 * few and many > HALVED
    growth = {texts: batches.estimate_cost(texts, 1).value for texts in batches.rows}
    assert max(growth, key=growth.__getitem__) == few
    passes = {gamma: median(batches.passes[0][1 + batches.gammas.index(gamma)]) for gamma in (6, 8)}
    assert passes[8] > 1.3 * passes[6], "7 tokens of one text are within the limit, 9 are not"
    said = words.explain_dip(model, batches)
    assert f"Why {few} texts gain least" in said and f"up to {HALVED} tokens" in said
    assert f"From {many} texts on" in said and all(rows > HALVED for rows in batches.rows if rows >= many)
    steady = replace(
        batches, rows=batches.rows[:3], passes=batches.passes[:3], drafting=batches.drafting[:3], rule=batches.rule[:3]
    )
    assert words.explain_dip(build_headline_model(steady), steady) == "", "no dip, no reason"


@pytest.mark.parametrize(
    ("axis", "places"), ((fast_study.TEMPERATURE, [0.0, 0.3, 0.6, 1.0, 1.4]), (fast_study.TOP_P, [0.5, 0.8, 0.9, 0.95, 1.0]))
)
def test_the_pictures_of_acceptance_are_the_study(axis, places):
    found = load_study()
    figure = fast_study.plot_acceptance(found, "storybook", axis)
    mean = figure.data[-1]
    assert len(figure.data) == 9 + 2 and list(mean.x) == places and figure.layout.xaxis.title.text == axis
    cells = [cell for cell in found.list_measured(("storybook",)) if (cell.temperature, cell.top_p) == (1.0, None)]
    assert dict(zip(mean.x, mean.y, strict=True))[1.0] == pytest.approx(sum(cell.share for cell in cells) / len(cells))
    first, last = (fast_study.compute_means(found, "storybook", axis)[place] for place in (places[0], places[-1]))
    said = fast_study.describe_acceptance(found, "storybook", axis)
    assert f"hardly depends on {axis}: on average {first.format()} at {places[0]:g} and {last.format()} at {places[-1]:g}" in said
    assert f"falls with {axis}" in fast_study.describe_acceptance(found, "ngram", axis)
    assert fast_study.build_score_rows(found)[0]["predictor"] == "accepted draft tokens"
    longest = max(len(one.text) for one in figure.layout.annotations)
    assert figure.layout.margin.r >= 0.5 * figures.LETTERS * longest, "names stand in the margin, at any width"
    said = [x for x, label in zip(places, figure.layout.xaxis.ticktext, strict=True) if label]
    assert said[-1] == places[-1] and len(said) >= 4
    assert min(b - a for a, b in pairwise(said)) >= 0.149 * (places[-1] - places[0]), "28 px of a number on the 200 px of a phone"


def test_the_forecast_is_held_against_every_measured_cell_with_its_interval():
    found = load_study()
    cells, named = (
        found.list_measured(("storybook",)),
        {trace.name: trace for trace in fast_study.plot_predictions(found, "storybook").data},
    )
    points = named["predicted"]
    assert list(points.x) == [cell.predicted for cell in cells] and list(points.y) == [cell.share for cell in cells]
    assert list(points.error_y.array) == [fast_study.WIDE * cell.noise for cell in cells]
    held = sum(abs(cell.predicted - cell.share) <= fast_study.WIDE * cell.noise for cell in cells)
    assert f"intervals of {held} of {len(cells)} measured rates" in fast_study.describe_predictions(found, "storybook")
    low, high = fast_study.compute_range(cells)
    assert all(low <= x <= high for cell in cells for x in (cell.predicted, cell.share, cell.statistics["overlap"]))


def test_the_drafts_calibration_is_that_of_temperature_1_over_all_kinds():
    found = load_study()
    (_, points) = fast_study.plot_confidence(found, "storybook").data
    assert list(points.x) == sorted(points.x) and sum(points.customdata) <= sum(
        n for c in fast_study.list_uncut_cells(found, "storybook") for n, _, _ in c.bins
    )
    assert len(fast_study.list_uncut_cells(found, "storybook")) == 9 and "calibration error" in fast_study.describe_confidence(
        found, "storybook"
    )
    assert "have the same probability (1.00)" in fast_study.describe_confidence(found, "ngram")


def test_the_surface_is_the_formula_and_marks_the_pair_and_what_was_chosen():
    spot, pair = surface_figures.Spot(0.8, 0.1), surface_figures.Spot(0.66, 0.19)
    named = {trace.name: trace for trace in surface_figures.plot_surface(3, spot, pair).data}
    shade = named["factor"]
    assert shade.z[30][6] == pytest.approx(compute_wall_clock_factor(shade.y[30], 3, shade.x[6]))
    assert (named["the pair"].x[0], named["the pair"].y[0]) == (0.19, 0.66)
    assert (named["the sliders"].x[0], named["the sliders"].y[0]) == (0.1, 0.8)
    edge = named[surface_figures.ALONE]
    assert all(compute_wall_clock_factor(alpha, 3, c) == pytest.approx(1.0) for c, alpha in zip(edge.x, edge.y, strict=True))
    assert "the pair" not in {trace.name for trace in surface_figures.plot_surface(3, spot, None).data}


@pytest.mark.parametrize(
    ("alpha", "parts"),
    (
        (0.8, RoundParts(3, 0.1, 1.0, 0.0)),
        (0.0, RoundParts(16, 1.0, 1.5, 0.2)),
        (1.0, RoundParts(1, 0.0, 1.0, 0.0)),
        (0.67, RoundParts(4, 0.13, 3.2, 0.1)),
    ),
)
def test_both_lanes_write_the_same_tokens_and_the_ratio_of_their_lengths_is_the_speed(alpha, parts):
    tokens, end = compute_expected_tokens(alpha, parts.gamma), timeline_figures.compute_end(alpha, parts)
    speed = tokens / parts.cost
    assert timeline_figures.TOKENS / end == pytest.approx(speed)
    bars = timeline_figures.list_bars(alpha, parts)
    assert sum(length for found in bars.values() for _, length in found) == pytest.approx(end), "no gap, no overlap"
    assert max(at + length for found in bars.values() for at, length in found) == pytest.approx(end)
    figure = timeline_figures.plot_timeline(alpha, parts)
    passes = next(trace for trace in figure.data if trace.name == timeline_figures.PARTS[1])
    alone = [x for x, lane in zip(passes.base, passes.y, strict=True) if lane == timeline_figures.ALONE]
    assert alone == list(range(timeline_figures.TOKENS)) and set(passes.text) - {""} <= {
        "1",
        timeline_figures.format_number(tokens),
    }
    ends, names = figure.layout.annotations[:4:2], figure.layout.annotations[1:4:2]
    assert [one.text for one in ends] == [
        f"10 tokens<br>in time <b>{timeline_figures.format_time(time)}</b>" for time in (10.0, end)
    ]
    rounds = end / parts.cost
    shown = timeline_figures.build_round_sum(alpha, parts)
    assert (timeline_figures.LAST_ROUND in shown) == (rounds != pytest.approx(round(rounds)))
    assert names[0].text == "<b>Without a draft</b>: 1 token a pass"
    written = timeline_figures.format_number(tokens)
    assert names[1].text == f"<b>With a draft</b>: {written} token{'' if written == '1' else 's'} a round, on average"
    *terms, total, factor = map(float, re.findall(r"<b>([\d.]+)×?</b>", shown))
    assert sum(terms) == pytest.approx(total, abs=0.05 if total >= 10 else 0.001), (
        "its parts make the length of a round, as shown"
    )
    assert timeline_figures.format_number(float(written) / sum(terms)) == timeline_figures.format_number(factor)
    assert (total, factor) == (pytest.approx(parts.cost, abs=0.05), pytest.approx(speed, abs=0.005))
    said, (written, cost, factor) = (
        timeline_figures.describe_round(alpha, parts),
        map(timeline_figures.format_number, (tokens, parts.cost, speed)),
    )
    assert (
        f"writes {written} token" in said
        and f"in {cost} times the time of a token without a draft" in said
        and f"{written} / {cost} = {factor}." in said.replace("\xa0", " ")
    )
    assert timeline_figures.explain_terms(alpha, parts.step, parts).count("alpha") == min(parts.gamma, 3) + 1


def test_numbers_of_passes_and_tokens_have_three_digits_and_whole_ones_no_decimals():
    plain = {1.0: "1", 17.0: "17", 136.0: "136", 1.386: "1.39", 13.94: "13.9", 9.996: "10.0", 2.4: "2.40", 120.4: "120"}
    assert {number: timeline_figures.format_number(number) for number in plain} == plain | {9.996: "10"}


def test_the_sliders_begin_at_the_measured_speed_of_the_pair():
    """Its own timed costs, the rule and the work between passes among them: the formula gives what the headline measured, and no other gamma more."""
    model, found = build_headline_model(load_batches()), headline.get_round("1")
    parts = model.compute_parts(model.gamma, model.c)
    assert model.compute_speed(model.alpha, model.c, model.gamma) == pytest.approx(headline.get_speed("1").value)
    assert compute_expected_tokens(model.alpha, model.gamma) == pytest.approx(found.tokens)
    assert (parts.target_pass, parts.cost) == pytest.approx((found.target_pass, found.cost))
    assert parts.step == round(found.drafting / 3, 2), "three times what the slider shows is what the sum shows"
    shown = timeline_figures.build_round_sum(model.alpha, parts)
    assert f"<b>{3 * parts.step:.2f}</b>" in shown
    exact = found.drafting / 3
    for gamma, texts in ((1, 1), (3, 1), (2, 8), (3, 64)):  # all costs stay what was timed
        other = replace(model, c=exact, drafting={one: value - one * (exact - model.c) for one, value in model.drafting.items()})
        assert other.compute_parts(gamma, exact, texts).cost == pytest.approx(model.compute_parts(gamma, model.c, texts).cost)
    assert 0.0 < parts.rest < 0.2 * parts.cost
    assert timeline_figures.recommend_gamma(model, model.alpha, model.c, model.gamma, 1) == "Best here: 3 draft tokens."
    paper = compute_wall_clock_factor(model.alpha, model.gamma, model.c)
    assert f"says {paper:.2f} instead of 1.42" in timeline_figures.explain_paper_formula(
        model, model.alpha, model.c, model.gamma, 1.42
    )


@pytest.mark.parametrize("key", [choice.key for choice in PLAN_CHOICES])
def test_the_model_of_a_plan_begins_at_its_prediction(key):
    plan = load_recorded_plans()[key]
    model = build_plan_model(plan, load_batches(), "two CPU cores", "timed")
    assert model.compute_speed(model.alpha, model.c, model.gamma) == pytest.approx(plan.find_row(model.gamma).factor.value)
    assert build_plan_model(replace(plan, costs=None, best=None), None, "", "").kind == "not timed"


def test_many_texts_turn_the_advice_around_as_it_was_timed():
    """Hand check: parts of a round grow as the record's do; with 64 texts no gamma pays in the model, nor beyond noise in the record."""
    batches, model = load_batches(), build_headline_model(load_batches())
    few, many = model.compute_parts(3, model.c, 1), model.compute_parts(3, model.c, 64)
    assert many.target_pass / few.target_pass == pytest.approx(
        batches.estimate_cost(64, 3).value / batches.estimate_cost(1, 3).value
    )
    for texts in batches.rows:
        best, record = model.find_best_gamma(model.alpha, model.c, texts)[1], batches.find_best("storybook 1", texts)[1].value
        assert best == pytest.approx(record, rel=0.06), "the model is as near to the record as that is to the bench"
    assert (
        timeline_figures.recommend_gamma(model, model.alpha, model.c, 3, 64)
        == "Do not draft: no number of draft tokens pays here."
    )
    assert f"takes {many.target_pass:.2f} times as long" in timeline_figures.explain_pass_cost(model, 3, 64)
    assert timeline_figures.explain_pass_cost(build_unknown_model(), 3, 1) == ""


def test_the_large_number_is_marked_as_measured_or_computed_like_the_points_over_batch_sizes():
    """Filled: measured, hollow: computed, in words, in the legend and in the chart; the fold names the speed that a server's GPU gives."""
    batches = load_batches()
    model, question = build_headline_model(batches), SpeedQuestion("")
    filled, hollow = words.describe_answer("storybook", model, False), words.describe_answer("storybook", model, True)
    assert (
        filled.startswith("● **Measured**")
        and hollow.startswith("○ **Computed**")
        and hollow.endswith(f"measured: {headline.get_speed('1').value:.2f}×.")
    )
    assert all(sign in view.TEXTS["batch"] for sign in ("● Measured", "○ Computed"))
    named = {trace.name: trace for trace in batch_figures.plot_model_speeds(model, batches).data}
    assert named["with a draft"].marker.symbol == "circle-open" and list(named["measured"].x) == [0]
    there = build_machine_model(model, load_cost_models()["h200-8b"], 1)
    speed = there.compute_speed(there.alpha, there.c, there.gamma)
    assert words.describe_server_speed(question, None, batches) == f"○ **Computed** for an H200, target of 8B: {speed:.2f}×."
    assert words.describe_answer("storybook", there, False).startswith("○ **Computed**")
    for other in (replace(question, costs="h200-1.7b"), replace(question, gamma=5)):
        assert words.describe_server_speed(other, None, batches) == "", "the large number is not the pair's measured one"


def test_another_machine_has_its_own_costs_and_this_pairs_acceptance():
    pair, costs = build_headline_model(load_batches()), load_cost_models()["h200-8b"]
    model = build_machine_model(pair, costs, 1)
    draft = costs.find_draft(1)
    assert (model.alpha, model.kind, model.batches) == (pair.alpha, "computed", None)
    cost = (model.gamma * draft.step + costs.compute_pass(1 + model.gamma) + draft.rest) / costs.target_only
    assert model.compute_parts(model.gamma, model.c).cost == pytest.approx(cost)
    assert model.gamma == pair.gamma and costs.title in words.describe_answer("storybook", model, False)


def test_every_speed_of_the_pair_is_listed_from_its_record_once(recorded_plan):
    batches = load_batches()
    found = other_speeds.list_other_speeds(build_headline_model(batches), recorded_plan, batches)
    assert (
        found[0].place == "At the top of this page, Drafting methods, README"
        and len({(one.place, one.why) for one in found}) == len(found) == 11
    )
    said = {one.place: one.speed for one in found}
    assert said["README, temperature 0"] == headline.format_headline("0")
    assert said["Predict for a text: measured"] == next(one.factor.format() for one in recorded_plan.checked if one.gamma == 3)
    assert all(one.why and float(one.speed.split(" ")[0]) > 1.0 for one in found)


def test_one_speed_leads_and_it_is_that_of_the_recorded_methods():
    """README and benchmarks.md have the speeds and tokens of the draft model's row, and an older machine's speeds, which pages name."""
    found = headline.load_headline()
    recorded = load_recorded_comparisons()
    assert {heat: recorded[heat].find_row("draft").speed for heat in ("0", "1")} == found.speeds
    for name in ("README.md", "docs/reference/benchmarks.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("*", "")
        assert " | ".join(headline.format_headline(heat) for heat in ("0", "1")) in text, name
        assert " | ".join(f"{headline.get_round(heat).tokens:.2f}" for heat in ("0", "1")) in text, name
        assert f"{found.runs} interleaved runs" in text and found.date in text, name
    for heat in ("0", "1"):
        value, low, high = headline.OLDER_SPEEDS[heat]
        assert f"{value} ({low} to {high})" in next(line for line in text.splitlines() if line.startswith("| Zen 3, 26 November"))


def test_the_parts_of_the_headlines_round_are_those_of_its_runs():
    for heat in ("0", "1"):
        row, target, round_ = (
            *(load_recorded_comparisons()[heat].find_row(key) for key in ("draft", "target")),
            headline.get_round(heat),
        )
        parts = [row.timing[name] / target.ms.value for name in ("draft", "target")]
        assert [round_.drafting, round_.target_pass] == pytest.approx(parts)
        assert round_.cost == pytest.approx(row.per_pass / row.speed.value)
        assert sum(row.timing.values()) / target.ms.value == pytest.approx(round_.cost, rel=0.1), (
            "means of rounds against the median of runs"
        )


def test_what_the_surface_says_follows_from_the_formula():
    assert "no gamma pays" in surface_figures.describe_spot(2, surface_figures.Spot(0.3, 0.3))
    best = max(range(1, 17), key=lambda gamma: compute_wall_clock_factor(0.7, gamma, 0.1))
    assert (
        f"The best gamma is {best}: a speed-up of {compute_wall_clock_factor(0.7, best, 0.1):.2f}"
        in surface_figures.describe_spot(1, surface_figures.Spot(0.7, 0.1))
    )
    assert "No other gamma" in surface_figures.describe_spot(best, surface_figures.Spot(0.7, 0.1))


def test_many_texts_are_shown_for_the_drafts_that_were_counted():
    found = load_batches()
    assert choose_rounds(found, PlanChoice("storybook", "0"))[0] == "storybook 0"
    key, said = choose_rounds(found, PlanChoice("ngram", "0.6"))
    assert key == "storybook 0.6" and said.endswith("; there is no record of draft tokens copied from the text so far.")


@pytest.mark.parametrize("temperature", ["0", "0.6", "1"])
def test_other_drafts_stand_beside_the_shown_one_with_their_recorded_numbers(temperature):
    plans = {name: load_recorded_plans()[f"{name} {temperature}"] for name in view.DRAFTS}
    columns, found = figures.build_draft_table(plans)
    assert [cells[0] for cells, _ in found] == list(PLAN_DRAFTS) and columns == figures.DRAFT_COLUMNS
    computed, (row, *_) = figures.build_draft_table({name: replace(plan, checked=()) for name, plan in plans.items()})
    assert computed == columns[:-1] and len(row[0]) == len(computed), "no empty column where nothing was measured"
    for (name, gamma, tokens, predicted, measured), _ in found:
        row, seen = plans[name].find_row(int(gamma)), next(one for one in plans[name].checked if one.gamma == int(gamma))
        assert (tokens, predicted, measured) == (f"{row.tokens.value:.2f}", row.factor.format(), seen.factor.format())
    gain = {name: max(row.factor.value for row in plan.rows) for name, plan in plans.items()}
    assert gain["storybook"] > gain["storybook-plain"], (
        "the draft that every page opens with is predicted to gain more than the plain one"
    )
    assert figures.build_draft_table({"": replace(plans["ngram"], costs=None)})[1] == []


def test_the_papers_table_stands_beside_its_formula():
    lines = figures.build_published_rows()
    assert len(lines) == 12 and lines[2]["error"] == "+47%" and lines[2]["reported"] == 1.7


def test_a_plan_of_a_visitors_text_takes_its_place(ready_page):
    ask = SpeedQuestion(TEXT.strip())
    state, ticket = SpeedState(ask, FairQueue()), FreeTicket()
    assert state.shown_result is load_recorded_plans()["storybook 1"] and not state.has_own_result
    work.make_plan_of_text(state, ticket, ask)
    assert (
        state.has_own_result
        and [row.gamma for row in state.shown_result.rows] == [1, 2, 3]
        and state.shown_result.costs is not None
    )
    assert ticket.shares == sorted(ticket.shares) and ticket.shares[-1] == 1.0
    assert not state.choose(ask) and state.choose(SpeedQuestion(ask.text, PlanChoice("ngram"))) and not state.has_own_result


def test_a_plan_that_is_stopped_leaves_everything_as_it_was(ready_page):
    state = SpeedState(SpeedQuestion(TEXT), FairQueue())
    with pytest.raises(CancelledError):
        work.make_plan_of_text(state, FreeTicket(5), state.question)
    assert state.results == {}


def test_a_plan_shows_its_tokens_before_rounds_are_timed_and_keeps_them_when_stopped(ready_page):
    state, ticket = SpeedState(SpeedQuestion(TEXT.strip()), FairQueue()), FreeTicket()

    def stop_at_costs(share=None, doing=None):
        if doing == "costs":
            raise CancelledError

    ticket.tick = stop_at_costs
    with pytest.raises(CancelledError):
        work.make_plan_of_text(state, ticket, state.question)
    plan = state.shown_result
    assert state.has_own_result and plan.costs is None and [row.gamma for row in plan.rows] == [1, 2, 3] and ticket.expected > 0.0
    assert "stopped before that" in words.describe_verdict(state, plan)
    state.ticket = Ticket(state.queue, work.make_plan_of_text, None)
    assert words.describe_verdict(state, plan) == "The verdict follows: rounds are being timed."


def test_a_text_too_short_to_plan_on_is_a_sentence_on_the_page(ready_page):
    state = SpeedState(SpeedQuestion("Once upon"), FairQueue())
    state.submit(work.make_plan_of_text, state.question)
    state.ticket.ended.wait(30)
    assert "at least 20 tokens long" in state.notices[0] and state.results == {}


def test_an_export_holds_every_figure_and_the_command_that_makes_the_plan_again(recorded_plan):
    state = SpeedState(SpeedQuestion(load_example_text()), FairQueue())
    package = export.build_offer(state).build()
    figures_ = (
        "tokens.svg",
        "acceptance-over-temperature.pdf",
        "acceptance-over-top-p.svg",
        "foretold.png",
        "confidence.svg",
        "many-texts.svg",
        "what-if.svg",
    )
    assert {"plan.json", "gammas.csv", "study.csv", "many-texts.csv", "what-if.csv", "figures.html", *figures_} <= set(
        package.names
    )
    assert package.build_file("gammas.csv") == package.build_file("gammas.csv") and len(
        package.build_file("gammas.csv").splitlines()
    ) == 1 + len(PLAN_GAMMAS)
    words = export.build_plan_command(recorded_plan).split()
    assert words[:4] == ["python", "-m", "specviz", "plan"] and "--check" in words


def test_a_verdict_in_words_stands_for_each_outcome():
    assert curve(0.1).spread == pytest.approx(0.0)
    assert "Speculate with gamma 4" in build_plan(0.1).in_words
    straddling = build_plan(0.1)
    rows = tuple(replace(row, factor=Estimate(1.01, 0.97, 1.05, 3)) for row in straddling.rows)
    assert "not distinguishable from no gain" in replace(straddling, rows=rows).in_words
