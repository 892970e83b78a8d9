"""How fast?: recorded plans open without torch, links lead back, a plan takes its place, pictures show the record's numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from specviz.errors import CancelledError, TraceError
from specviz.jobs.queue import FairQueue, Ticket
from specviz.settings import Settings
from specviz.speed.records import headline
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import PLAN_CHOICES, PLAN_DRAFTS, PLAN_GAMMAS, PLANS_SCHEMA, PlanChoice, dump_plans, load_plans
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor
from specviz.web.speed import batch_figures, export, surface_figures, timeline_figures, view, work
from specviz.web.speed import plan_figures as figures
from specviz.web.speed import study_figures as fast_study
from specviz.web.speed.state import (
    SpeedQuestion,
    SpeedState,
    choose_rounds,
    compute_pass_costs,
    load_batches,
    load_example_text,
    load_recorded_plans,
    load_study,
)
from tests.pages import FreeTicket, draw_first_paint
from tests.speed.prediction.test_plan import TEXT, build_plan, curve

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
    return draw_first_paint("speed", query)


def test_the_recorded_plan_opens_without_torch_and_says_where_it_was_made(recorded_plan):
    seen = open_page({})
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], load_example_text())
    assert seen["figures"] == 5 and "Predict for this text" in seen["buttons"]
    leads = [headline.describe_headline() in one for one in seen["said"]]
    assert leads.index(True) == 1 and leads.count(True) == 1, "one answer, after the title and before everything else"
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


def test_the_picture_of_speed_shows_the_factors_of_its_plan():
    plan = build_plan(0.1)
    rows = tuple(replace(row, linear=1.5, leviathan=2.0) for row in plan.rows)
    named = {trace.name: trace for trace in figures.plot_factors(replace(plan, rows=rows)).data}
    assert list(named["predicted"].y) == [row.factor.value for row in rows]
    assert list(named[figures.PER_POSITION].y) == [1.5] * 4 and list(named[figures.FORMULA].y) == [2.0] * 4
    assert "measured" not in named, "nothing was"


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
    assert (named["the chosen pair"].x[0], named["the chosen pair"].y[0]) == (0.19, 0.66)
    assert (named["what if"].x[0], named["what if"].y[0]) == (0.1, 0.8)
    edge = named[surface_figures.ALONE]
    assert all(compute_wall_clock_factor(alpha, 3, c) == pytest.approx(1.0) for c, alpha in zip(edge.x, edge.y, strict=True))
    assert "the chosen pair" not in {trace.name for trace in surface_figures.plot_surface(3, spot, None).data}


@pytest.mark.parametrize(
    ("alpha", "c", "gamma", "cost"), ((0.8, 0.1, 3, 1.0), (0.0, 1.0, 16, 1.5), (1.0, 0.0, 1, 1.0), (0.67, 0.13, 4, 3.2))
)
def test_the_timeline_has_each_round_as_gamma_draft_steps_and_one_pass_with_the_formulas_tokens(alpha, c, gamma, cost):
    spot = surface_figures.Spot(alpha, c)
    steps, passes = timeline_figures.plot_timeline(gamma, spot, cost).data
    rounds, end = timeline_figures.list_round_starts(gamma, spot, cost), timeline_figures.compute_span(gamma, spot, cost)
    alone = [x for x, lane in zip(passes.base, passes.y, strict=True) if lane == timeline_figures.ALONE]
    drafted = [x for x, lane in zip(passes.base, passes.y, strict=True) if lane == timeline_figures.DRAFTED]
    assert len(steps.x) == gamma * len(rounds) and set(steps.x) == {c} and set(passes.x) == {1.0, cost}
    assert alone == list(range(int(end))) and drafted == pytest.approx([begin + gamma * c for begin in rounds])
    assert rounds[1:] == pytest.approx([place + cost for place in drafted[:-1]]), "a round begins when the pass before has ended"
    assert set(passes.text) - {""} <= {"1", f"{compute_expected_tokens(alpha, gamma):.1f}"}
    cut = [begin + cost > end + 1e-9 for begin in drafted]
    assert [text == "" for text in passes.text[len(alone) :]] == cut, "a pass that the picture cuts has no number to be cut"
    said, tokens = timeline_figures.describe_round(gamma, spot, cost), compute_expected_tokens(alpha, gamma)
    total, written, factor = map(timeline_figures.format_number, (gamma * c + cost, tokens, tokens / (gamma * c + cost)))
    assert f"takes {gamma} c + {timeline_figures.format_number(cost)} = {total} target pass" in said
    assert f"= {written} token" in said and f"{factor} times as fast" in said and said.count("alpha") == min(gamma, 3)
    assert cost != 1.0 or timeline_figures.compute_speedup(gamma, spot) == compute_wall_clock_factor(alpha, gamma, c)


def test_numbers_of_passes_and_tokens_have_three_digits_and_whole_ones_no_decimals():
    plain = {1.0: "1", 17.0: "17", 136.0: "136", 1.386: "1.39", 13.94: "13.9", 9.996: "10.0", 2.4: "2.40", 120.4: "120"}
    assert {number: timeline_figures.format_number(number) for number in plain} == plain | {9.996: "10"}


def test_a_batch_makes_the_pass_dearer_as_it_was_recorded_and_another_machine_has_its_own_costs(recorded_plan):
    """Hand check: the recorded cost at a timed gamma, linear between, 1 where nothing was timed; many texts turn the advice around."""
    batches = load_batches()
    for texts in (1, 16):
        costs, origin = compute_pass_costs(recorded_plan, batches, False, texts)
        timed = {gamma: batches.estimate_cost(texts, gamma).value for gamma in batches.gammas}
        assert all(costs[gamma] == pytest.approx(value) for gamma, value in timed.items()) and "two CPU cores" in origin
        assert costs[5] == pytest.approx((timed[4] + timed[6]) / 2) and list(costs) == list(range(1, 17))
    spot = surface_figures.Spot(0.7, 0.13)
    few, many = (compute_pass_costs(recorded_plan, batches, False, texts)[0] for texts in (1, 16))
    assert timeline_figures.recommend_gamma(3, spot, few).startswith(("The best gamma", "No other gamma"))
    assert timeline_figures.compute_speedup(3, spot, many[3]) < timeline_figures.compute_speedup(3, spot, few[3])
    assert timeline_figures.recommend_gamma(3, spot, {1: 2.0, 3: 4.0}) == "Do not draft: no gamma pays here."
    assert f"{many[3]:.2f} times as long" in timeline_figures.explain_pass_cost(3, 16, many[3], origin)
    assert compute_pass_costs(None, None, True, 1) == (dict.fromkeys(range(1, 17), 1.0), "")
    assert "counts as 1" in timeline_figures.explain_pass_cost(3, 1, 1.0, "")
    other = recorded_plan.with_cost_model(load_cost_models()["h200-8b"])
    costs, origin = compute_pass_costs(other, batches, False, 16)
    assert other.cost_model.title in origin and costs[3] == pytest.approx(other.costs.compute_part("target", 3))


def test_one_speed_leads_and_it_is_that_of_bench():
    """README and benchmarks.md have the numbers of assets/bench.toml, which the page names first (test above)."""
    for name in ("README.md", "docs/reference/benchmarks.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("*", "")
        assert " | ".join(headline.format_headline(heat) for heat in ("0", "1")) in text, name


@pytest.mark.parametrize("key", [choice.key for choice in PLAN_CHOICES])
def test_each_way_to_the_speed_up_is_its_tokens_over_its_cost(key):
    """Formula, prediction and measurement stand side by side at one gamma, and each row works out; the parts of a timed round add up."""
    plan = load_recorded_plans()[key]
    for (name, tokens, cost, factor), _ in figures.build_ways(plan):
        assert float(tokens) / float(cost) == pytest.approx(float(factor.split(" ")[0]), abs=0.02), name
    row = figures.choose_row(plan)
    parts = sum(plan.costs.compute_part(name, row.gamma) for name in plan.costs.parts)
    assert plan.costs.compute_cost(row.gamma) == pytest.approx(parts, abs=0.03)
    assert (
        f"the pass over {row.gamma + 1} tokens {plan.costs.compute_part('target', row.gamma):.2f} (formula: 1)"
        in figures.explain_formula(plan)
    )
    less, here = (plan.costs.compute_part("target", gamma) for gamma in (max(1, row.gamma - 1), row.gamma))
    assert ("The curve peaks there" in figures.describe_best_gamma(plan)) == (here < less), (
        "said where a longer pass was the cheaper one"
    )
    uncertain = any("too uncertain" in meaning for _, meaning in figures.build_ways(plan))
    assert uncertain == (not plan.is_conclusive)


def test_one_text_in_the_record_of_many_is_held_against_the_plan_with_the_costs_of_both(recorded_plan):
    found = load_batches()
    gamma, here = found.find_best("storybook 1", 1)
    said = batch_figures.compare_with_plan(found, "storybook 1", recorded_plan)
    assert (
        f"gamma {gamma} this chart says {here.value:.2f}, the prediction above {recorded_plan.row(gamma).factor.value:.2f}"
        in said
    )
    assert (
        f"{found.round_cost(1, gamma):.2f} target passes" in said and f"{recorded_plan.costs.compute_cost(gamma):.2f}, at" in said
    )
    assert (
        batch_figures.compare_with_plan(found, "storybook 1", None)
        == ""
        == batch_figures.compare_with_plan(found, "storybook 1", replace(recorded_plan, costs=None))
    )


def test_what_the_surface_says_follows_from_the_formula():
    assert "no gamma pays" in surface_figures.describe_spot(2, surface_figures.Spot(0.3, 0.3))
    best = max(range(1, 17), key=lambda gamma: compute_wall_clock_factor(0.7, gamma, 0.1))
    assert (
        f"The best gamma is {best}: a speed-up of {compute_wall_clock_factor(0.7, best, 0.1):.2f}"
        in surface_figures.describe_spot(1, surface_figures.Spot(0.7, 0.1))
    )
    assert "No other gamma" in surface_figures.describe_spot(best, surface_figures.Spot(0.7, 0.1))
    assert "not marked" in surface_figures.describe_pair(2, None, None)
    assert "measured rounds is 1.20" in surface_figures.describe_pair(2, surface_figures.Spot(0.7, 0.1), 1.2)


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
        row, seen = plans[name].row(int(gamma)), next(one for one in plans[name].checked if one.gamma == int(gamma))
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
    assert "stopped before that" in view.describe_verdict(state, plan)
    state.ticket = Ticket(state.queue, work.make_plan_of_text, None)
    assert view.describe_verdict(state, plan) == "The verdict follows: rounds are being timed."


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
