"""How fast?: recorded plans open without torch, links lead back, a plan takes its place, pictures show the record's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import SettingsError, TraceError
from specviz.export import printed_fast
from specviz.figures import fast as figures
from specviz.planning.plan import Interval
from specviz.planning.plans import CHOICES, GAMMAS, Choice, from_json, to_json
from specviz.settings import Settings
from specviz.web import fast_export, fast_work
from specviz.web.fast import Ask, Forecasts, recorded, shown_text, study
from specviz.web.queue import Queue, Stopped
from tests.pages import FreeTicket, first_paint
from tests.test_plan import TEXT, curve, planned

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def ready(page_pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are, and texts are short."""
    for name, value in {"TEXTS": 3, "OPENING": 8, "LENGTH": 12, "PROBES": 2, "GAMMAS": (1, 2, 3)}.items():
        monkeypatch.setattr(fast_work, name, value)


@pytest.fixture(scope="module")
def shown():
    return recorded()["storybook 1"]


def opened_page(query: dict[str, str]) -> dict:
    """What the first paint shows, in a process where torch cannot be imported."""
    return first_paint("fast", query)


def test_the_recorded_plan_opens_without_torch_and_says_where_it_was_made(shown):
    seen = opened_page({})
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], shown_text())
    assert seen["figures"] == (2 if shown.costs is None else 3) and "Plan for this text" in seen["buttons"]
    assert any(one.startswith("Recorded for the text bedtime.txt") and "cores" in one for one in seen["text"])


def test_a_damaged_link_opens_and_every_bad_value_is_named_as_text():
    seen = opened_page({"draft": "<b>x</b>", "temperature": "9", "text": "a $x$ :red[b]"})
    assert (seen["errors"], seen["prompt"]) == (0, "a $x$ :red[b]")
    said = "\n".join(seen["text"])
    assert "link's draft was left out" in said and "'<b>x</b>'" in said and "link's temperature was left out" in said


def test_a_link_leads_to_what_it_was_made_from():
    for ask in (Ask(shown_text(), Choice("ngram", "0")), Ask("The cat sat on the mat.")):
        assert Ask.of_link(ask.link(), Settings()) == (ask, [])
    assert "text" not in Ask("a" * 5000).link()
    with pytest.raises(SettingsError, match="at most 20,000 characters"):
        Ask("a" * 20_001)


def test_the_recorded_plans_hold_every_draft_at_every_temperature_and_their_measurement():
    """Twice the half width of a 95% interval is four standard errors: beyond it one gap in 16,000 lies by chance, and here are 48."""
    found = recorded()
    assert list(found) == [choice.key for choice in CHOICES]
    for choice in CHOICES:
        one = found[choice.key]
        assert one.settings == replace(choice.under(Settings()), gamma=GAMMAS[-1], length=one.length)
        assert [row.gamma for row in one.rows] == [row.gamma for row in one.checked] == list(GAMMAS)
        for row in one.checked:
            gap = row.gaps["kept guesses"]
            assert abs(gap.value) <= gap.high - gap.low + 1e-9
            if choice.temperature == "0":
                assert gap.value == pytest.approx(0.0, abs=1e-9)


def test_plans_come_back_and_damage_is_refused():
    text = to_json({"x": planned(0.1)})
    assert from_json(text) == {"x": planned(0.1)}
    for damaged in ("[]", "{}", text[:-5], text.replace("specviz-plans-1", "other"), text.replace('"rows"', '"lines"')):
        with pytest.raises(TraceError):
            from_json(damaged)


def test_the_picture_of_tokens_shows_every_formula_and_the_measurement(shown):
    figure = figures.tokens(shown)
    named = {trace.name: trace for trace in figure.data}
    assert list(named["kept guesses"].y) == [row.tokens.value for row in shown.rows]
    assert list(named["by depth"].y) == [row.hazards for row in shown.rows]
    assert list(named["one alpha"].y) == [row.independent for row in shown.rows]
    assert list(named["measured"].y) == [row.tokens.value for row in shown.checked]
    band = named["middle 95%"]
    assert list(band.y) == [*(row.tokens.high for row in shown.rows), *(row.tokens.low for row in shown.rows[::-1])]
    assert figure.layout.yaxis.title.text == "tokens per pass of the target"
    worst = max(abs(row.gaps["kept guesses"].value) for row in shown.checked)
    assert f"{worst:.1%} off what was measured" in figures.tokens_conclusion(shown)
    assert "just what was measured" in figures.tokens_conclusion(recorded()["ngram 0"])


def test_the_picture_of_speed_shows_the_factors_of_its_plan():
    plan = planned(0.1)
    rows = tuple(replace(row, linear=1.5, leviathan=2.0) for row in plan.rows)
    named = {trace.name: trace for trace in figures.factors(replace(plan, rows=rows)).data}
    assert list(named["kept guesses"].y) == [row.factor.value for row in rows]
    assert list(named["by depth"].y) == [1.5] * 4 and list(named["Leviathan"].y) == [2.0] * 4
    assert "measured" not in named, "nothing was"


def test_the_picture_of_acceptance_is_the_study():
    found = study()
    figure = figures.temperatures(found, "storybook")
    assert len(figure.data) == 9 + 1
    cells = [cell for cell in found.measured(("storybook",)) if cell.temperature == 1.0]
    mean = figure.data[-1]
    assert dict(zip(mean.x, mean.y, strict=True))[1.0] == pytest.approx(sum(cell.share for cell in cells) / len(cells))
    assert figures.scores(found)[0]["predictor"] == "kept guesses"


def test_the_papers_table_stands_beside_its_formula():
    lines = figures.published()
    assert len(lines) == 12 and lines[2]["error"] == "+47%" and lines[2]["reported"] == 1.7


def test_a_plan_of_a_visitors_text_takes_its_place(ready):
    ask = Ask(TEXT.strip())
    forecasts, ticket = Forecasts(ask, Queue()), FreeTicket()
    assert forecasts.shown is recorded()["storybook 1"] and not forecasts.own
    fast_work.make(forecasts, ticket, ask)
    assert forecasts.own and [row.gamma for row in forecasts.shown.rows] == [1, 2, 3] and forecasts.shown.costs is not None
    assert ticket.shares == sorted(ticket.shares) and ticket.shares[-1] == 1.0
    assert not forecasts.choose(ask) and forecasts.choose(Ask(ask.text, Choice("ngram"))) and not forecasts.own


def test_a_plan_that_is_stopped_leaves_everything_as_it_was(ready):
    forecasts = Forecasts(Ask(TEXT), Queue())
    with pytest.raises(Stopped):
        fast_work.make(forecasts, FreeTicket(5), forecasts.question)
    assert forecasts.found == {}


def test_a_text_too_short_to_plan_on_is_a_sentence_on_the_page(ready):
    forecasts = Forecasts(Ask("Once upon"), Queue())
    forecasts.plan()
    forecasts.ticket.ended.wait(30)
    assert "at least 20 tokens long" in forecasts.notices[0] and forecasts.found == {}


def test_the_same_numbers_leave_in_print_and_on_the_screen_and_the_command_makes_the_plan_again(shown):
    forecasts = Forecasts(Ask(shown_text()), Queue())
    package = fast_export.fast_package(forecasts, shown)
    axes, page = printed_fast.tokens(shown).axes[0], {trace.name: trace for trace in figures.tokens(shown).data}
    printed = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    for name in ("kept guesses", "by depth", "one alpha"):
        assert printed[name] == list(page[name].y)
    assert {"plan.json", "gammas.csv", "study.csv", "tokens.svg", "acceptance.pdf", "figures.html"} <= set(package.names)
    assert package.file("gammas.csv") == package.file("gammas.csv") and len(package.file("gammas.csv").splitlines()) == 1 + len(
        GAMMAS
    )
    words = fast_export.command(shown).split()
    assert words[:4] == ["python", "-m", "specviz", "plan"] and "--check" in words


def test_a_verdict_in_words_stands_for_each_outcome():
    assert curve(0.1).spread == 0.0
    assert "Speculate with gamma 4" in planned(0.1).in_words
    straddling = planned(0.1)
    rows = tuple(replace(row, factor=Interval(1.01, 0.97, 1.05)) for row in straddling.rows)
    assert "told from chance" in replace(straddling, rows=rows).in_words
