"""Break it: the list is there without torch, both rules use the same random numbers, tests follow their plan, words say what is so.

Samples are fixed by their seeds; a right decoder is rejected with probability 0.001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.evidence import looks
from specviz.evidence.mutants.catalog import MUTANTS
from specviz.evidence.mutants.mistakes import MISTAKES, TIERS
from specviz.evidence.partition import Partition
from specviz.evidence.tally import SIZES, Look
from specviz.figures import mistakes as figures
from specviz.figures.exactness.evidence import CellShares
from specviz.figures.mistakes import Curve, MistakeResult, Speed
from specviz.settings import Settings
from specviz.web.common import cache
from specviz.web.common.sampling import MOST_SLOW
from specviz.web.mistakes import words
from specviz.web.mistakes.state import HIDDEN, Case
from tests.pages import first_paint, on_tiny_pair, settle
from tests.web.test_mistakes_draws import BASE, trial

ROOT = Path(__file__).resolve().parents[2]


# the list and links


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    query = {"mistake": "R99", "seed": "x", "temperature": "3", "prompt": "a $x$ :red[b]"}
    seen = first_paint("mistakes", query)
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert {"Find the wrong decoder", "Sample until it is detected"} <= set(seen["buttons"])
    said = "\n".join(seen["text"])
    for part in ("mistake was left out", "got 'R99'", "seed was left out", "temperature was left out: each mistake brings"):
        assert part in said


def test_mistakes_in_words_and_mutants_are_the_same_list():
    assert list(MISTAKES) == list(MUTANTS)
    assert all(MUTANTS[name].wrong == one.wrong and MUTANTS[name].shared == one.shared for name, one in MISTAKES.items())


def test_threads_lead_to_github_where_they_name_one():
    links = dict(MISTAKES["R8"].threads)
    assert links["vllm-project/vllm#43522"] == "https://github.com/vllm-project/vllm/issues/43522"
    assert MISTAKES["R7"].threads == (
        ("feifeibear/LLMSpeculativeSampling", "https://github.com/feifeibear/LLMSpeculativeSampling"),
    )
    assert MISTAKES["R5"].threads == (("common", ""),)
    assert "derived" in words.reported(MISTAKES["gate"]) and "many decoders" in words.reported(MISTAKES["R5"])


@pytest.mark.parametrize("mistake", ("R4", HIDDEN))
def test_a_link_leads_to_the_case_it_was_made_from(mistake):
    case = Case(replace(BASE, seed=12), mistake)
    assert Case.of_link(case.link(), Settings()) == (case, [])


def test_a_mistake_brings_its_own_settings_and_an_unknown_one_is_not_accepted():
    assert (Case(BASE, "R4").settings.temperature, Case(BASE, "R2").settings.top_k) == (0.5, 3)
    assert Case(BASE.with_uniform(0, "accept", 0.9), "R5").settings.uniforms == {}
    with pytest.raises(SettingsError, match="hidden or one of R1"):
        Case(BASE, "R99")


def test_every_tier_that_sampling_cannot_see_has_a_sentence():
    assert set(words.UNSEEN) == set(TIERS) - {"sampled"} and set(words.TIERS) == set(TIERS)
    for name, one in MISTAKES.items():
        said = words.about(Case(BASE, name), 0.0)
        assert one.wrong in said and (words.UNSEEN.get(one.tier, "") in said)
        assert ("at most" in said) is (not one.shared)
    assert (Case(BASE, "R8").most, Case(BASE, "R5").most) == (MOST_SLOW, SIZES[-1])


# pictures and words


def line(**options) -> Curve:
    plain = Curve(("right rule", "wrong rule"), 1, (100, 1000), ((0.1, 0.2), (0.0, 0.15)), (0.08, 0.02), (0.12, 0.04))
    return replace(plain, **options)


def test_the_curve_holds_its_numbers_and_never_says_it_by_color_alone():
    one = line(rejected=(False, True))
    band, right, wrong = figures.curve(one).data
    assert (list(band.y), list(right.customdata), list(wrong.y)) == ([0.12, 0.04], [0.1, 0.0], [0.2, 0.15])
    assert right.y[1] == figures.FLOOR, "a logarithmic axis has no 0"
    assert (right.line.dash, wrong.line.dash, right.marker.symbol, wrong.marker.symbol) == ("solid", "dash", "circle", "x")
    figure = figures.curve(one)
    assert figure.layout.annotations[0].text == "✗ detected at 1,000" and figure.layout.annotations[0].x == 3.0
    assert (figure.layout.xaxis.type, figure.layout.yaxis.title.text) == ("log", "total variation, logarithmic")
    assert "wrong rule has TV 0.150, above" in one.conclusion and "Detected at 1,000 samples" in one.conclusion
    assert [row["check"] for row in one.table] == ["not rejected", "rejected"]
    assert "check" not in line(wrong=None).table[0]


def test_the_sentence_under_the_curve_says_what_the_axis_cannot_show():
    said = words.curve_sentence(line(tv=((0.0, 0.2), (0.0, 0.1))), 900, 1000, False)
    assert "distance is always 0" in said and "900 of 1,000 samples; the mistake shows" in said
    assert words.curve_sentence(line(), 1000, 1000, False).endswith("The two wrote the same in all 1,000 samples.")
    assert "wrote the same" not in words.curve_sentence(line(), 1000, 1000, True)


def test_speeds_are_compared_with_their_errors():
    right, wrong = Speed("right rule", 9, 1000, 600, 2000, 1000), Speed("wrong rule", 9, 1000, 900, 2400, 1000)
    assert (figures.raised(right, wrong), figures.raised(wrong, right), figures.raised(right, right)) == (1, -1, 0)
    assert figures.raised(replace(right, checked=0, accepted=0), wrong) == 0
    rates, passes = figures.speeds((right, wrong), 1).data
    assert (list(rates.y), list(passes.y)) == ([0.6, 0.9], [2.0, 2.4])
    assert list(rates.marker.pattern.shape) == ["", "/"]


def answered(counts: tuple[int, ...], **changes) -> MistakeResult:
    """Both decoders with these counts in cells of probability 0.5, 0.5 and 0, judged at the test after 1,000 samples."""
    cells = Partition(((), (1,), (2,)), np.array([0.5, 0.5, 0.0]), 2, np.array([False, True, True]))
    found = replace(looks.judge(1, cells, np.array(counts), ""), **changes)
    arm = CellShares.of("a", ("x", "y", "z"), cells.whole.tolist(), cells.masses, counts, 1000)
    return MistakeResult((arm, arm), looks=((Look.of(found),) * 2,), same=10)


def test_a_false_alarm_of_the_right_rule_is_called_one():
    one = trial()
    one.result = answered((500, 499, 1))
    said = words.verdict(one)
    assert said.words == "Detected: 1,000 samples were enough." and "a false alarm" in said.seen
    assert "p < 10⁻³⁰⁰" in said.seen, "one sample lies where the target never is"


def test_what_can_hide_inside_a_cell_is_said():
    one = trial()
    one.result = answered((500, 500, 0), pooled=0.93)
    assert "93% of the probability lies in cells" in words.verdict(one).seen
    one.result = answered((500, 500, 0), pooled=0.1)
    assert "lies in cells" not in words.verdict(one).seen


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    yield on_tiny_pair("mistakes", pair_folders, monkeypatch)
    cache.weights.clear()


def test_a_click_detects_the_mistake_and_another_one_begins_anew(app):
    assert not app.exception
    settle(app.button(key="mistakes-until").click().run(), "mistakes")
    assert not app.exception
    assert any("Detected:" in one.value for one in app.markdown)
    charts = app.get("plotly_chart")
    assert len(charts) == 3 and all(chart.proto.alt for chart in charts)
    app.selectbox(key="mistakes-mistake-0").set_value("R18").run()
    settle(app, "mistakes")
    assert (app.session_state["mistakes"].result.n, app.query_params["mistake"]) == (0, "R18")


def test_a_hidden_one_is_guessed_and_revealed(app):
    app.selectbox(key="mistakes-mistake-0").set_value(HIDDEN).run()
    settle(app, "mistakes")
    assert app.button(key="mistakes-guess-A").disabled, "nothing is sampled yet"
    assert "mistakes-until" not in [one.key for one in app.button], "sampling until it is detected would tell"
    settle(app.button(key="mistakes-next").click().run(), "mistakes")
    assert any("100 samples of each so far" in one.value for one in app.caption)
    assert any("Which one is wrong?" in one.value for one in app.markdown)
    seed = app.session_state["mistakes"].question.settings.seed
    app.button(key="mistakes-guess-A").click().run()
    assert not app.exception
    assert any("You guessed after 100 samples" in one.value for one in app.markdown)
    app.button(key="mistakes-another").click().run()
    settle(app, "mistakes")
    assert not app.exception
    assert app.session_state["mistakes"].guess is None and any("Which?" in one.value for one in app.markdown)
    assert app.query_params["mistake"] == HIDDEN and app.query_params["seed"] != str(seed)
    assert not app.button(key="mistakes-next").disabled
