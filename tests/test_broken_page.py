"""Break it: the list is there without torch, both rules meet the same coins, looks follow their plan, words say what is so.

Draws are fixed by their seeds; a right decoder is rejected with probability .001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SettingsError
from specviz.evidence import looks, sources
from specviz.evidence.mistakes import MISTAKES, TIERS
from specviz.evidence.mutants import MUTANTS
from specviz.figures import broken as figures
from specviz.figures.broken import Curve, Look, Speed
from specviz.models.catalogue import PAIRS
from specviz.settings import Settings
from specviz.web import broken_words as words
from specviz.web import broken_work, cache, warmup
from specviz.web.broken import HIDDEN, HIDEABLE, LOOKS, SLOW, Case, Found, Pairing, Seen, Trial
from specviz.web.queue import Stopped
from tests.test_exact_page import NO_TORCH, FreeTicket

ROOT = Path(__file__).resolve().parents[1]
BASE = Settings(prompt="Once upon", seed=7)


@pytest.fixture
def ready(pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are; fewer texts than on the page."""
    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(cache, "weights", lambda *key: pair)
    monkeypatch.setattr(broken_work, "TEXTS", 12)


def trial(mistake: str = "R5", **options) -> Trial:
    return Trial(Case(replace(BASE, **options), mistake))


# the list and links


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    code = NO_TORCH.replace("pages/exact.py", "pages/broken.py")
    query = {"mistake": "R99", "seed": "x", "temperature": "3", "prompt": "a $x$ :red[b]"}
    done = subprocess.run([sys.executable, "-c", code, json.dumps(query)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert {"Draw until it is caught", "Draw to 100"} <= set(seen["buttons"])
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


def test_a_mistake_brings_its_own_settings_and_an_unknown_one_is_refused():
    assert (Case(BASE, "R4").settings.temperature, Case(BASE, "R2").settings.top_k) == (0.5, 3)
    assert Case(BASE.with_coin(0, "accept", 0.9), "R5").settings.coins == {}
    with pytest.raises(SettingsError, match="hidden or one of R1"):
        Case(BASE, "R99")


def test_every_tier_that_drawing_cannot_see_has_a_sentence():
    assert set(words.UNSEEN) == set(TIERS) - {"sampled"} and set(words.TIERS) == set(TIERS)
    for name, one in MISTAKES.items():
        said = words.about(Case(BASE, name), 0.0)
        assert one.wrong in said and (words.UNSEEN.get(one.tier, "") in said)
        assert ("fewer draws" in said) is (not one.shared)
    assert (Case(BASE, "R8").most, Case(BASE, "R5").most) == (SLOW, LOOKS[-1])


# draws


def test_both_sides_are_the_mutant_and_the_right_rule_with_the_same_coins(ready, pair):
    one = trial()
    broken_work.draw(one, FreeTicket(), 1000)
    case, bench = one.question, one.bench
    right, wrong = (sources.draw(name, sources.SHARED, pair, case.settings, bench.ids, 0, 1000) for name in ("speculative", "R5"))
    assert bench.counts[0].tolist() == bench.cells.counts(right).tolist()
    assert bench.counts[1].tolist() == bench.cells.counts(wrong).tolist()
    assert one.drawn.same == int((right.tokens == wrong.tokens).all(1).sum())
    assert one.drawn.curve.n == (10, 20, 50, 100, 200, 500, 1000)
    law = bench.cells.masses / bench.cells.masses.sum()
    apart = np.abs(bench.cells.counts(wrong) / 1000 - law).sum() / 2
    assert one.drawn.curve.tv[-1][1] == pytest.approx(apart)
    judged = looks.judge(1, bench.looks[1], bench.looks[1].counts(wrong), "")
    assert one.drawn.looks[1][1].rejected is (judged.verdict == "rejected")


def test_looks_are_those_of_the_plan():
    assert tuple(looks.LOOKS.n(look) for look in range(looks.LOOKS.looks)) == LOOKS
    assert set(LOOKS) <= set(broken_work.POINTS)


@pytest.mark.parametrize("mistake", ("R5", "R18", "R4"))
def test_drawing_until_it_is_caught_ends_at_the_look_that_catches_it(ready, mistake):
    one = trial(mistake)
    broken_work.until_caught(one, FreeTicket())
    assert one.caught and one.drawn.n in LOOKS[:4]
    assert not any(pair[0].rejected for pair in one.drawn.looks), "the right rule passes"
    said = words.verdict(one)
    assert (said.mark, said.words) == ("rejected", f"Caught: {one.drawn.n:,} draws were enough.")
    assert one.drawn.picture(one.question, True).caught == one.drawn.n
    assert "The right one passes" in said.seen


def test_a_coin_that_never_shows_zero_is_said_not_to_be_seen(ready):
    one = trial("R10")
    broken_work.draw(one, FreeTicket(), 100)
    said = words.verdict(one)
    assert one.drawn.same == 100 and one.drawn.alike == (12, 12)
    assert said.mark == "untold" and "wrote the same in all 100 draws" in said.words and "a coin put in by hand" in said.seen
    assert "Same coins, same texts" in words.texts_title(one)


def test_a_mistake_of_whole_rounds_goes_through_the_engine(ready):
    one = trial("no-bonus")
    broken_work.draw(one, FreeTicket(), 100)
    right, wrong = one.drawn.speeds
    assert wrong.per_pass < right.per_pass and one.question.most == SLOW
    assert words.verdict(one).seen.endswith("The next look comes at 1,000 draws.")


def test_the_stuck_coin_raises_acceptance_and_the_page_says_why(ready):
    one = trial("R18")
    broken_work.prepared(one, FreeTicket())
    assert figures.raised(*one.drawn.speeds) == 1
    assert "looks faster because it is wrong" in words.speed_sentence(one)


def test_texts_are_marked_at_their_first_different_token(ready, pair):
    one = trial("R5")
    broken_work.prepared(one, FreeTicket())
    for pairing in one.drawn.pairings:
        assert pairing.first[0] != pairing.first[1]
    numbers = [pairing.number for pairing in one.drawn.pairings]
    assert numbers == sorted(numbers) and 1 <= len(numbers) <= 3


def test_what_was_written_is_escaped():
    case = Case(replace(BASE, prompt="<b>x</b>"), "R5")
    html = words.texts_html(case, (Pairing(1, " <i>", ("<script>", " a"), ("&", "")),))
    assert "<script>" not in html and "&lt;script&gt;" in html and "&lt;b&gt;x" in html
    assert "</q>" in html and " <b class='wrong'>≠ a</b>" in html


@pytest.mark.parametrize("ticks", (5, 30, 60))
def test_a_stop_keeps_whole_shards_and_the_next_click_goes_on(ready, ticks):
    one, straight = trial(), trial()
    try:
        broken_work.draw(one, FreeTicket(ticks), 1000)
    except Stopped:
        assert one.drawn.n < 1000
    broken_work.draw(one, FreeTicket(), 1000 - one.drawn.n)
    broken_work.draw(straight, FreeTicket(), 1000)
    assert [arm.counts for arm in one.drawn.arms] == [arm.counts for arm in straight.drawn.arms]
    assert (one.drawn.looks, one.drawn.curve) == (straight.drawn.looks, straight.drawn.curve)


# the hidden one


def test_seeds_hide_every_answer_and_every_mistake_that_draws_can_show():
    cases = [Case(replace(BASE, seed=seed), HIDDEN) for seed in range(200)]
    assert {case.answer for case in cases} == {"A", "B", "neither"}
    assert {case.wrong[0] for case in cases} - {None} == set(HIDEABLE) and len(HIDEABLE) >= 6
    assert all(replace(case.settings, seed=0) == replace(cases[0].settings, seed=0) for case in cases), "settings tell nothing"


def hidden(answer: str) -> Trial:
    seed = next(seed for seed in range(100) if Case(replace(BASE, seed=seed), HIDDEN).answer == answer)
    return trial(HIDDEN, seed=seed)


def test_nothing_gives_the_secret_away_before_the_guess(ready):
    one = hidden("B")
    broken_work.draw(one, FreeTicket(), 1000)
    curve = one.drawn.picture(one.question, one.revealed)
    assert (curve.wrong, curve.looks, one.drawn.pairings, one.drawn.toy) == (None, (), (), 0.0)
    said = words.verdict(one)
    assert one.question.known.name not in said.words + said.seen + words.speed_sentence(one)
    one.take_guess("A")
    one.take_guess("B")
    assert one.guess == "A", "the first guess counts"
    said = words.verdict(one)
    assert said.words.startswith("Not so: decoder B is wrong") and one.question.known.name in said.words
    assert "You guessed after 1,000 draws." in said.seen


def test_where_neither_is_wrong_both_pass(ready):
    one = hidden("neither")
    broken_work.draw(one, FreeTicket(), 1000)
    assert not any(found.rejected for pair in one.drawn.looks for found in pair)
    one.take_guess("neither")
    assert words.verdict(one).words == "Right: both follow the target’s law."
    assert one.drawn.picture(one.question, True).wrong is None


# pictures and words


def line(**options) -> Curve:
    plain = Curve(("right rule", "wrong rule"), 1, (100, 1000), ((0.1, 0.2), (0.0, 0.15)), (0.08, 0.02), (0.12, 0.04))
    return replace(plain, **options)


def test_the_curve_holds_its_numbers_and_never_says_it_by_colour_alone():
    one = line(looks=(Look(100, (False, False)), Look(1000, (False, True))))
    band, right, wrong = figures.curve(one).data
    assert (list(band.y), list(right.customdata), list(wrong.y)) == ([0.12, 0.04], [0.1, 0.0], [0.2, 0.15])
    assert right.y[1] == figures.FLOOR, "a logarithmic axis has no 0"
    assert (right.line.dash, wrong.line.dash, right.marker.symbol, wrong.marker.symbol) == ("solid", "dash", "circle", "x")
    figure = figures.curve(one)
    assert figure.layout.annotations[0].text == "✗ caught at 1,000" and figure.layout.annotations[0].x == 3.0
    assert (figure.layout.xaxis.type, figure.layout.yaxis.title.text) == ("log", "distance from the exact law")
    assert "wrong rule lies 0.150 from the law, above" in one.conclusion and "Caught at the look of 1,000" in one.conclusion
    assert [row["look"] for row in one.table] == ["nothing seen", "rejected"]
    assert "look" not in line(wrong=None).table[0]


def test_the_sentence_under_the_curve_says_what_the_axis_cannot_show():
    said = words.curve_sentence(line(tv=((0.0, 0.2), (0.0, 0.1))), 900, 1000, False)
    assert "distance is 0 throughout" in said and "900 of 1,000 draws: a mistake hides" in said
    assert words.curve_sentence(line(), 1000, 1000, False).endswith("The two wrote the same in all 1,000 draws.")
    assert "wrote the same" not in words.curve_sentence(line(), 1000, 1000, True)


def test_speeds_are_compared_with_their_errors():
    right, wrong = Speed("right rule", 9, 1000, 600, 2000, 1000), Speed("wrong rule", 9, 1000, 900, 2400, 1000)
    assert (figures.raised(right, wrong), figures.raised(wrong, right), figures.raised(right, right)) == (1, -1, 0)
    assert figures.raised(replace(right, tested=0, kept=0), wrong) == 0
    kept, passes = figures.speeds((right, wrong), 1).data
    assert (list(kept.y), list(passes.y)) == ([0.6, 0.9], [2.0, 2.4])
    assert list(kept.marker.pattern.shape) == ["", "/"]


def test_a_false_alarm_of_the_right_rule_is_called_one():
    one = trial()
    found = Found(1000, True, "G", 0.0, 1e-4, 0.1, True, 0.5)
    one.drawn = Seen(looks=((found, found),))
    assert "a false alarm" in words._caught(one)[1] and "p < 1e-300" in words._caught(one)[1]


def test_what_can_hide_inside_a_cell_is_said():
    one = trial()
    found = Found(1000, False, "G", 0.3, 1e-4, 0.1, True, 0.93)
    arm = figures.Filling("a", ("x",), (True,), (1.0,), (1000,), (0.0,), (1.0,), 1000)
    one.drawn = Seen((arm, arm), looks=((found, found),), same=10)
    assert "93% of the law lies in cells" in words.verdict(one).seen
    assert "inside one" not in words._inside(replace(found, pooled=0.1))


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    places = dict(zip(("target", "draft"), map(str, pair_folders), strict=True))
    monkeypatch.setitem(PAIRS, "storybook", replace(PAIRS["storybook"], shipped=False, **places))
    page = AppTest.from_file(str(ROOT / "pages" / "broken.py"), default_timeout=120)
    page.query_params["prompt"] = "Once upon"
    yield settle(page.run())
    cache.weights.clear()


def settle(app: AppTest) -> AppTest:
    for _ in range(900):
        if not app.session_state["broken"].busy:
            return app.run()
        time.sleep(0.1)
    raise AssertionError("the work did not end")


def test_a_click_catches_the_mistake_and_another_one_begins_anew(app):
    assert not app.exception
    settle(app.button(key="broken-until").click().run())
    assert not app.exception
    assert any("Caught:" in one.value for one in app.markdown)
    charts = app.get("plotly_chart")
    assert len(charts) == 3 and all(chart.proto.alt for chart in charts)
    app.selectbox(key="broken-mistake-0").set_value("R18").run()
    settle(app)
    assert (app.session_state["broken"].drawn.n, app.query_params["mistake"]) == (0, "R18")


def test_a_hidden_one_is_guessed_and_revealed(app):
    app.selectbox(key="broken-mistake-0").set_value(HIDDEN).run()
    settle(app)
    assert app.button(key="broken-guess-A").disabled, "nothing is drawn yet"
    settle(app.button(key="broken-next").click().run())
    app.button(key="broken-guess-A").click().run()
    assert not app.exception
    assert any("You guessed after 100 draws" in one.value for one in app.markdown)
    app.button(key="broken-another").click().run()
    settle(app)
    assert not app.exception
    assert app.session_state["broken"].guess is None and app.query_params["mistake"] == HIDDEN
