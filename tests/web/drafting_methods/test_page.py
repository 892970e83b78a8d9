"""Drafting methods: the recorded comparison opens without torch, links lead back, a run takes its place, bad input is a sentence."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import CancelledError, SettingsError
from specviz.jobs.queue import FairQueue, Ticket
from specviz.models.pairs.catalog import PAIRS
from specviz.settings import DEFAULT_TREE_SHAPE, Settings, read_tree_shape
from specviz.speed.records import headline
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.methods import DISTRIBUTIONS, DRAFTING_METHODS, MethodComparison, MethodRow
from specviz.speed.records.pair_record import load_pair_records
from specviz.web.drafting_methods import block_gain, export, view, words, work
from specviz.web.drafting_methods import first_token_figures as figures
from specviz.web.drafting_methods import rule_matrix as figures_matrix
from specviz.web.drafting_methods import state as web
from specviz.web.drafting_methods.overview import build_overview, build_picture, load_icons
from specviz.web.drafting_methods.pair_bars import build_pair_bars
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState, build_first_settings, load_recorded_comparisons
from tests.helpers.pages import PROMPT, FreeTicket, draw_first_paint

ROOT = Path(__file__).resolve().parents[3]
BASE = Settings(prompt="Once upon")


@pytest.fixture
def ready_page(page_pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are, and each row has few samples."""
    monkeypatch.setattr(work, "RUNS", 1)
    monkeypatch.setattr(work, "SAMPLES", 8)
    monkeypatch.setattr(web, "LENGTH", 4)


@pytest.fixture(scope="module")
def comparison() -> MethodComparison:
    return load_recorded_comparisons()["1"]


def open_page(query: dict[str, str]) -> dict:
    """What the first paint shows, in a process where torch cannot be imported."""
    rows = '"rows": [len(one["payload"]["rows"]) for one in given[:2]], "chosen": given[0]["chosen"], "trees": [len(one["payload"]["nodes"]) for one in given[2:]], "captions": [one.value for one in app.caption]'
    return draw_first_paint("drafting_methods", query, f"{PROMPT}, {rows}")


def build_comparison(times: dict[str, tuple[float, float]], runs: int = 6) -> MethodComparison:
    """A comparison of these methods, each with the interval of its ms per token."""
    rows = [
        MethodRow(key, "r", key != "typical", tokens=6, passes=3, ms=Estimate(sum(ends) / 2, *ends, runs))
        for key, ends in times.items()
    ]
    return MethodComparison(BASE, tuple(rows), runs)


TIMES = {"target": (1.9, 2.1), "draft": (1.0, 1.8), "lookahead": (2.2, 3.0), "eagle": (2.0, 3.0), "typical": (0.5, 0.6)}


def test_faster_and_slower_are_said_just_where_the_two_intervals_do_not_meet():
    one = build_comparison(TIMES)
    told = {row.key: words.compare_with_target(row, one) for row in one.rows}
    assert told == {"target": "", "draft": "faster", "lookahead": "slower", "eagle": "undecided", "typical": "faster"}
    found = words.compute_speed(one.find_row("draft"), one)
    assert (found.value, found.low, found.high) == (2.0 / 1.4, 1.9 / 1.8, 2.1 / 1.0)
    assert (
        "Faster than target only: Draft model, 1.43 (1.06 to 2.10) times. Slower: Lookahead. Undecided: EAGLE head."
        in words.describe_comparison(one)
    )
    assert words.answer_which_pay(one, "here") == (
        "1 of 3",
        "exact methods beats no draft here.",
    )
    assert words.answer_which_pay(build_comparison(TIMES, runs=1), "here") == ("", "")
    assert {words.compare_with_target(row, build_comparison(TIMES, runs=1)) for row in one.rows} == {""}, (
        "one run has no interval"
    )


def test_where_no_method_is_faster_the_verdict_says_so_and_a_lossy_one_is_never_the_fastest():
    one = build_comparison({key: ends for key, ends in TIMES.items() if key != "draft"})
    said = words.describe_comparison(one)
    assert words.answer_which_pay(one, "here") == ("0 of 2", "exact methods beat no draft here.")
    assert "No exact method is measurably faster than target only. The fastest, EAGLE head, is 0.80 (0.63 to 1.05)" in said
    assert "Typical" not in said


def test_a_range_that_ends_beside_1_has_the_digits_that_tell_it_from_1():
    assert words.format_range(Estimate(0.67, 0.594, 0.9981, 6)) == "0.59 to 0.9981"
    assert words.format_range(Estimate(1.2, 1.0, 1.5, 6)) == "1 to 1.50"


def read_lines(comparison: MethodComparison) -> dict[str, dict]:
    """The lines of the chart by their keys, in their order, with the numbers of this comparison's machine."""
    payload = build_overview("here", comparison)
    rows, (view_of_it,) = {row["key"]: row for row in payload["rows"]}, payload["views"]
    assert list(rows) == list(DRAFTING_METHODS) and {one["key"] for one in view_of_it["speeds"]} == set(rows)
    return {one["key"]: rows[one["key"]] | one for one in view_of_it["speeds"]}


@pytest.mark.parametrize("choice", DISTRIBUTIONS)
def test_the_verdict_agrees_with_the_chart(choice):
    one = load_recorded_comparisons()[choice]
    said, lines = words.describe_comparison(one), read_lines(one)
    best = words.find_fastest(one)
    drawn = lines[best.key]
    assert drawn["inSight"] and f"{drawn['speed']['said']} ({drawn['speed']['span']})" in said
    assert ("Faster than target only: " in said) is drawn["speed"]["verdict"].startswith("faster")
    others = [line for line in lines.values() if line["speed"] and not line["tag"] and line["key"] != "target"]
    assert len(others) > 5 and all(line["speed"]["at"] <= drawn["speed"]["at"] for line in others)


def test_the_chart_has_a_line_for_each_method_with_the_records_numbers(comparison):
    payload, lines = build_overview("here", comparison), read_lines(comparison)
    low, high = payload["axis"]
    assert payload["unit"] == pytest.approx((1.0 - low) / (high - low)) and low < 1.0 < high
    for key, line in lines.items():
        row = comparison.find_row(key)
        assert line["pass"] == f"{row.per_pass:.2f}"
        found = words.compute_speed(row, comparison)
        assert float(line["cost"]) == pytest.approx(row.per_pass / found.value, abs=0.0051), "speed is tokens over time"
        assert all(re.fullmatch(r"\d+\.\d\d", number) for number in (line["pass"], line["cost"], line["speed"]["said"]))
        places = [line["speed"][name] for name in ("low", "at", "high")]
        assert [low + place * (high - low) for place in places] == pytest.approx([found.low, found.value, found.high])
        assert all(0.0 < place < 1.0 for place in places) and line["tag"] == ("" if row.exact else "lossy")
    assert [key for key, line in lines.items() if line["inSight"]] == [
        "block", "draft", "tree", "target", "ngram", "tree-wide", "eagle-wide", "adversarial", "typical",
    ], "the fastest, and what they are compared with"  # fmt: skip
    faster = {key for key in lines if words.is_faster(comparison.find_row(key), comparison)}
    assert faster == {"block", "draft", "tree"}, "each of those that the sentence above the chart counts is in sight"


@pytest.mark.parametrize("choice", DISTRIBUTIONS)
def test_every_method_whose_recorded_round_branches_is_declared_to(choice):
    """A computed speed leaves out the work of branches, so an undeclared one would be called a speed and not a bound."""
    for row in load_recorded_comparisons()[choice].rows:
        rounds = [] if row.trace is None else [[one.parent for one in each.proposals] for each in row.trace.rounds]
        assert row.entry.branches or all(len(parents) == len({*parents}) for parents in rounds), row.key


@pytest.mark.parametrize("choice", DISTRIBUTIONS)
def test_the_chart_shows_one_machine_at_a_time_on_one_axis_and_calls_bounds_bounds_only_where_they_are_computed(choice):
    one = load_recorded_comparisons()[choice]
    there = view.compute_for_other_machine(one)
    payload = build_overview("on two CPU cores", one, there)
    low, high = payload["axis"]
    here, server = payload["views"]
    assert [here["label"], server["label"]] == ["two CPU cores, measured", "H200, target of 8B, computed"]
    for drawn, shown in ((here, one), (server, there)):
        assert tuple(drawn["answer"]) == words.answer_which_pay(shown, words.locate(shown, "on two CPU cores"))
        assert len(" ".join(drawn["answer"]).split()) <= 25
        for line in drawn["speeds"]:
            found = words.compute_speed(shown.find_row(line["key"]), shown)
            assert (line["speed"] is None) == (found is None)
            if found is not None:
                assert low + line["speed"]["at"] * (high - low) == pytest.approx(found.value)
                is_bound = shown is there and DRAFTING_METHODS[line["key"]].branches
                assert (line["speed"]["bound"], line["speed"]["verdict"] == "at most") == (is_bound, is_bound)
    assert (
        "at most" not in f"{here['note']}{here['answer']}"
        and "not counted" in server["note"]
        and "at most" in server["answer"][1]
    )
    chains = [row for row in words.list_timed(there) if not row.entry.branches]
    faster = [row for row in chains if words.compute_speed(row, there).value > 1.0]
    assert 0 < len(faster) < len(chains), "a bound is not counted as faster"
    assert server["answer"][0] == f"{len(faster)} of {len(chains)}"
    assert view.compute_for_other_machine(there) is None


def test_why_large_trees_gain_on_a_server_is_said_where_they_lose_here_and_gain_there(comparison):
    there = view.compute_for_other_machine(comparison)
    said = words.explain_other_machine(comparison, there, "on two CPU cores")
    assert (
        said.startswith("On two CPU cores, a pass that checks 15 draft tokens takes")
        and said.endswith("So large trees lose here and gain there.")
        and all(words.compute_speed(there.find_row(key), there).value > 1.0 for key in words.WIDE)
        and all(words.is_bound(there.find_row(key), there) for key in words.WIDE)
    )
    untimed = replace(comparison, rows=tuple(replace(row, timing={}) for row in comparison.rows))
    assert words.explain_other_machine(comparison, None, "here") == "" == words.explain_other_machine(untimed, there, "here")
    slow = replace(there, rows=tuple(replace(row, ms=there.find_row("target").ms) for row in there.rows))
    assert words.explain_other_machine(comparison, slow, "here") == "", "nothing gains there"


@pytest.mark.parametrize("choice", DISTRIBUTIONS)
def test_a_method_has_a_speed_for_each_machine_and_a_lossy_one_is_never_only_faster(choice):
    one = load_recorded_comparisons()[choice]
    there = view.compute_for_other_machine(one)
    picture = build_picture("on two CPU cores", one, there)
    assert [line["key"] for line in picture["rows"]] == list(DRAFTING_METHODS)
    for line in picture["rows"]:
        row = one.find_row(line["key"])
        if row.reason:
            assert (line["speeds"], line["note"], line["about"]) == ([], "", row.reason)
            continue
        assert [said["place"] for said in line["speeds"]] == ["two CPU cores, measured", "H200, target of 8B, computed"]
        if row.key != "target":
            assert line["note"].startswith(f"{row.per_pass:.2f} tokens a round, on average.")
        assert ("on an H200" in line["note"]) == (row.key in words.WIDE)
        for shown, said in zip((one, there), line["speeds"], strict=True):
            found = words.compute_speed(shown.find_row(row.key), shown)
            if found is None:
                assert (row.key, said["number"]) == ("early-exit", "") and "not computed" in said["verdict"]
                continue
            assert said["number"] == f"{found.value:.2f}×" and said["verdict"].startswith("as fast")
            assert ("not exact" in said["verdict"]) is not row.exact
            if row.exact:
                assert ("at most" in said["verdict"]) == (shown is there and row.entry.branches)
                unsure = shown is one and words.compare_with_target(row, one) == words.UNSURE
                assert ("too close to call" in said["verdict"]) == unsure


def test_what_a_pass_over_a_large_tree_takes_is_said_of_both_machines_beside_the_speeds(comparison):
    """By hand from the record's own rounds and the cost model: a pass over 15 draft tokens and the one before them."""
    there = view.compute_for_other_machine(comparison)
    lines = {line["key"]: line for line in build_picture("on two CPU cores", comparison, there)["rows"]}
    alone, model = comparison.find_row("target").ms.value, there.cost_model
    prices = {key: comparison.find_row(key).timing["target"] / alone for key in words.WIDE}
    other = model.compute_pass(16) / model.target_only
    for key, price in prices.items():
        said = f"On two CPU cores, a pass that checks 15 draft tokens takes {price:.1f} times as long as a token without a draft; on an H200"
        assert price > 1.5 > other and said in lines[key]["note"] and f"it takes {other:.1f} times as long." in lines[key]["note"]
    longest = f"{prices[max(words.WIDE, key=lambda key: comparison.find_row(key).nodes)]:.1f}"
    assert f"takes {longest} times as long" in build_overview("on two CPU cores", comparison, there)["why"]


def test_a_method_whose_range_meets_the_fastests_is_tied_with_the_first_in_the_chart(comparison):
    lines = read_lines(comparison)
    best, *others = (
        comparison.find_row(key)
        for key, line in lines.items()
        if line["speed"]["verdict"].startswith("faster") and not line["group"]
    )
    assert lines[best.key]["speed"]["verdict"] == "faster"
    for row in others:
        is_known = row.speed.high < best.speed.low
        assert lines[row.key]["speed"]["verdict"] == ("faster" if is_known else "faster, tied with the first")
    close = build_comparison({"target": (1.9, 2.1), "draft": (1.0, 1.3), "block": (1.2, 1.4)})
    assert [row.key for row in close.rows if words.is_tied(row, close)] == ["block"]
    apart = build_comparison({"target": (1.9, 2.1), "draft": (1.0, 1.1), "block": (1.2, 1.3)})
    assert not any(words.is_tied(row, apart) for row in apart.rows)


def test_a_rounds_drawing_has_as_many_draft_tokens_as_a_round_of_its_method(comparison):
    """Trees of the fastest size are drawn larger; their description says that the size is measured."""
    for key, shapes in load_icons().items():
        row, drawn = (
            comparison.find_row(key),
            sum(one["class"] in ("draft", "target") and one.get("x", 0) >= 50 for _, one in shapes),
        )
        if not row.entry.size_from_curve and key not in ("target", "lookahead"):
            assert drawn == max(row.trace and len(row.trace.rounds[-1].proposals), 1), key


@pytest.mark.parametrize("costs", ("", "h200-8b"))
def test_rows_stand_by_speed_the_lossy_rule_apart_and_the_same_ones_on_every_machine(comparison, costs):
    one = comparison.with_cost_model(load_cost_models()[costs]) if costs else comparison
    lines = list(read_lines(one).values())
    exact = [line for line in lines if not line["group"]]
    speeds = [words.compute_speed(one.find_row(line["key"]), one) for line in exact]
    known = [speed.value for speed in speeds if speed is not None]
    assert known == sorted(known, reverse=True) and all(speed is None for speed in speeds[len(known) :]), (
        "those without a speed come last"
    )
    assert [line["key"] for line in lines if line["group"]] == ["typical"] == [lines[-1]["key"]]
    shown = {line["key"] for line in lines if line["inSight"]}
    assert shown - {"several-kseq"} | {"tree"} == {key for key, line in read_lines(comparison).items() if line["inSight"]}, (
        "the fastest, too; where all is computed, tree was not timed as faster"
    )


def test_a_method_that_could_not_run_stands_in_the_chart_without_numbers():
    line = read_lines(load_recorded_comparisons()["0"])["tree"]
    assert (line["tag"], line["pass"], line["speed"]) == ("left out", None, None)


def test_few_runs_are_called_few_beside_the_headline_of_the_same_pair_and_temperature(comparison):
    """A visitor's own run of one text; the recorded one, of several prompts, is the headline."""
    assert comparison.prompts and words.describe_sample_size(comparison) == words.relate_to_headline(comparison) == ""
    own = replace(comparison, prompts=())
    said = words.describe_sample_size(own)
    assert said.startswith(
        f"{own.runs} runs of {own.settings.max_new_tokens} tokens with {own.settings.gamma} draft tokens a round are few"
    )
    assert headline.format_headline("1") in said and headline.describe_headline_origin() in said
    assert headline.format_average(own.settings) in words.relate_to_headline(own)
    top_p = replace(load_recorded_comparisons()["top-p .9"], prompts=())
    assert headline.MACHINE not in words.describe_sample_size(top_p) and words.relate_to_headline(top_p) == ""
    assert words.describe_sample_size(replace(own, runs=0)) == ""


def test_no_name_of_a_method_holds_a_comma_and_the_larger_tree_is_as_described():
    assert not any("," in one.name for one in DRAFTING_METHODS.values())
    assert read_tree_shape(DEFAULT_TREE_SHAPE) == (3, 2, 1) and DRAFTING_METHODS["tree-wide"].description.startswith(
        "Three tokens, two after each, one after"
    )


def test_the_recorded_comparison_opens_without_torch_and_says_where_it_was_measured():
    seen = open_page({})
    assert (seen["errors"], seen["heavy"], seen["rows"], seen["figures"], seen["trees"]) == (
        0,
        [],
        [len(DRAFTING_METHODS)] * 2,
        0,
        [],
    )
    assert "Run all methods" in seen["buttons"] and "Stop" not in seen["buttons"] and seen["chosen"] == "", "nothing is chosen"
    assert any(one.startswith("Recorded, measured ") and "cores" in one and "runs" in one for one in seen["text"])
    assert any(f"{len(load_recorded_comparisons()['1'].prompts)} prompts" in one for one in seen["text"])


@pytest.mark.parametrize(("row", "nodes", "pictures"), (("tree-wide", 15, 0), ("typical", 3, 1)))
def test_a_link_opens_a_round_of_its_method_and_first_tokens_where_they_are_its_point(row, nodes, pictures):
    seen = open_page({"row": row})
    assert (seen["errors"], seen["chosen"], seen["trees"], seen["figures"]) == (0, row, [nodes], pictures)


def test_a_damaged_link_opens_and_every_bad_value_is_named_as_text():
    seen = open_page({"distribution": "7", "row": "<b>x</b>", "pair": "/etc", "prompt": "a $x$ :red[b] <i>c</i>"})
    assert (seen["errors"], seen["prompt"], seen["rows"]) == (0, "a $x$ :red[b] <i>c</i>", [len(DRAFTING_METHODS)] * 2)
    said = "\n".join(seen["text"])
    for part in (
        "link's choice of sampling was left out",
        "link's drafting method was left out",
        "'<b>x</b>'",
        "link's pair was left out",
    ):
        assert part in said
    assert not any("<i>" in one for one in seen["said"]) and any(
        "Press the button to compare them on your text" in one for one in seen["text"]
    )


def test_a_link_leads_to_what_it_was_made_from():
    for choice in DISTRIBUTIONS:
        ask = MethodsQuestion(build_first_settings(BASE), choice, "typical")
        assert MethodsQuestion.from_link(ask.build_link(), Settings()) == (ask, [])
    assert MethodsQuestion.from_link({}, BASE)[0].settings.prompt == "Once upon"


def test_a_report_that_is_no_method_chooses_none(monkeypatch):
    for report in (None, "nowhere", ["draft"], {"row": "draft"}, 8):
        monkeypatch.setattr(view, "read_reported", lambda key, event, report=report: report)
        assert view.read_chosen_method() == (None, False)


def test_the_second_machine_is_a_servers_gpu_until_another_is_chosen(monkeypatch, comparison):
    """The choice has no machine that measured; what a link leaves out stays out of it where nothing is chosen."""
    shown = {}

    def show_choice(self, place, name, label, titles, value, help):
        shown.update(titles=list(titles), value=value)
        return shown["choose"] or value

    monkeypatch.setattr(view.Form, "show_choice", show_choice)
    for costs, choose, found, value in (
        ("measured", "", "measured", "h200-8b"), ("h200-8b", "", "h200-8b", "h200-8b"), ("measured", "h200-1.7b", "h200-1.7b", "h200-8b"),
        ("h200-1.7b", "", "h200-1.7b", "h200-1.7b"), ("h200-1.7b", "h200-8b", "measured", "h200-1.7b"),
    ):  # fmt: skip
        shown["choose"] = choose
        state = MethodsState(MethodsQuestion(build_first_settings(BASE), costs=costs))
        assert (view.show_machines(state, None), shown["value"]) == (found, value)
        assert "measured" not in shown["titles"]
    assert view.compute_for_other_machine(comparison).cost_model == load_cost_models()["h200-8b"]
    assert view.compute_for_other_machine(comparison, "h200-1.7b").cost_model == load_cost_models()["h200-1.7b"]


def test_another_pair_is_refused_by_a_link_and_a_row_by_name():
    ask, said = MethodsQuestion.from_link({"pair": "a|b"}, BASE)
    assert ask.settings.pair in PAIRS and len(said) == 1
    with pytest.raises(SettingsError, match="one of target, draft"):
        MethodsQuestion(BASE, "1", "bush")


def test_the_recorded_comparison_holds_every_row_under_every_choice():
    found = load_recorded_comparisons()
    assert list(found) == list(DISTRIBUTIONS)
    for choice, one in found.items():
        assert [row.key for row in one.rows] == list(DRAFTING_METHODS)
        assert {key: getattr(one.settings, key) for key in ("temperature", "top_p")} == DISTRIBUTIONS[choice]
        for row in one.rows:
            assert bool(row.reason) is (row.ms is None) is (row.trace is None)


def test_the_recorded_exact_rows_follow_the_target_and_typical_acceptance_does_not(comparison):
    """Each row's own bound holds 99 times in 100; 1.5 times it is never reached by sampling noise at 2,000 samples."""
    for row in comparison.rows:
        if row.exact and not row.reason:
            assert row.first.tv < 1.5 * row.first.upper
    typical = comparison.find_row("typical")
    assert typical.first.tv > 5 * typical.first.upper
    assert load_recorded_comparisons()["0"].find_row("typical").coincides


def test_the_numbers_have_a_line_for_each_row_and_a_blank_one_says_why(comparison):
    for one in (comparison, load_recorded_comparisons()["0"]):
        for line, row in zip(words.build_detail_rows(one), one.rows, strict=True):
            assert line["method"] == row.entry.name
            if row.reason:
                assert (line["verdict"], line["exactness"], line["speed"], line["tokens per pass"]) == ("–", row.reason, "", None)
            else:
                assert line["verdict"] in (("exact",) if row.exact else ("lossy", "lossy, same text here"))
                assert ("enumerated" in line["exactness"]) is row.exact and line["TV of the samples"] == round(row.first.tv, 3)
    assert words.build_detail_rows(load_recorded_comparisons()["0"])[-1]["verdict"] == "lossy, same text here"


def test_the_conclusion_names_the_lossy_method_and_the_one_with_the_most_tokens_per_pass(comparison):
    said = words.describe_comparison(comparison)
    assert "except Typical acceptance (it moves 0.41 of the first token’s probability)" in said
    assert "All methods write the target’s distribution here." in words.describe_comparison(load_recorded_comparisons()["0"])
    most = max((row for row in comparison.rows if row.exact), key=lambda row: row.per_pass)

    def describe_time(low: float, value: float, high: float) -> str:
        """The conclusion, had the method with the most tokens taken so many times as long as the target alone."""
        alone = comparison.find_row("target").ms.value
        ms = {"target": Estimate(alone, alone, alone, 6, "ms/token")}
        ms[most.key] = Estimate(value * alone, low * alone, high * alone, 6, "ms/token")
        return words.describe_comparison(
            replace(comparison, rows=tuple(replace(row, ms=ms.get(row.key, row.ms), speed=None) for row in comparison.rows))
        )

    begins = f"Most tokens per target pass: {most.entry.name}, {most.per_pass:.2f}, "
    assert f"{begins}and yet slower." in describe_time(1.1, 1.2, 1.3)
    assert f"{begins}without a gain that these runs show." in describe_time(0.9, 1.2, 1.3)
    assert begins not in describe_time(0.1, 0.2, 0.3), "there is no surprise in that"


def test_the_adversarys_figure_shows_samples_distribution_and_band(comparison):
    first = comparison.find_row("adversarial").first
    band, samples, exact = figures.plot_adversarial(first).data
    places = [cell for cell, raw in enumerate(first.labels) if raw][: figures.SHOWN]
    assert list(samples.x) == [first.shares[cell] for cell in places]
    assert list(exact.x) == [first.probs[cell] for cell in places]
    assert list(band.base) == [first.low[cell] for cell in places]
    assert (
        f"{first.n:,}" in samples.name and figures.plot_adversarial(first).layout.xaxis.title.text == "share of all first tokens"
    )
    assert "within sampling noise" in words.describe_adversarial(first)


def test_where_the_target_is_certain_the_words_say_so():
    first = load_recorded_comparisons()["0"].find_row("adversarial").first
    assert words.is_certain(first) and "certain of" in words.describe_adversarial(first)
    assert "certain of" not in words.describe_adversarial(replace(first, tv=0.1, counts=(1800, 200)))


def test_a_decoder_far_from_the_target_is_not_called_the_same(comparison):
    first = replace(comparison.find_row("adversarial").first, tv=0.3)
    assert "99 times in 100" in words.describe_adversarial(first) and "within sampling noise" not in words.describe_adversarial(
        first
    )


def test_the_shortcuts_figure_shows_both_distributions_and_the_threshold(comparison):
    first = comparison.find_row("typical").first
    written, exact = figures.plot_typical(first, "dark").data
    places = [cell for cell, raw in enumerate(first.labels) if raw][: figures.SHOWN]
    assert list(written.x) == [first.written[cell] for cell in places] and list(exact.x) == [first.probs[cell] for cell in places]
    (line,) = figures.plot_typical(first).layout.shapes
    assert line.x0 == line.x1 == first.edge
    said = words.describe_typical(first)
    assert "moves 0.41 of the probability (TV)" in said and "never written" in said
    assert "one token is certain" in words.describe_typical(load_recorded_comparisons()["0"].find_row("typical").first)


def test_a_run_takes_its_place_and_a_stopped_one_changes_nothing(ready_page):
    state = MethodsState(MethodsQuestion(build_first_settings(BASE)))
    before = state.shown_result
    assert not state.has_own_result and before == load_recorded_comparisons()["1"]
    with pytest.raises(CancelledError):
        work.compare_all_methods(state, FreeTicket(5), state.question)
    assert state.shown_result == before
    ticket = FreeTicket()
    work.compare_all_methods(state, ticket, state.question)
    assert state.has_own_result and state.shown_result.settings.prompt == "Once upon" and ticket.shares[-1] == 1.0
    assert all(0.0 <= share <= 1.0 for share in ticket.shares)
    assert view.describe_measurement(state, state.shown_result).startswith("Your run, measured")
    state.choose(replace(state.question, choice="0"))
    assert not state.has_own_result and state.shown_result == load_recorded_comparisons()["0"]
    assert view.describe_measurement(state, state.shown_result).startswith("Recorded, measured")


def test_rows_appear_as_they_are_sampled_and_times_after_each_run(ready_page, monkeypatch):
    monkeypatch.setattr(MethodsState, "PARTIAL_INTERVAL", -1.0)
    monkeypatch.setattr(work, "RUNS", 2)
    state, ticket, comparison = MethodsState(MethodsQuestion(build_first_settings(BASE))), FreeTicket(), []
    state.ticket, put = Ticket(state.queue, work.compare_all_methods, None), state.store

    def record_partial(ticket, **found):
        put(ticket, **found)
        comparison.append(state.partial_result or state.shown_result)

    monkeypatch.setattr(state, "store", record_partial)
    work.compare_all_methods(state, ticket, state.question)
    *sampled, first, last = comparison
    assert [sum(row.first is not None for row in one.rows) for one in sampled] == list(range(1, len(sampled) + 1))
    assert all(one.runs == 0 and all(row.ms is None for row in one.rows) for one in sampled)
    assert (first.runs, last.runs) == (1, 2) and last == state.shown_result and ticket.expected > 0.0
    lines = words.build_detail_rows(sampled[0])
    assert lines[0]["exactness"].endswith("tables, sampled") and lines[1]["exactness"].endswith("tables")
    assert all(line["pass"] is None and line["speed"] is None for line in read_lines(sampled[0]).values())
    assert "Speeds follow with the timed runs." in words.describe_comparison(sampled[0])
    assert "nothing is timed yet" in view.describe_measurement(state, sampled[0]) and "1 of 2 runs" in view.describe_measurement(
        state, first
    )
    state.ticket = None
    assert "Incomplete: stopped after 1 of 2 runs" in view.describe_measurement(state, first)


def test_what_was_found_for_an_earlier_question_is_not_shown_as_found_so_far_while_the_next_one_waits():
    free = threading.Event()
    queue = FairQueue(places=1)
    queue.submit(lambda ticket: free.wait(30))
    state = MethodsState(MethodsQuestion(build_first_settings(BASE)), queue)
    state.partial = "of an earlier question"
    state.submit(lambda state, ticket: None)
    assert state.is_busy and state.partial_result is None
    free.set()
    assert state.ticket.ended.wait(30)


def test_another_row_lets_the_work_go_on_and_another_choice_stops_it():
    state = MethodsState(MethodsQuestion(build_first_settings(BASE)))
    state.ticket = ticket = Ticket(state.queue, work.compare_all_methods, None)
    assert not state.choose(state.question)
    assert state.choose(replace(state.question, row="draft")) and state.ticket is ticket and not ticket.is_discarded
    assert state.choose(replace(state.question, choice="0")) and state.ticket is None and ticket.is_discarded
    with pytest.raises(CancelledError):
        state.store_result(ticket, state.question, "late")
    assert not state.has_own_result


def test_a_missing_recording_leaves_a_page_that_can_run(monkeypatch, tmp_path):
    monkeypatch.setattr(web, "RECORDED", tmp_path / "none.json")
    load_recorded_comparisons.cache_clear()
    try:
        state = MethodsState(MethodsQuestion.from_link({}, BASE)[0])
        assert (
            load_recorded_comparisons() == {}
            and state.shown_result is None
            and state.question.settings.max_new_tokens == web.LENGTH
        )
    finally:
        load_recorded_comparisons.cache_clear()


def test_pairs_on_record_stand_by_their_tokens_and_a_damaged_record_hides_them(monkeypatch, tmp_path):
    records = load_pair_records()
    drawn = build_pair_bars(records)
    titles = re.findall("<b>(.*?)</b>", drawn)
    tokens = [float(one) for one in re.findall("<em>(.*?)</em>", drawn)]
    assert sorted(titles) == sorted(one.title for one in records) and tokens == sorted(tokens, reverse=True)
    assert "Gemma Terms of Use" in drawn and "<i>" not in build_pair_bars([replace(records[0], title="<i>x</i>")])
    one = next(one for one in records if one.plan is not None)
    other = replace(one, plan=replace(one.plan, date="never"))
    assert [build_pair_bars(pair).count(one.source.date) for pair in ([one, one], [one, other])] == [1, 1]
    assert "Measured on" in build_pair_bars([one, one]) and "Measured on" not in build_pair_bars([one, other])
    (tmp_path / "damaged.json").write_text("{}")
    monkeypatch.setattr(web, "load_pair_records", lambda: load_pair_records(tmp_path))
    web.load_recorded_pairs.cache_clear()
    assert web.load_recorded_pairs() == ()
    web.load_recorded_pairs.cache_clear()


def test_an_export_holds_the_rows_and_both_pictures_from_the_same_record(comparison):
    import csv
    import io

    state = MethodsState(MethodsQuestion(build_first_settings(BASE), "1", "tree"))
    package = export.build_offer(state).build()
    assert package.names[:4] == ("methods.json", "rows.csv", "first-tokens.csv", "block-gain.csv")
    rows = list(csv.DictReader(io.StringIO(package.build_file("rows.csv").decode("utf-8-sig"))))
    assert [row["row"] for row in rows] == list(DRAFTING_METHODS)
    for line, row in zip(rows, comparison.rows, strict=True):
        assert line["blank_because"] == row.reason and line["tokens_per_pass"] == ("" if row.reason else str(row.per_pass))
    first = comparison.find_row("typical").first
    lines = [
        one
        for one in csv.DictReader(io.StringIO(package.build_file("first-tokens.csv").decode("utf-8-sig")))
        if one["row"] == "typical"
    ]
    assert [float(one["written"]) for one in lines] == list(first.written)
    gains = list(csv.DictReader(io.StringIO(package.build_file("block-gain.csv").decode("utf-8-sig"))))
    plan = web.load_block_gain()
    assert [float(line["counted"]) for line in gains] == [row.gain.value for row in plan.rows]
    assert [float(line["measured_high"]) for line in gains] == [one.gain.high for one in plan.checked]
    cells = list(csv.DictReader(io.StringIO(package.build_file("matrix.csv").decode("utf-8-sig"))))
    matrix = web.load_matrix()
    assert [(one["line"], one["rule"], one["column"], one["verdict"], one["n"]) for one in cells] == [
        (one["line"], one["rule"], one["column"], one["verdict"], str(one["n"])) for one in matrix["cells"]
    ]
    said_of_both = package.build_file("caption.txt").decode()
    assert block_gain.describe_gain(plan) in said_of_both and figures_matrix.describe_matrix(matrix) in said_of_both
    assert package.build_file("same-distribution.svg").startswith(b"<?xml") and package.build_file(
        "shortcut.svg"
    ) == package.build_file("shortcut.svg")
    said = package.facts
    assert said["commands"][0].startswith("python -m specviz record methods") and said["recorded"] is True
    assert said["machine"] == comparison.machine and "prompt=" in said["permalink"]


def test_the_exports_command_is_one_that_the_command_line_takes(comparison):
    import argparse
    import shlex

    from specviz.cli import record

    parser = argparse.ArgumentParser()
    record.add_arguments(parser)
    found = parser.parse_args(shlex.split(export.build_methods_command(comparison))[4:])
    assert (found.what, found.prompt, found.runs, found.samples) == (
        "methods",
        "",  # the prompts of the record are the command's own
        comparison.runs,
        comparison.rows[0].first.n,
    )


def test_every_method_has_a_drawing_of_its_own_and_one_line(comparison):
    drawn = load_icons()
    assert list(drawn) == list(DRAFTING_METHODS) and len({repr(shapes) for shapes in drawn.values()}) == len(drawn)
    classes = {attributes["class"] for shapes in drawn.values() for _, attributes in shapes}
    sheet = (ROOT / "assets" / "components" / "drafting_methods" / "chart" / "main.css").read_text(encoding="utf-8")
    for shapes in drawn.values():
        assert len(shapes) >= 3 and {tag for tag, _ in shapes} <= {"rect", "path"}
    rules = [line for line in sheet.splitlines() if line.startswith(".drawing ")]
    assert all(any(f".{kind}" in rule for rule in rules) for kind in classes), "every kind of shape is painted"
    squares = {key: sum(one["class"] == "draft" for _, one in shapes) for key, shapes in drawn.items()}
    assert (squares["draft"], squares["target"], squares["oracle"]) == (comparison.settings.gamma, 0, 0)
    lines = {key: line["line"] for key, line in read_lines(load_recorded_comparisons()["1"]).items()}
    assert lines["draft"] == "A smaller model drafts a chain of tokens." and "accepts more than" not in lines["tree-wide"]
    assert max(map(len, lines.values())) <= 66, "one line beside its drawing on a laptop"
