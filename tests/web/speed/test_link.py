"""How fast? by its address: a link leads back to text, draft, tab and sliders, and what it has wrong is a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import SettingsError
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.speed.records.headline import get_speed
from specviz.speed.records.plan import PlanChoice
from specviz.web.common.error_sentences import name_setting
from specviz.web.speed.state import (
    SpeedQuestion,
    SpeedState,
    build_round_model,
    build_slider_key,
    build_tabs_key,
    follow_widgets,
    load_batches,
    load_example_text,
    locate_pair,
    place_sliders,
)
from tests.helpers.pages import draw_first_paint
from tests.speed.prediction.test_planning import TEXT, build_plan
from tests.web.common.test_frame import open_page


def test_a_damaged_link_opens_and_every_bad_value_is_named_as_text():
    seen = draw_first_paint(
        "speed", {"draft": "<b>x</b>", "temperature": "9", "text": "a $x$ :red[b]", "tab": "many", "alpha": "7"}
    )
    assert (seen["errors"], seen["prompt"]) == (0, "a $x$ :red[b]")
    said = "\n".join(seen["text"])
    assert "link's drafting method was left out" in said and "'<b>x</b>'" in said and "link's temperature was left out" in said
    assert "The link's acceptance rate was left out: it must be a number from 0 to 1, got 7.0." in seen["text"]
    assert any("checking takes longer in a batch" in one for one in seen["said"]), "the tab that it names is open"


def test_a_link_leads_to_what_it_was_made_from():
    what = {"tab": "what-if", "alpha": 0.0, "c": 0.07, "gamma": 16}
    for ask in (
        SpeedQuestion(load_example_text(), PlanChoice("ngram", "0")),
        SpeedQuestion("The cat sat on the mat."),
        SpeedQuestion(load_example_text(), **what),
    ):
        assert SpeedQuestion.from_link(ask.build_link(), Settings()) == (ask, [])
    assert SpeedQuestion(load_example_text()).build_link().keys() == {"draft", "temperature"}, "where one begins needs no words"
    assert "text" not in SpeedQuestion("a" * 5000).build_link()
    with pytest.raises(SettingsError, match="20,001 characters, at most 20,000"):
        SpeedQuestion("a" * 20_001)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    (
        ("tab", "x", "one of many, text"),
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
        '"prompt": "", "sliders": [one.value for one in app.slider], "captions": [one.value for one in app.caption], "html": [one.proto.body for one in app.get("html")]',
    )
    assert seen["errors"] == 0 and [seen["sliders"][0], seen["sliders"][2]] == [0.3, 7]
    assert any("link's cost of a draft step was left out" in one for one in seen["text"])
    said = "\n".join([*seen["said"], *seen["text"], *seen["captions"]])
    assert "Computed from both: tokens per target pass of this pair, costs of H200, target of 1.7B." in said
    assert "A draft of 28 layers beside this target of 28" in said and "Costs of H200, target of 1.7B: NVIDIA H200" in said
    (answer,) = [one for one in seen["html"] if "answer-line" in one]
    assert "as fast as without a draft" in answer, "one answer in sight"
    assert any(one.startswith("○ **Computed** for these sliders; at first: ") for one in seen["captions"])


def test_moved_sliders_give_a_computed_speed_and_a_button_leads_back_to_the_measured_one():
    app = open_page("speed", gamma="7", texts="16")
    assert not app.exception and app.slider[2].value == 7
    assert any(
        one.value.startswith(f"○ **Computed** for these sliders; measured: {get_speed('1').value:.2f}×.") for one in app.caption
    )
    app.button(key="speed-back").click().run()
    assert not app.exception and app.slider[2].value == 3 and app.select_slider[0].value == 1
    assert any(one.value.startswith("● **Measured**: Storybook") for one in app.caption)
    assert "speed-back" not in {one.key for one in app.button}, "there is nothing to go back to"


def test_another_machine_moves_what_is_its_own_and_leaves_the_pairs_acceptance():
    """alpha is of the pair; a draft step, its best gamma and the number of texts are of the machine."""
    ask = SpeedQuestion(TEXT, alpha=0.3, c=0.5, gamma=7)
    keys = {
        name: [build_slider_key(name, replace(ask, costs=costs), 0) for costs in ("measured", "h200-8b")]
        for name in ("alpha", "c", "gamma")
    }
    assert keys["alpha"][0] == keys["alpha"][1] and all(keys[name][0] != keys[name][1] for name in ("c", "gamma"))


def test_sliders_begin_where_the_model_does_and_keep_what_was_chosen():
    ask = SpeedQuestion(TEXT)
    model = build_round_model(ask, None, load_batches())
    here = place_sliders(ask, model)
    assert (here.alpha, here.c, here.gamma, here.texts) == (model.alpha, model.c, model.gamma, 1), (
        "not rounded: the speed is the measured one"
    )
    state = {
        build_slider_key("c", ask, 0): 0.7,
        build_slider_key("gamma", ask, 0): here.gamma,
        build_tabs_key(0): "The formula",
    }
    moved = follow_widgets(ask, model, state, 0)
    assert moved == replace(ask, c=0.7, tab="what-if"), "a slider that stands where it begins was not moved"
    assert place_sliders(moved, model).spot == replace(here.spot, c=0.7)
    assert follow_widgets(moved, model, {build_slider_key("c", ask, 0): round(here.c, 2)}, 0).c is None
    assert follow_widgets(moved, model, {}, 0) == moved, "what was never drawn stays as the link had it"


def test_a_pair_of_ones_own_is_an_example_until_its_plan_is_made():
    plan = build_plan(0.5)
    ask = SpeedQuestion(TEXT, pair="a|b")
    assert build_round_model(ask, plan, load_batches()).kind == "not timed", "a plan of other models"
    parts = {"draft": (0.0, 0.5, 1.0, 1.5, 2.0), "target": (5.0, 5.1, 5.2, 5.3, 5.4)}
    own = replace(plan, settings=replace(plan.settings, pair="a|b"), costs=replace(plan.costs, parts=parts))
    assert build_round_model(ask, own, load_batches()).kind == "predicted"


def test_the_surface_marks_the_pair_where_the_sliders_begin():
    ask = SpeedQuestion(TEXT)
    model = build_round_model(ask, None, load_batches())
    assert locate_pair(model) == place_sliders(ask, model).spot
    assert locate_pair(build_round_model(SpeedQuestion(TEXT, pair="a|b"), None, None)) is None, "nothing was timed"
