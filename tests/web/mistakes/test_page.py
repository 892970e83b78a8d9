"""Break it: the list is there without torch, both rules use the same random numbers, tests follow their plan, words say what is so.

Samples are fixed by their seeds; a right decoder is rejected with probability 0.001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.evidence.mistakes import comparison
from specviz.evidence.mistakes.comparison import DistanceCurve, DraftingCounts, MistakeResult
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES, REPORTED, UNSAMPLED_TIERS
from specviz.evidence.mistakes.registry import MISTAKES, VARIANTS
from specviz.evidence.sampling.sampling_plan import INTERIM
from specviz.evidence.testing.hypothesis_tests import run_count_tests
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.results import SIZES, CellShares
from specviz.figures.cell_shares import CLEAR
from specviz.figures.theme import MEANINGS
from specviz.settings import Settings
from specviz.web.common.html import extend_to_word
from specviz.web.common.side_by_side.state import MOST_SLOW, load_recorded_samples
from specviz.web.common.side_by_side.words import format_odds
from specviz.web.hosting import cache
from specviz.web.mistakes import export, figures, view, words, work
from specviz.web.mistakes.state import FIRST, HIDDEN, MistakeQuestion, MistakeState, find_rejection
from tests.helpers.pages import PROMPT, draw_first_paint, open_on_tiny_pair, settle
from tests.web.mistakes.test_draws import BASE, build_state

ROOT = Path(__file__).resolve().parents[3]


# the list and links


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    query = {"mistake": "R99", "seed": "x", "temperature": "3", "prompt": "a $x$ :red[b]"}
    seen = draw_first_paint("mistakes", query, f'{PROMPT}, "given": given')
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert any(one["view"] == "list" for one in seen["given"]), "the list needs no models"
    said = "\n".join(seen["text"])
    for part in ("mistake was left out", "got 'R99'", "seed was left out", "temperature was left out: each mistake brings"):
        assert part in said


def test_mistakes_in_words_and_mutants_are_the_same_list():
    assert list(PUBLISHED_MISTAKES) == list(MISTAKES) and set(REPORTED) == set(VARIANTS)
    assert all(
        VARIANTS[name].description == one.description and VARIANTS[name].settings == one.settings
        for name, one in REPORTED.items()
    )


def test_threads_lead_to_github_where_they_name_one():
    links = dict(PUBLISHED_MISTAKES["R8"].threads)
    assert links["vllm-project/vllm#43522"] == "https://github.com/vllm-project/vllm/issues/43522"
    assert PUBLISHED_MISTAKES["R7"].threads == (
        ("feifeibear/LLMSpeculativeSampling", "https://github.com/feifeibear/LLMSpeculativeSampling"),
    )
    assert words.list_reports(PUBLISHED_MISTAKES["R5"]) == [
        ("Spec-RL #14", "https://github.com/ShopeeLLM/Spec-RL/issues/14"),
        ("many other decoders", ""),
    ]
    assert words.list_reports(PUBLISHED_MISTAKES["gate"]) == []


@pytest.mark.parametrize(
    ("query", "opened"),
    (
        ({}, HIDDEN),
        ({"seed": "3"}, HIDDEN),
        ({"prompt": "The old man"}, FIRST),
        ({"mistake": "R5"}, "R5"),
        ({"mistake": "R99"}, HIDDEN),
    ),
)
def test_the_page_opens_with_the_game_and_a_text_to_sample_with_the_first_bug(query, opened):
    assert MistakeQuestion.from_link(query, Settings())[0].mistake_id == opened


def test_the_game_needs_no_torch_no_list_and_no_text():
    """The list, its settings and its models are not drawn beside it."""
    seen = draw_first_paint(
        "mistakes", {}, '"given": given, "fields": len(app.text_area), "captions": [one.value for one in app.caption]'
    )
    assert (seen["errors"], seen["heavy"], seen["fields"]) == (0, [], 0)
    (game,) = [one for one in seen["given"] if "payload" in one]
    assert "view" not in game and game["payload"]["game"]["id"] in PUBLISHED_MISTAKES and "all 30 bugs" in game["texts"]["bugs"]
    assert any("Samples recorded on" in line for line in seen["captions"])


@pytest.mark.parametrize("mistake", ("R4", HIDDEN))
def test_a_link_leads_to_the_case_it_was_made_from(mistake):
    case = MistakeQuestion(replace(BASE, seed=12), mistake)
    assert MistakeQuestion.from_link(case.build_link(), Settings()) == (case, [])


def test_a_mistake_brings_its_own_settings_and_an_unknown_one_is_not_accepted():
    assert (MistakeQuestion(BASE, "R4").settings.temperature, MistakeQuestion(BASE, "R2").settings.top_k) == (0.5, 3)
    assert MistakeQuestion(BASE.with_uniform(0, "accept", 0.9), "R5").settings.uniforms == {}
    with pytest.raises(SettingsError, match="hidden or one of R1"):
        MistakeQuestion(BASE, "R99")


def test_every_tier_that_sampling_cannot_see_has_a_sentence():
    for name, one in REPORTED.items():
        said = words.describe_question(MistakeQuestion(BASE, name))
        assert words.describe_mistake(one) in said and one.can_be_sampled is (one.tier == "sampled")
        if not one.can_be_sampled:
            before = words.build_verdict(build_state(name))
            assert (
                before.mark == ("exact" if one.tier == "exact" else "unshown")
                and before.words == UNSAMPLED_TIERS[one.tier]["verdict"]
            )
            assert before.details.startswith(UNSAMPLED_TIERS[one.tier]["instead"]), "nothing is promised"
        assert ("at most" in words.describe_run(build_state(name))) is (not one.on_shared_distributions)
    assert (MistakeQuestion(BASE, "R8").max_samples, MistakeQuestion(BASE, "R5").max_samples) == (MOST_SLOW, SIZES[-1])


# pictures and words


def build_curve(**options) -> DistanceCurve:
    plain = DistanceCurve(("right rule", "wrong rule"), 1, (100, 1000), ((0.1, 0.2), (0.0, 0.15)), (0.08, 0.02), (0.12, 0.04))
    return replace(plain, **options)


def test_the_curve_holds_its_numbers_and_never_says_it_by_color_alone():
    one = build_curve(rejected=(False, True))
    band, edge, right, wrong = figures.plot_distances(one).data
    assert (list(band.y), list(right.customdata), list(wrong.y)) == ([0.12, 0.04], [0.1, 0.0], [0.2, 0.15])
    assert right.y[1] == figures.FLOOR, "a logarithmic axis has no 0"
    assert (right.line.dash, wrong.line.dash, right.marker.symbol, wrong.marker.symbol) == ("solid", "dash", "circle", "x")
    figure = figures.plot_distances(one)
    assert list(edge.y) == list(band.y) and edge.line.width and not edge.showlegend, "noise has an outline"
    assert figure.layout.annotations[0].text == "✕ detected at 1,000" and figure.layout.annotations[0].x == 3.0
    assert (figure.layout.xaxis.type, figure.layout.yaxis.title.text) == ("log", "share on the wrong texts (TV)")
    assert "wrong rule has TV 0.150, above" in one.conclusion and "Detected at 1,000 samples" in one.conclusion
    assert [row["check"] for row in one.table] == ["not rejected", "rejected"]
    assert "check" not in build_curve(wrong=None).table[0]


def test_the_sentence_under_the_curve_says_what_the_axis_cannot_show():
    one = build_state()
    one.result = build_mistake_result((500, 500, 0), same=900)
    said = words.describe_curve(build_curve(tv=((0.0, 0.2), (0.0, 0.1))), one)
    assert "distance is always 0" in said and said.startswith(
        "With the same random numbers, the two rules wrote the same in 900 of 1,000 samples of 2 tokens; the mistake shows"
    )
    one.result = build_mistake_result((500, 500, 0), same=1000)
    assert words.describe_curve(build_curve(), one).startswith("The two rules wrote the same in all 1,000 samples.")
    other = build_state("no-bonus")
    other.result = one.result
    assert "wrote the same" not in words.describe_curve(build_curve(), other)
    assert "levels off" not in words.describe_curve(build_curve(), other), "samples cannot show it"


def test_speeds_are_compared_with_their_errors():
    right, wrong = DraftingCounts("right rule", 9, 1000, 600, 2000, 1000), DraftingCounts("wrong rule", 9, 1000, 900, 2400, 1000)
    assert (
        comparison.compare_acceptance_rates(right, wrong),
        comparison.compare_acceptance_rates(wrong, right),
        comparison.compare_acceptance_rates(right, right),
    ) == (1, -1, 0)
    assert comparison.compare_acceptance_rates(replace(right, checked=0, accepted=0), wrong) == 0
    rates, passes = figures.plot_acceptance((right, wrong), 1).data
    assert (list(rates.y), list(passes.y)) == ([0.6, 0.9], [2.0, 2.4])
    assert list(rates.marker.color) == [MEANINGS["target"].light, CLEAR], "the wrong rule is an outline"


def test_words_and_bars_of_the_missing_bonus_token_say_the_same():
    """The acceptance rates differ by noise alone; the tokens per pass are what the mistake costs."""
    one = build_state("no-bonus")
    right, wrong = DraftingCounts("right rule", 24, 260, 161, 384, 180), DraftingCounts("wrong rule", 24, 250, 166, 384, 230)
    one.result = replace(build_mistake_result((500, 500, 0)), speeds=(right, wrong))
    said, bars = words.describe_acceptance(one), figures.plot_acceptance((right, wrong), 1).data[0]
    assert all(text in said for text in bars.text) and "as many" not in said and "1.67 tokens instead of 2.13" in said


def test_a_wrong_rule_never_looks_like_a_rejected_draft_token():
    """Vermillion and hatching mean rejected, and nothing else."""
    one, arm = build_curve(rejected=(False, True)), build_mistake_result((900, 100, 0)).arms[1]
    speeds = DraftingCounts("right rule", 9, 1000, 600, 2000, 1000), DraftingCounts("wrong rule", 9, 1000, 900, 2400, 1000)
    for kind in ("light", "dark"):
        for figure in (
            figures.plot_distances(one, kind),
            figures.plot_wrong_cells(arm, kind),
            figures.plot_acceptance(speeds, 1, kind),
        ):
            drawn = figure.to_json()
            assert getattr(MEANINGS["rejected"], kind) not in drawn and '"pattern":{"' not in drawn.replace(
                '"pattern":{"fillmode":"overlay"', ""
            )


def build_mistake_result(counts: tuple[int, ...], same: int = 10, **changes) -> MistakeResult:
    """Both decoders with these counts in cells of probability 0.5, 0.5 and 0, judged at the test after 1,000 samples."""
    cells = Partition(((), (1,), (2,)), np.array([0.5, 0.5, 0.0]), 2, np.array([False, True, True]))
    found = replace(run_count_tests(INTERIM.plan_look(1, cells.length), cells, np.array(counts), "").to_interim(), **changes)
    arm = CellShares.from_counts("a", ("x", "y", "z"), cells.is_whole_text.tolist(), cells.masses, counts, 1000)
    return MistakeResult((arm, arm), looks=((found,) * 2,), same=same)


def test_a_false_alarm_of_the_right_rule_is_called_one():
    one = build_state()
    one.result = build_mistake_result((500, 499, 1))
    said = words.build_verdict(one)
    assert (said.mark, said.number) == ("rejected", "")
    assert said.words == "Not exact." and said.details.startswith("“z” came once in 1,000, where less than one is expected.")
    more = words.explain_verdict(one)
    assert "a false alarm" in more and "less than once in 10³⁰⁰ runs" in more, "one sample lies where the target never is"


@pytest.mark.parametrize(
    ("p", "said"),
    (
        (1.344e-19, "7×10¹⁸"),
        (8.3e-5, "12,000"),
        (1.28e-11, "80 billion"),
        (1e-9, "1 billion"),
        (3e-7, "3 million"),
        (1e-15, "10¹⁵"),
    ),
)
def test_a_p_value_is_said_as_one_in_so_many(p, said):
    assert format_odds(p) == said


def test_what_can_hide_inside_a_cell_is_said():
    one = build_state()
    one.result = build_mistake_result((500, 500, 0), pooled=0.93)
    assert "93% of the probability lies in groups of several texts" in words.explain_verdict(one)
    one.result = build_mistake_result((500, 500, 0), pooled=0.1)
    assert "lies in groups" not in words.explain_verdict(one)


def test_the_list_has_every_mistake_once_in_plain_words_with_who_reported_it_and_when_it_was_found():
    groups = words.build_groups()
    rows = [row for group in groups for row in group["rows"]]
    assert sorted(row["id"] for row in rows) == sorted(REPORTED)
    assert not any(re.search(r"\bR\d|\(", row["title"]) for row in rows) and len({row["title"] for row in rows}) == len(rows)
    by_id = {row["id"]: row for row in rows}
    assert by_id["R6"]["where"] == "vLLM #54282"
    assert words.describe_reports(REPORTED["R6"]).startswith(
        "Reported in [vLLM \\#54282](https://github.com/vllm-project/vllm/issues/54282)"
    )
    recorded = {one.mistake: find_rejection(one.result) for one in load_recorded_samples().mistakes}
    for name, found in recorded.items():
        assert not found or by_id[name]["label"] == f"detected with {found.n:,} samples"
    assert by_id["R7"]["label"] == "not detected with 100,000 samples"
    ids = {group["title"]: [row["id"] for row in group["rows"]] for group in groups}
    *shown, open_, unshown, purpose, exact = ids.values()
    assert list(ids)[: len(shown)] == ["Caught with 100 samples", "Caught with 1,000 samples", "Caught with 10,000 samples"]
    assert all(
        title == f"Caught with {recorded[name].n:,} samples" for title, names in ids.items() for name in names if names in shown
    )
    of = sum(map(len, (*shown, open_, unshown)))
    assert of == len(words.list_wrong())
    texts = words.build_list_texts()
    assert (texts["more"], texts["last"]) == (f"All {of} bugs", of), "one number of bugs on the page"
    assert shown[0][0] == words.FIRST, "the list begins with the bug that it opens with"
    assert all(REPORTED[name].can_be_sampled and not recorded[name] for name in open_)
    assert purpose == ["R21", "lenience"] and all(REPORTED[name].on_purpose for name in purpose)
    assert not any(REPORTED[name].can_be_sampled for name in (*unshown, *exact)) and all(
        REPORTED[name].is_reported for name in exact
    )
    assert by_id["gate"]["where"] == "no report known" and words.describe_reports(REPORTED["gate"]) == ""


def test_the_temperature_of_is_it_exact_stands_over_the_samples_where_it_differs():
    """Both pages show the same prompt in the same picture, at other temperatures."""
    usual = load_recorded_samples().exactness.settings.temperature
    for one in load_recorded_samples().mistakes:
        said = words.build_mistake_heading(MistakeQuestion(one.settings, one.mistake))
        assert f"temperature {one.settings.temperature:g}" in said
        assert ("(“Exactness test” has" in said) == (one.settings.temperature != usual)


def test_the_two_texts_are_those_that_differ_the_latest():
    one = MistakeState(MistakeQuestion(load_recorded_samples().find_mistake("R4").settings, "R4"))
    chosen, pairs = words.choose_texts(one), one.shown_result.pairs
    assert chosen.first[0] != chosen.first[1] and len(chosen.same) == max(len(pair.same) for pair in pairs) > len(pairs[0].same)
    one.result = replace(build_mistake_result((500, 500, 0)), pairs=())
    assert words.choose_texts(one) is None


@pytest.mark.parametrize(
    ("same", "token", "rest", "marked"),
    (
        ("king and queen--", "e", "very kind", ("king and queen--", "every", " kind")),
        ("a Str", "oman", " who", ("a ", "Stroman", " who")),
        ("an old", " woman", " who", ("an old", " woman", " who")),
        ("an old", ",", " and", ("an old", ",", " and")),
        ("", "", "", ("", "", "")),
    ),
)
def test_a_mark_is_never_inside_a_word(same, token, rest, marked):
    assert extend_to_word(same, token, rest) == marked


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    monkeypatch.setattr(work, "TEXTS", 4)
    yield open_on_tiny_pair("mistakes", pair_folders, monkeypatch)
    cache.load_weights.cache_clear()


def choose(app, mistake: str):
    """What a click on a row does: the tests of Streamlit cannot click in a component."""
    state = app.session_state["mistakes"]
    state.begin_script_run()
    state.choose(MistakeQuestion(state.question.settings, mistake))
    return settle(app.run(), "mistakes")


def get_answer(app) -> dict:
    given = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
    return next(one["payload"]["answer"] for one in given if one["view"] == "samples")


def test_a_click_detects_the_mistake_and_another_one_begins_anew(app):
    choose(app, "R5")
    assert not app.exception and get_answer(app)["mark"] == "waiting"
    settle(app.button(key="mistakes-draw").click().run(), "mistakes")
    assert not app.exception and get_answer(app)["mark"] == "rejected"
    (said,) = [one.value for one in app.caption if one.value.startswith("Reported in")]
    assert "many other decoders" in said and "github.com/ShopeeLLM/Spec-RL/issues/14" in said
    choose(app, "R18")
    assert (app.session_state["mistakes"].result.n, app.query_params["mistake"]) == (0, "R18")


def test_the_folds_hold_the_curve_the_speeds_the_tests_and_the_command(app):
    settle(app.button(key="mistakes-draw").click().run(), "mistakes")
    app.session_state["mistakes-distance"] = app.session_state["mistakes-numbers"] = True
    app.run()
    assert not app.exception
    charts = app.get("plotly_chart")
    assert len(charts) == 2 and all(chart.proto.alt for chart in charts)
    assert len(app.dataframe) == 5 and any("--decoder R4" in one.value for one in app.code)


@pytest.mark.parametrize("value", ("no such mistake", 3, None, {"a": 1}, ["R5"]))
def test_what_a_socket_reports_as_chosen_is_checked(app, value, monkeypatch):
    monkeypatch.setattr(view.st, "session_state", {"mistakes": app.session_state["mistakes"]})
    view._choose_mistake(value)
    assert app.session_state["mistakes"].question.mistake_id == FIRST


def test_the_game_opens_by_its_link_and_has_nothing_to_export(app):
    choose(app, HIDDEN)
    given = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
    assert not app.exception and given[-1]["payload"]["game"] and app.query_params["mistake"] == HIDDEN
    offer = export.build_offer(app.session_state["mistakes"])
    assert not offer.names and "Choose a mistake" in offer.note
