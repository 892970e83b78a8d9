"""Serving limits: the recorded measurement opens without torch, links lead back, a run takes its place, pictures show the record's numbers."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from math import log

import pytest

from specviz.errors import CancelledError, SettingsError
from specviz.evidence.serving_setups.records import (
    COMPARISONS,
    EXACT,
    LOSSY,
    SETUPS,
    TOLERANCE,
    GreedyPair,
    GreedyText,
    NearTieSummary,
    SetupComparison,
)
from specviz.jobs.queue import FairQueue, Ticket
from specviz.settings import Settings
from specviz.speed.records import headline
from specviz.web.common import html, measurement_page
from specviz.web.common.html import TextLine
from specviz.web.hosting import cache, warmup
from specviz.web.serving_limits import export, view, work
from specviz.web.serving_limits import near_tie_figures as ties
from specviz.web.serving_limits import setup_figures as figures
from specviz.web.serving_limits.state import SetupsQuestion, SetupsState, load_recorded_setups
from tests.helpers.pages import FreeTicket, draw_first_paint

PIECES = {token: bytes([96 + token]).hex() for token in range(1, 9)}
HAND_MADE = NearTieSummary("bf16", tuple(
    GreedyPair((1, 2), GreedyText((3, 4, 5), (2.0, 0.5, margin)), GreedyText((3, 4, last), (2.1, 0.4, margin)), PIECES)
    for margin, last in ((0.01, 6), (0.03, 7), (1.0, 5), (0.0, 5))
))  # fmt: skip


@pytest.fixture
def ready_page(pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are, and everything is small."""
    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(cache, "load_weights", lambda *key: pair)
    for name, value in {"TEXTS": 2, "LENGTH": 4, "POSITIONS": 2, "RUNS": 1, "TOKENS": 3, "GREEDY": 5}.items():
        monkeypatch.setattr(work, name, value)


@pytest.fixture(scope="module")
def recorded_setups() -> SetupComparison:
    return load_recorded_setups()


def open_page(query: dict[str, str]) -> dict:
    """What the first paint shows, in a process where torch cannot be imported."""
    return draw_first_paint("serving_limits", query)


def test_the_recorded_measurement_opens_without_torch_and_says_where_it_was_made():
    seen = open_page({})
    assert (seen["errors"], seen["heavy"], seen["figures"]) == (0, [], 0) and "Measure every setup" in seen["buttons"]
    assert any(one.startswith("The measurements were recorded on passages of dorothy") and "cores" in one for one in seen["text"])


def test_a_damaged_link_opens_and_every_bad_value_is_named_as_text():
    seen = open_page({"arm": "<b>x</b>", "pair": "a|b", "prompt": "a $x$ :red[b]"})
    assert (seen["errors"], seen["prompt"]) == (0, "a $x$ :red[b]")
    said = "\n".join(seen["text"])
    assert (
        "link's comparison was left out" in said
        and "'<b>x</b>'" in said
        and "asks for its own pair of models, a|b. Nothing was loaded" in said
    )


def test_a_link_leads_to_what_it_was_made_from():
    for ask in (SetupsQuestion(Settings(prompt="Once"), "bf16"), SetupsQuestion(Settings())):
        assert SetupsQuestion.from_link(ask.build_link(), Settings(prompt="other")) == (ask, [])
    with pytest.raises(SettingsError, match="arm must be one of int8"):
        SetupsQuestion(Settings(), "fp4")
    cut = SetupsQuestion(Settings(temperature=0.5, top_k=3, gamma=7).with_uniform(0, "accept", 0.1)).settings
    assert (cut.temperature, cut.top_k, cut.gamma, cut.is_edited) == (1.0, None, 3, False)


def test_the_recorded_measurement_holds_every_row_and_says_what_it_must(recorded_setups):
    assert [row.key for row in recorded_setups.rows] == list(SETUPS) and recorded_setups.settings == SetupsQuestion(
        Settings()
    ).settings
    for row in recorded_setups.rows:
        assert row.own.prefixes >= 100
        if row.entry.kind == EXACT:
            assert row.own.worst <= TOLERANCE, f"{row.key} changes its own distribution"
        if row.entry.kind == LOSSY:
            assert row.own.worst > 100 * TOLERANCE
    assert set(recorded_setups.near_ties.comparisons) == set(COMPARISONS) and all(
        len(one) >= 20 for one in recorded_setups.near_ties.comparisons.values()
    )
    assert not recorded_setups.near_ties.summarize("fp32-blocks").differences, "draft tokens change nothing"


def test_the_table_has_a_line_for_each_row_and_the_conclusion_its_extremes(recorded_setups):
    lines = figures.build_setup_table(recorded_setups)
    for ((name, apart, mean, own, verdict), meaning), row in zip(lines, recorded_setups.rows, strict=True):
        assert (name, meaning, own) == (row.entry.name, row.entry.description, figures.format_change(row.own.worst))
        assert mean == figures.format_change(row.own.mean)
        assert apart == (figures.format_change(row.distance.value) if row.distance else "reference")
        assert verdict == f"{figures.get_sign(row)} {figures.WORDS[row.verdict]}"
    for noisy in (False, True):
        one = replace(recorded_setups, spread=1.0 if noisy else 0.0)
        speeds = [line["speed-up with draft tokens"] for line in figures.build_speed_rows(one)]
        assert (set(speeds) == {figures.NOISY}) == noisy, "a speed that is no verdict is not shown as one"
        assert (
            "No speeds are given" in figures.describe_timing(one)
        ) == noisy and f"gamma {recorded_setups.settings.gamma}" in figures.describe_timing(one)
    said = figures.describe_setups(recorded_setups)
    worst = max(row.own.worst for row in recorded_setups.rows if row.entry.kind == LOSSY)
    assert f"it changes the text, by up to {figures.format_change(worst)}." in said
    same = sum(row.own.worst <= TOLERANCE for row in recorded_setups.rows)
    assert view.split_number(said)[0] == f"{same} of {len(recorded_setups.rows)}" and 0 < same < len(recorded_setups.rows)
    assert view.split_number("Nothing here.") == ("", "Nothing here.")
    blank = replace(recorded_setups, rows=tuple(type(row)(row.key, "none") for row in recorded_setups.rows))
    assert figures.describe_setups(blank) == "Nothing could be compared on this pair." and figures.build_setup_table(blank)[
        0
    ] == (
        ("float32", "–", "–", "–", "–"),
        "none",
    )


def test_the_picture_of_distances_shows_both_of_every_row_on_a_log_axis(recorded_setups):
    figure = figures.plot_distances(recorded_setups)
    named = {trace.name: trace for trace in figure.data if trace.name}
    worst = named[figures.PLOTTED_ADDED]
    assert list(worst.x) == [max(figures.LEAST, row.own.worst) for row in recorded_setups.rows]
    assert list(named[figures.PLOTTED_SETTING].x) == [row.distance.value for row in recorded_setups.rows if row.distance]
    assert (figure.layout.xaxis.type, figure.layout.xaxis.title.text) == ("log", figures.AXIS)


def test_the_list_has_each_mistake_under_the_setup_that_it_breaks_with_a_bar_as_long_as_drafting_adds(recorded_setups):
    rows = recorded_setups.rows
    made = figures.build_setup_list(recorded_setups)
    texts = {re.findall("</i><b>(.*?)</b>", one)[0]: one for one in made.split("<details ")[1:]}
    assert len(texts) == len(rows) == made.count("<summary")
    for row in rows:
        text = texts[row.entry.name]
        assert text.startswith(f"class='{row.verdict.split()[-1]}'") and f"<i>{figures.get_sign(row)}</i>" in text
        added = f"class='added' style='width:{100 * row.own.worst:.2f}%'" in text
        assert added is (row.own.worst > TOLERANCE) is not (">nothing</span>" in text)
        if row.distance:
            assert f"The setting itself moves {figures.format_change(row.distance.value)} on average" in text
        assert str(row.own.prefixes) in text and "×10" not in text, "no exponents"
    *pairs, alone = [re.findall("</i><b>(.*?)</b>", one) for one in made.split("<section>")[1:]]
    worst = {row.entry.name: row.own.worst for row in rows if row.entry.kind == LOSSY}
    kept = {row.entry.name: SETUPS[row.entry.reference_key].name for row in rows if row.entry.kind == LOSSY}
    assert pairs == [[kept[name], name] for name in sorted(worst, key=worst.get, reverse=True)] and len(pairs) > 1
    assert alone == [row.entry.name for row in rows if row.entry.name not in {*kept, *kept.values()}]


def test_a_setup_that_could_not_be_measured_says_why_in_the_list(recorded_setups):
    blank = replace(recorded_setups.rows[1], reason="<b>not here</b>", own=None, distance=None)
    made = figures.build_setup_list(replace(recorded_setups, rows=(blank,)))
    assert "<i>–</i>" in made and "&lt;b&gt;not here" in made and "class='added'" not in made and "<details" not in made


def test_a_change_is_written_in_percent_and_rounding_is_no_change():
    assert [figures.format_change(value, "up to ") for value in (0.0, TOLERANCE, 2e-5, 0.00066, 0.018, 0.82)] == [
        "nothing", "nothing", "less than 0.01%", "up to 0.066%", "up to 1.8%", "up to 82%"]  # fmt: skip


def test_what_a_gpu_adds_is_read_from_its_record(monkeypatch):
    (costs,) = ties.list_gpu_costs().values()
    tokens = {kind: costs.pair[f"{kind}, T=0"].tokens_per_round for kind in ("bfloat16", "float32")}
    said = ties.describe_gpu_rounding()
    assert all(f"{tokens['bfloat16'][engine]:.2f}" in said for engine in ("device", "compiled")) and costs.machine in said
    assert f"In float32 both wrote {tokens['float32']['device']:.2f}" in said
    monkeypatch.setattr(
        ties, "list_gpu_costs", lambda: {"x": replace(costs, pair=costs.pair | {"bfloat16, T=0": costs.pair["float32, T=0"]})}
    )
    assert ties.describe_gpu_rounding() == "", "no claim where the record does not show it"


def test_margins_are_drawn_up_to_where_texts_diverge():
    figure = ties.plot_margins(HAND_MADE)
    named = {trace.name: trace for trace in figure.data}
    assert list(named["both texts have the same token"].x) == [1, 2, 1, 2, 1, 2, 3, 1, 2, 3]
    assert list(named["here the texts part"].y) == [0.01, 0.03] and list(named["here the texts part"].x) == [3, 3], (
        "positions count from 1"
    )
    assert min(named["both texts have the same token"].y) == ties.FLOOR, "a tie stands on the edge"
    lines = ties.plot_margins(NearTieSummary("int8", HAND_MADE.pairings[:1]))
    assert [trace.name for trace in lines.data] == ["float32", "int8", "here the texts part"]
    assert list(lines.data[1].y) == [2.1, 0.4, 0.01]


def test_the_histogram_counts_every_margin_once():
    edges, everywhere, there = ties.compute_histogram(HAND_MADE)
    assert sum(everywhere) == pytest.approx(1.0) and sum(there) == pytest.approx(1.0) and len(edges) == ties.BINS + 1
    place = next(n for n, (a, b) in enumerate(itertools.pairwise(edges)) if 10**a <= 0.01 < 10**b)
    assert there[place] == 0.5 and everywhere[0] == pytest.approx(1 / 12)
    bars = ties.plot_gap_histogram(HAND_MADE)
    assert list(bars.data[0].y) == everywhere
    centers = [sum(pair) / 2 for pair in itertools.pairwise(edges)]
    dots = [centers[n] for n, share in enumerate(there) for _ in range(round(2 * share))]
    assert list(bars.data[1].x) == dots and len(dots) == len(HAND_MADE.differences) == 2, "a dot is a text"
    columns = ties.build_gap_histogram(HAND_MADE).split("class='columns'")[1].split("<span><i>")[1:]
    assert [column.count("<u>") for column in columns] == [round(2 * share) for share in there]
    assert [
        f"height:{100 * share / max(everywhere):.1f}%" in column for column, share in zip(columns, everywhere, strict=True)
    ] == [True] * ties.BINS


def test_the_conclusion_of_near_ties_follows_its_counts():
    said = ties.describe_near_ties(HAND_MADE)
    assert said.startswith("2 of 4 greedy texts of 3 tokens differ between float32 and bfloat16. ")
    assert "at most 0.03 apart (median 0.02); over all positions the median is" in said
    assert (
        ties.describe_near_ties(NearTieSummary("int8", HAND_MADE.pairings[2:]))
        == "Float32 and int8 write the same tokens in 2 greedy texts of 3 tokens."
    )
    one = ties.describe_near_ties(NearTieSummary("int8", HAND_MADE.pairings[:1]))
    assert one.startswith(
        "The greedy text differs between float32 and int8, from token 3 on. Where the texts first differ, the two largest logits are 0.01 apart; "
    )
    (line, _) = ties.build_difference_rows(HAND_MADE)
    assert (line["after"], line["position"], line["float32"], line["bfloat16"]) == ("…abcd", 3, "e", "f")


def test_a_greedy_text_that_runs_in_a_circle_is_said_to_repeat_itself():
    def build_pairing(*tokens):
        return GreedyPair(
            (), GreedyText(tokens, (1.0,) * len(tokens)), GreedyText((*tokens[:-1], 8), (1.0,) * len(tokens)), PIECES
        )

    circles, straight = build_pairing(1, 2, 3, 4, 3, 4, 3, 4), build_pairing(1, 2, 3, 4, 3, 4, 3, 5)
    assert circles.is_loop and not straight.is_loop and not HAND_MADE.pairings[0].is_loop
    assert ties.describe_near_ties(NearTieSummary("int8", (circles,))).endswith("This text repeats itself, so the gap does too.")
    assert "repeats" not in ties.describe_near_ties(NearTieSummary("int8", (straight,)))


def test_a_measurement_of_a_visitors_text_takes_its_place(ready_page):
    ask = SetupsQuestion(Settings(prompt="Once upon a time"))
    visit, ticket = SetupsState(ask, FairQueue()), FreeTicket()
    assert visit.shown_result is load_recorded_setups() and not visit.has_own_result
    work.measure_setups(visit, ticket, ask)
    assert (
        visit.has_own_result
        and [row.key for row in visit.shown_result.rows] == list(SETUPS)
        and visit.shown_result.text == "your text"
    )
    assert ticket.shares == sorted(ticket.shares) and ticket.shares[-1] == 1.0
    assert len(visit.shown_result.near_ties.comparisons["bf16"]) == 1
    assert visit.choose(replace(ask, arm="bf16")) and visit.has_own_result, "another arm only shows"
    assert (
        not visit.choose(replace(ask, arm="bf16"))
        and visit.choose(SetupsQuestion(Settings(prompt="Once")))
        and not visit.has_own_result
    )


def test_back_keeps_what_a_visitor_has_measured(monkeypatch):
    before = SetupsState(SetupsQuestion(Settings(prompt="Once")), FairQueue())
    before.results = {("Twice", Settings().pair): load_recorded_setups()}
    monkeypatch.setattr(measurement_page.session, "find_base_settings", Settings)
    monkeypatch.setattr(
        measurement_page.session, "open_state", lambda name, opened: opened({"prompt": "Twice", "arm": "x"}, before)
    )
    after = measurement_page.open_state("serving_limits", SetupsState, SetupsQuestion)
    assert after.has_own_result and after.question.settings.prompt == "Twice" and "link's comparison" in after.notes[0]


def test_setups_appear_as_they_are_checked_and_a_run_that_ended_stays(ready_page, monkeypatch):
    monkeypatch.setattr(SetupsState, "PARTIAL_INTERVAL", -1.0)
    monkeypatch.setattr(work, "RUNS", 2)
    visit, ticket, measured = SetupsState(SetupsQuestion(Settings(prompt="Once upon")), FairQueue()), FreeTicket(), []
    visit.ticket, put = Ticket(visit.queue, work.measure_setups, None), visit.store

    def record_partial(ticket, **found):
        put(ticket, **found)
        measured.append(visit.partial_result or visit.shown_result)

    def stop_at_second_run(share=None, doing=None):
        if "run 2 of 2" in (doing or ""):
            raise CancelledError

    monkeypatch.setattr(visit, "store", record_partial)
    ticket.tick = stop_at_second_run
    with pytest.raises(CancelledError):
        work.measure_setups(visit, ticket, visit.question)
    *checked, tied, first = measured
    assert [len(one.rows) for one in checked] == list(range(1, len(SETUPS) + 1))
    assert all(row.own is not None or row.reason for row in checked[-1].rows) and not checked[-1].near_ties.comparisons
    assert (
        figures.describe_setups(checked[0]) == "Nothing could be compared on this pair."
        and len(figures.build_setup_table(checked[0])) == 1
    )
    assert tied.runs == 0 and tied.near_ties.comparisons and tied.rows == checked[-1].rows
    assert "nothing is timed yet" in view.describe_measurement(visit, tied)
    visit.ticket = None
    assert (
        visit.has_own_result
        and first.runs == 1
        and "Incomplete: stopped after 1 of 2 runs" in view.describe_measurement(visit, visit.shown_result)
    )


def test_a_run_that_is_stopped_leaves_everything_as_it_was(ready_page):
    visit = SetupsState(SetupsQuestion(Settings(prompt="Once upon")), FairQueue())
    for ticks in (0, 3, 25):
        with pytest.raises(CancelledError):
            work.measure_setups(visit, FreeTicket(ticks), visit.question)
    assert visit.results == {}


def test_a_text_too_long_is_a_sentence_on_the_page(ready_page):
    visit = SetupsState(SetupsQuestion(Settings(prompt="Once upon a time " * 40)), FairQueue())
    visit.submit(work.measure_setups, visit.question)
    visit.ticket.ended.wait(30)
    assert "The prompt is too long" in visit.notices[0] and visit.results == {}


def test_the_same_numbers_leave_as_files_and_the_command_records_them_again(recorded_setups):
    visit = SetupsState(SetupsQuestion(Settings()), FairQueue())
    package = export.build_offer(visit).build()
    assert {"setups.json", "rows.csv", "greedy.csv", "distances.svg", "margins.png", "spread.pdf", "figures.html"} <= set(
        package.names
    )
    rows = package.build_file("rows.csv")
    assert rows == package.build_file("rows.csv") and len(rows.splitlines()) == 1 + len(SETUPS)
    assert sum(line.endswith(b"False") for line in package.build_file("greedy.csv").splitlines()) == sum(
        len(recorded_setups.near_ties.summarize(key).differences) for key in recorded_setups.near_ties.comparisons
    )
    words = export.build_setups_command(recorded_setups).split()
    assert words[:5] == ["python", "-m", "specviz", "record", "setups"] and str(recorded_setups.texts) in words


def test_the_story_is_the_closest_tie_of_two_words_told_with_its_own_numbers():
    seen = load_recorded_setups().near_ties.summarize("bf16")
    told = ties.build_story(seen)
    words = [pair for pair in seen.differences if all(name[0] == "·" and name[1:].isalpha() for name in ties.name_tokens(pair))]
    one = min(words, key=lambda pair: pair.margins[0])
    assert (told.place, told.gaps, told.names) == (one.place + 1, one.margins, ("float32", "bfloat16"))
    assert len(words) < len(seen.differences), "a comma stands in some of them"
    rest = tuple(pairing for pairing in seen.pairings if pairing not in [pair.pair for pair in words])
    marks = ties.build_story(replace(seen, pairings=rest))
    assert marks is not None and marks.gaps[0] == min(pair.margins[0] for pair in seen.differences if pair not in words)
    assert told.tokens[0] != told.tokens[1] and told.before and all(told.after)
    for way, gap in enumerate(told.gaps):
        shares = told.compare_tokens(way)
        assert sum(shares) == pytest.approx(1.0) and log(shares[way] / shares[1 - way]) == pytest.approx(gap), (
            "the one written leads"
        )
    assert ("makes them equal" if told.gaps[1] == 0.0 else "swaps them") in told.sentence
    assert "swaps them" in replace(told, gaps=(0.1, 0.2)).sentence
    assert [ties._end_sentence(text) for text in (" it. Then", " so", ' x."\n')] == [" it.", " so …", ' x."']
    bars = ties.build_lead_bars(told)
    assert f"<b>{seen.median_margin:.2g}</b>" in bars and f"width:{100 * told.gaps[1] / seen.median_margin:.2f}%" in bars
    same = replace(one.pair, second=one.pair.first)
    assert ties.build_story(replace(seen, pairings=(same,))) is None and ties.build_story(None) is None, "no texts part"


def test_speeds_stand_beside_those_of_how_fast_with_the_same_settings(recorded_setups):
    said = headline.add_headline(recorded_setups.settings)
    assert headline.format_headline("1") in said and headline.describe_headline_origin() in said
    assert headline.add_headline(replace(recorded_setups.settings, pair="a|b")) == ""


def test_the_cells_of_a_plain_table_are_text():
    made = html.build_plain_table(("<a>", "<b>"), [(("<name>", "<1>"), "<why>")])
    assert (
        "<th scope='row'>&lt;name&gt;<small>&lt;why&gt;</small></th><td data-title='&lt;b&gt;'>&lt;1&gt;</td>" in made
        and "<th scope='col'>&lt;a&gt;</th>" in made
    )


def test_the_page_opens_with_the_question_and_what_models_wrote_is_text():
    seen = open_page({})
    assert any("Which text did speculative decoding change?" in line for line in seen["said"])
    story = ties.NearTieStory(("<x>", "y"), "<b>", ("<c>", "d"), ("<e>", "f"), 1, (0.1, 0.2), 1.0)
    fork, bars = (
        ties.build_fork(story, {"number_types": {"<x>": "<note>"}, "both": "<both>", "shares": "<of both> {word} {lead}"}),
        ties.build_lead_bars(story),
    )
    assert (
        all(raw not in fork + bars for raw in ("<x>", "<b></", "<c>", "<e>", "<note>", "<of both>", "<both>"))
        and "&lt;c&gt;" in fork
        and "&lt;c&gt;" in bars
    )
    assert re.findall("&lt;of both&gt; (.*?)</span>", fork) == ["&lt;c&gt; 5", "d 10"], "who leads, by how many points"
    assert ties.curl_quotes('"I\'m not," he said ("no")') == "“I’m not,” he said (“no”)"
    assert (
        "<b class='one'>&lt;c&gt;</b>&lt;e&gt;" in fork
        and "<b class='other'>d</b>f" in fork
        and "… &lt;b&gt;" in fork
        and "<small>&lt;note&gt;</small>" in fork
    )
    assert re.findall("'([a-z ]+)'>([^<]+) <span>([0-9.]+)%", fork) == [
        ("one best", "&lt;c&gt;", "52.50"), ("other second", "d", "47.50"), ("one second", "&lt;c&gt;", "45.02"), ("other best", "d", "54.98"),
    ]  # fmt: skip
    bars_of_ways = re.findall("<em class='[a-z]+ (best|second)' style='width:([0-9.]+)%'>", fork)
    recorded = load_recorded_setups().near_ties
    changed = [len(recorded.summarize(key).differences) for key in ("int8", view.DRAFTED)]
    said = ties.describe_rates(recorded.summarize("int8"), recorded.summarize(view.DRAFTED), view.TEXTS)
    assert changed[0] and f"int8 changed **{changed[0]} of 24** texts" in said and f"**{changed[1] or 'none'}**" in said
    assert bars_of_ways == [("best", "52.50"), ("second", "47.50"), ("second", "45.02"), ("best", "54.98")], "a bar is 100%"
    made = html.build_two_texts([TextLine("<a>", "right", "<b>", "<c>", " <d>", "&")])
    assert "<i>&lt;b&gt;</i>&lt;c&gt; <b class='right'>&lt;d&gt;</b>&amp;" in made
