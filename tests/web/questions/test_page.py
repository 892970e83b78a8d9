"""Eight questions: the shipped records bear out what each answer says, and the pictures are sums that close."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import combinations

import pytest

from specviz.figures.pages_and_glossary import ALL, PAGES
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.statistics.power import find_detectable_tv
from specviz.web.one_token.payload import list_positions
from specviz.web.one_token.state import read_state
from specviz.web.questions.figures import Bar, BarPicture, build_comparison
from specviz.web.questions.questions import (
    CELLS,
    ERROR,
    Option,
    PageLink,
    Question,
    build_questions_payload,
    compute_redraws_without_rejected,
    explain_unevenness,
    list_questions,
    load_recorded_runs,
)
from specviz.web.speed.batch_figures import estimate_speeds
from specviz.web.speed.round_model import build_headline_model

RECORDED = load_recorded_runs()
ASKED = {one.key: one for one in list_questions(RECORDED)}


def find_right_option(key: str) -> Option:
    return next(option for option in ASKED[key].options if option.right)


def list_wrong_options(key: str) -> list[Option]:
    return [option for option in ASKED[key].options if not option.right]


def list_bar_ends(picture: BarPicture) -> list[tuple[float, float]]:
    """Where each bar ends, and where its mark stands."""
    return [(sum(value for _, value in bar.parts), bar.mark) for group in picture.groups for bar in group.bars]


def test_there_are_eight_questions_and_every_answer_is_explained_in_its_own_words():
    assert len(ASKED) == 8
    said = [option.explanation for one in ASKED.values() for option in one.options]
    assert len(set(said)) == len(said) and all(len(why) > 60 for why in said)
    for question in ASKED:
        pictures = [option.picture for option in list_wrong_options(question)]
        assert all(a != b for a, b in combinations(pictures, 2)), question
    assert [one.right for question in ASKED.values() for one in question.options].count(True) == 8


def test_an_explanation_has_two_numbers_at_most():
    """The picture beside it has the others. min(1, p/q) is a name, and a power of ten belongs to its number."""
    for question in ASKED.values():
        for option in question.options:
            said = re.sub(r"×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", "", option.explanation.replace("min(1, p/q)", ""))
            assert len(re.findall(r"(?<![\w.,])\d[\d.,]*", said)) <= 2, option.explanation


def test_only_the_later_four_need_a_term_and_begin_with_one_sentence_that_teaches_it():
    terms = [one.term for one in ASKED.values()]
    assert terms[:4] == [""] * 4
    for term, word in zip(terms[4:], ("draft tree", "Total variation", "several texts at once", "8 bits"), strict=True):
        assert word in term and term.endswith(".") and term.count(". ") == 0
    unknown = ("total variation", "draft tree", "8 bits", "at once")
    for question in list(ASKED.values())[:4]:
        said = " ".join([question.situation, question.asks, *(f"{one.text} {one.explanation}" for one in question.options)])
        assert not any(word in said for word in unknown), question.key


def test_a_speed_stands_with_what_it_was_measured_under_and_with_its_interval():
    timed = [option.picture for one in ASKED.values() for option in one.options if "time per token" in option.picture.title]
    runs = RECORDED.methods.runs
    assert len(timed) >= 4 and runs >= 6
    for picture in timed:
        assert "temperature 1, AMD EPYC, 2 threads" in picture.title and picture.interval == f"95% interval of {runs} runs"
        for group in picture.groups:
            (bar,) = group.bars
            assert (bar.interval is None) == (group.name == "no draft"), "the unit is 1 by definition"
            assert bar.interval is None or bar.interval[0] <= bar.parts[0][1] <= bar.interval[1]
    batches, picture = RECORDED.batches, find_right_option("when-not").picture
    assert "temperature 1, AMD EPYC, 2 threads" in ASKED["when-not"].situation and picture.interval == "95% interval"
    model = build_headline_model(batches)
    for rows, factor, row in zip(batches.rows, estimate_speeds(model, batches), picture.groups, strict=True):
        gamma, speed = model.find_best_gamma(model.alpha, model.c, rows)
        assert row.bars[0].parts == (("strong" if rows == 1 else "plain", speed),), "the point of How fast? is this bar"
        assert row.name.split(", ") == [f"{rows} text{'s' * (rows > 1)}", f"{gamma} draft token{'s' * (gamma > 1)}"]
        assert row.bars[0].interval == (factor.low, factor.high)


def test_whether_neighbors_differ_by_more_than_noise_is_read_from_the_intervals():
    apart = [Estimate(1.6, 1.5, 1.7, 48), Estimate(0.98, 0.95, 1.03, 48), Estimate(1.15, 1.11, 1.19, 48)]
    overlapping = [*apart[:2], Estimate(1.02, 0.97, 1.06, 48)]
    assert "more than noise" in explain_unevenness(apart, has_dip=False)
    assert "this processor" in explain_unevenness(apart, has_dip=True)
    assert "may be noise" in explain_unevenness(overlapping, has_dip=False)
    assert "dip comes from this processor" in find_right_option("when-not").explanation


def test_no_time_is_in_milliseconds_which_differ_from_one_record_to_another():
    """A token without a draft took 1.59 ms in the record of methods and 3.02 ms in the front page's race, two days apart."""
    payload = build_questions_payload(RECORDED)
    assert not re.search(r"millisecond|\bms\b", json.dumps(payload))
    small, same = find_right_option("faster").picture.groups[1:]
    methods = RECORDED.methods
    shown = [1.0 / methods.find_row(key).speed.value for key in ("draft", "oracle")]
    assert [group.bars[0].parts[0][1] for group in (small, same)] == pytest.approx(shown) and shown[0] < 1.0 < shown[1]


def test_the_way_on_is_the_page_after_this_one_where_the_questions_stand():
    assert build_questions_payload(RECORDED)["onward"] == {"name": "exactness", "title": "Exactness test"}
    shared = tuple(page for page in ALL if page.path != "exactness")
    assert build_questions_payload(RECORDED, among=shared)["onward"]["name"] == "mistakes"


def test_a_topic_is_short_and_a_question_comes_before_its_situation():
    assert all(0 < len(one.topic) <= 9 for one in ASKED.values()) and len({one.topic for one in ASKED.values()}) == 8
    assert all(one.asks.endswith("?") and len(one.asks) < 80 for one in ASKED.values())
    assert build_questions_payload(RECORDED)["headline"] == PAGES["questions"].title


def test_a_question_about_what_no_page_has_told_yet_says_so():
    payload = build_questions_payload(RECORDED)["questions"]
    assert [one["key"] for one in payload if one["ahead"]] == ["tree", "when-not", "quantized"]
    order = [page.path for page in ALL]
    assert all(order.index(ASKED[one["key"]].page.name) > order.index("questions") for one in payload if one["ahead"])


def test_right_answers_do_not_all_stand_at_the_same_place():
    places = [[option.right for option in one.options].index(True) for one in ASKED.values()]
    assert set(places) == {0, 1, 2}


def test_the_payload_is_plain_json_whose_links_lead_to_pages():
    found = json.loads(json.dumps(build_questions_payload(RECORDED), allow_nan=False))
    known = [one["id"] for one in list_positions(RECORDED.opening)]
    for one in found["questions"]:
        name, query = one["page"]["name"], one["page"]["query"]
        assert name in PAGES
        if name == "one_token":
            assert read_state(query, known)[1] == []
        if "row" in query:
            assert query["row"] in DRAFTING_METHODS


def test_links_can_lead_elsewhere():
    found = build_questions_payload(RECORDED, lambda page: PageLink("evidence", {}, "Recorded evidence"))
    assert {one["page"]["name"] for one in found["questions"]} == {"evidence"}


def test_the_cheap_draft_is_faster_in_the_record_although_the_other_is_accepted_more_often():
    small, same = RECORDED.methods.find_row("draft"), RECORDED.methods.find_row("oracle")
    assert small.per_pass < same.per_pass and small.ms.high < same.ms.low
    assert find_right_option("faster").text.startswith("No: ")


def test_the_adversary_writes_the_same_distribution_in_the_record_and_takes_longer():
    bad, alone = RECORDED.methods.find_row("adversarial"), RECORDED.methods.find_row("target")
    assert bad.first.tv <= bad.first.upper and alone.first.tv <= alone.first.upper
    assert bad.first.counts != alone.first.counts
    assert bad.ms.low > alone.ms.high


def test_only_the_residual_ends_every_bar_at_its_mark():
    assert all(end == pytest.approx(mark, abs=1e-12) for end, mark in list_bar_ends(find_right_option("refused").picture))
    others = [option.picture for option in list_wrong_options("refused")] + [option.picture for option in ASKED["redraw"].options]
    for picture in others:
        found = list_bar_ends(picture)
        assert sum(end for end, _ in found) == pytest.approx(sum(mark for _, mark in found), abs=1e-9)
        assert max(abs(end - mark) for end, mark in found) > 0.02


def test_redrawscompute_redraws_without_rejected_the_rejected_token_are_those_of_an_enumeration():
    """Every draft token and every redraw, in fractions; the last slot stands for so many tokens that none of them is missed."""
    p = [Fraction(5, 10), Fraction(2, 10), Fraction(1, 10), Fraction(2, 10)]
    q = [Fraction(1, 10), Fraction(4, 10), Fraction(2, 10), Fraction(3, 10)]
    expected = [Fraction(0)] * 4
    for x in range(4):
        lost = q[x] - min(p[x], q[x])
        left = [Fraction(0) if y == x < 3 else p[y] for y in range(4)]
        for y in range(4):
            expected[y] += lost * left[y] / sum(left)
    slots = [{"p": float(a), "q": float(b), "overlap": float(min(a, b))} for a, b in zip(p, q, strict=True)]
    assert compute_redraws_without_rejected(slots) == pytest.approx([float(x) for x in expected], abs=1e-12)


def test_the_tree_gets_more_tokens_out_of_a_pass_and_the_sentence_tells_whether_that_was_faster():
    chain, wide = RECORDED.methods.find_row("eagle"), RECORDED.methods.find_row("eagle-wide")
    assert wide.per_pass > chain.per_pass and wide.nodes > chain.nodes
    assert wide.first.tv <= wide.first.upper
    overlap = wide.ms.low <= chain.ms.high and chain.ms.low <= wide.ms.high
    assert ("overlap" in find_right_option("tree").explanation) == overlap


def test_the_tree_is_slower_than_the_chain_where_it_was_measured_and_faster_with_the_costs_of_the_gpu():
    chain, wide = RECORDED.methods.find_row("eagle"), RECORDED.methods.find_row("eagle-wide")
    assert wide.ms.value > chain.ms.value
    there = RECORDED.methods.with_cost_model(RECORDED.gpu)
    ms = {key: there.find_row(key).ms.value for key in ("target", "eagle", "eagle-wide")}
    assert ms["eagle-wide"] < ms["eagle"] < ms["target"]
    shown = {group.name: group.bars[0].parts[0][1] for group in find_right_option("tree").picture.groups}
    assert shown["tree, H200"] == pytest.approx(ms["target"] / ms["eagle-wide"]) and shown["tree, two CPU cores"] < 1.0
    growth = [model.compute_pass(16) / model.passes[1] for model in (RECORDED.cores, RECORDED.gpu)]
    assert growth[0] > 1.5 > 1.15 > growth[1]
    assert [bar.label for group in ASKED["tree"].picture.groups for bar in group.bars] == [f"{one:.2f}" for one in growth]
    assert not any(f"{one:.2f}" in ASKED["tree"].situation for one in growth), "a number stands once"
    before = [bar.parts[0][1] for group in ASKED["tree"].picture.groups for bar in group.bars]
    assert before == pytest.approx([model.compute_pass(16) / model.compute_pass(1) for model in (RECORDED.cores, RECORDED.gpu)])
    assert ASKED["tree"].page.query["costs"] in load_cost_models()


def test_the_pictures_before_an_answer_hold_all_of_both_distributions_and_do_not_give_an_answer_away():
    for key in ("refused", "redraw"):
        groups = ASKED[key].picture.groups
        assert len(groups) == 5 and groups[-1].name == "all others"
        assert any(group.name in ASKED["refused"].situation for group in groups), "the draft token has its bars"
        for place in range(2):
            assert sum(group.bars[place].parts[0][1] for group in groups) == pytest.approx(1.0)
    likely, others = ASKED["adversary"].picture.groups
    for one, rest in zip(likely.bars, others.bars, strict=True):
        assert one.parts[0][1] + rest.parts[0][1] == pytest.approx(1.0)
    p, q = (bar.parts[0][1] for bar in likely.bars)
    assert p > 0.2 > 1e-3 > q, "it hardly ever suggests what is likely"
    units = {"": 1.0, " million": 1e6, " billion": 1e9}
    found = re.findall(r"1 time in ([\d.,]*\d)( million| billion)?", ASKED["adversary"].situation)
    drafted, written = (float(n.replace(",", "")) * units[unit] for n, unit in found)
    assert written > 10.0 * drafted > 10.0, "and prefers what the target hardly ever writes"
    assert [bar.label for group in ASKED["quantized"].picture.groups for bar in group.bars] == ["0.014", "?"]
    passes = [bar.parts[0][1] for group in ASKED["when-not"].picture.groups for bar in group.bars]
    assert passes == sorted(passes) and passes[0] == 1.0 and len(passes) == len(RECORDED.batches.rows)
    rounds = [group.bars[0].parts[0][1] for group in ASKED["faster"].picture.groups]
    assert rounds == [RECORDED.methods.find_row(key).per_pass for key in ("draft", "oracle")], "the times are what is asked"
    assert {key for key, one in ASKED.items() if one.also} == {"tree"}
    known = ASKED["samples"].picture
    assert [bar.label for group in known.groups for bar in group.bars] == ["0.20", "0.10", "0.02"]
    assert len(known.groups) < len(find_right_option("samples").picture.groups)


def test_the_right_number_of_samples_sees_the_distance_and_the_smaller_ones_do_not():
    for option in ASKED["samples"].options:
        n = int(option.text.removeprefix("About ").rstrip(".").replace(",", ""))
        seen = find_detectable_tv(CELLS - 1, n)
        if option.right:
            assert 0.95 * ERROR < seen < 1.05 * ERROR
        else:
            assert seen > 3 * ERROR or seen < ERROR / 5


def test_quantization_moves_the_target_and_draft_tokens_do_not():
    rows = {row.key: row for row in RECORDED.setups.rows}
    assert rows["int8"].distance.low > 1000 * rows["int8"].own.worst
    assert rows["int8-pass"].own.mean > 1000 * rows["int8"].own.mean


def test_a_question_with_two_right_answers_or_a_bar_of_an_unknown_kind_is_refused():
    picture = build_comparison("a", {"b": (1.0, "1")})
    both = (Option("a", "b", picture, right=True), Option("c", "d", picture, right=True))
    with pytest.raises(ValueError, match="one right answer"):
        Question("x", "t", "a", "b?", both, PageLink("speed", {}, "c"), picture)
    with pytest.raises(ValueError, match="'blue'"):
        Bar((("blue", 0.5),), "0.5")


def test_one_text_gains_most_and_from_four_on_little_is_left():
    """What the answer says of all numbers from four on is true of each of them, and their intervals are apart from that of one text."""
    batches = RECORDED.batches
    one, two, *others = estimate_speeds(build_headline_model(batches), batches)
    assert batches.rows[:3] == (1, 2, 4) and "from four on" in find_right_option("when-not").explanation
    assert one.low > 1.0 and max(each.high for each in others) < one.low and two.value < one.value
    assert all(each.value - 1.0 < 0.3 * (one.value - 1.0) for each in others), "little or nothing"
    low, high = min(each.value for each in others), max(each.value for each in others)
    assert f"{low:.2f} to {high:.2f} times as fast" in find_right_option("when-not").explanation
