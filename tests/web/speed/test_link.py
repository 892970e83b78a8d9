"""How fast? by its address: a link leads back to text, draft, tab and sliders, and what it has wrong is a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import SettingsError
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.speed.records.plan import PlanChoice
from specviz.web.common.error_sentences import name_setting
from specviz.web.speed.state import (
    SpeedQuestion,
    SpeedState,
    build_slider_key,
    build_tabs_key,
    follow_widgets,
    load_batches,
    load_example_text,
    locate_pair,
    place_sliders,
)
from tests.pages import draw_first_paint
from tests.speed.prediction.test_plan import TEXT, build_plan


def test_a_damaged_link_opens_and_every_bad_value_is_named_as_text():
    seen = draw_first_paint(
        "speed", {"draft": "<b>x</b>", "temperature": "9", "text": "a $x$ :red[b]", "tab": "many", "alpha": "7"}
    )
    assert (seen["errors"], seen["prompt"]) == (0, "a $x$ :red[b]")
    said = "\n".join(seen["text"])
    assert "link's drafting method was left out" in said and "'<b>x</b>'" in said and "link's temperature was left out" in said
    assert "The link's acceptance rate was left out: it must be a number from 0 to 1, got 7.0." in seen["text"]
    assert any("What a longer pass costs" in one for one in seen["said"]), "the tab that it names is open"


def test_a_link_leads_to_what_it_was_made_from():
    what = {"tab": "what-if", "alpha": 0.0, "c": 0.07, "gamma": 16}
    for ask in (
        SpeedQuestion(load_example_text(), PlanChoice("ngram", "0")),
        SpeedQuestion("The cat sat on the mat."),
        SpeedQuestion(load_example_text(), **what),
    ):
        assert SpeedQuestion.from_link(ask.link(), Settings()) == (ask, [])
    assert SpeedQuestion(load_example_text()).link().keys() == {"draft", "temperature"}, "where one begins needs no words"
    assert "text" not in SpeedQuestion("a" * 5000).link()
    with pytest.raises(SettingsError, match="20,001 characters, at most 20,000"):
        SpeedQuestion("a" * 20_001)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    (
        ("tab", "x", "one of acceptance, foretold"),
        ("alpha", "1.5", "a number from 0 to 1"),
        ("c", "nan", "a number from 0 to 1"),
        ("alpha", "x", "a number, got"),
        ("gamma", "0", "a whole number from 1 to 16"),
        ("gamma", "2.5", "a number, got"),
        ("gamma", "9" * 5000, "a number, got"),
    ),
)
def test_a_place_that_a_link_has_wrong_is_a_sentence_and_the_rest_is_kept(name, value, said):
    ask, sentences = SpeedQuestion.from_link({"c": "0.3", "tab": "many", name: value}, Settings())
    assert getattr(ask, name) == getattr(SpeedQuestion(""), name) and len(sentences) == 1
    assert sentences[0].startswith(f"The link's {name_setting(name)} was left out: ") and said in sentences[0]
    assert name == "c" or ask.c == 0.3


def test_a_plan_under_way_goes_on_while_tabs_are_opened_and_sliders_moved():
    ask = SpeedQuestion(TEXT)
    state = SpeedState(ask, FairQueue())
    assert state.can_reuse_findings(replace(ask, tab="many", alpha=0.3)) and not state.can_reuse_findings(
        replace(ask, choice=PlanChoice("ngram"))
    )


def test_a_link_opens_the_tab_the_costs_and_the_sliders_that_it_names():
    seen = draw_first_paint(
        "speed",
        {"tab": "what-if", "alpha": "0.3", "gamma": "7", "c": "5", "costs": "h200-1.7b"},
        '"prompt": "", "sliders": [one.value for one in app.slider]',
    )
    assert seen["errors"] == 0 and [seen["sliders"][0], seen["sliders"][2]] == [0.3, 7]
    assert any("link's cost of a draft step was left out" in one for one in seen["text"])
    said = "\n".join([*seen["said"], *seen["text"]])
    assert "Computed from both: tokens per target pass of this pair, costs of H200, target of 1.7B." in said
    assert "## With the costs of H200, target of 1.7B: 1." in said and "1.42 times as fast" not in said, "one answer"
    assert "A draft of 28 layers beside this target of 28" in said and "Costs of H200, target of 1.7B: NVIDIA H200" in said


def test_sliders_begin_at_the_running_pair_and_keep_what_was_chosen():
    plan, choice = build_plan(0.5), PlanChoice()
    ask = SpeedQuestion(TEXT, choice)
    here = place_sliders(ask, plan, None)
    assert here.spot.c == pytest.approx(plan.costs.c) == pytest.approx(0.1) and here.gamma == int(plan.best.value)
    assert here.spot.alpha == pytest.approx(plan.row(here.gamma).alpha, abs=0.006)
    state = {
        build_slider_key("c", ask, 0): 0.7,
        build_slider_key("gamma", ask, 0): here.gamma,
        build_tabs_key(0): "The formula as a map",
    }
    moved = follow_widgets(ask, plan, None, state, 0)
    assert moved == replace(ask, c=0.7, tab="what-if"), "a slider that stands where it begins was not moved"
    assert place_sliders(moved, plan, None).spot == replace(here.spot, c=0.7)
    assert follow_widgets(moved, plan, None, {build_slider_key("c", ask, 0): round(here.spot.c, 2)}, 0).c is None
    assert follow_widgets(moved, plan, None, {}, 0) == moved, "what was never drawn stays as the link had it"
    timeless = replace(plan, costs=None, best=None)
    assert locate_pair(choice, timeless, None, 2) is None, "nothing was timed"
    assert locate_pair(choice, timeless, load_batches(), 2).c == load_batches().c
    assert locate_pair(PlanChoice("ngram"), timeless, load_batches(), 2) is None, "copying has no draft that was timed"
