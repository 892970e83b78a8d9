"""A text written both ways: its rounds are the engine's, each clock counts its own work, records come back whole, sentences follow the counts."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest

from specviz.decoding.run import record_run
from specviz.errors import TraceError
from specviz.settings import Settings
from specviz.speed.benchmarks import passage
from specviz.speed.records.passage import (
    SPECULATIVE,
    TARGET_ONLY,
    Passage,
    RoundTime,
    TimedRound,
    dump_passages,
    label_origins,
    load_passages,
)
from specviz.trace import Decision, Ending, Round
from specviz.web.one_round.payload import read_cursor
from specviz.web.one_round.words import build_steps
from specviz.web.whole_text import figures, payload, words
from specviz.web.whole_text.figures import MARKED

SETTINGS = Settings(prompt="Once upon a time the old bear", seed=3, max_new_tokens=24, gamma=3)


@pytest.fixture(scope="module")
def measured_passage(pair) -> Passage:
    return passage.write_passage(pair, SETTINGS, runs=2)


def draft_token(token: int, accepted: bool | None) -> Decision:
    return Decision(token, -1, "draft", 0.5, 0.4, 0.1, 0.2, 0.8, accepted)


def round_of(*accepted: bool | None, kind: str = "residual", token: int | None = 9) -> Round:
    decisions = tuple(draft_token(n, is_accepted) for n, is_accepted in enumerate(accepted))
    return Round(4, decisions, tuple(n for n, is_accepted in enumerate(accepted) if is_accepted), Ending(kind, token, 0.3))


def test_the_origin_of_a_token_follows_from_the_round_alone():
    assert label_origins(round_of(True, False, None)) == ((0, "accepted"), (9, "residual"))
    assert label_origins(round_of(True, True, kind="bonus")) == ((0, "accepted"), (1, "accepted"), (9, "bonus"))
    assert label_origins(round_of(kind="bonus")) == ((9, "target"),)
    assert label_origins(round_of(True, kind="eos", token=None)) == ((0, "accepted"),)


def test_the_second_lane_is_the_run_that_the_stage_shows(pair, measured_passage):
    """The link behind a token leads to its round because the rounds are the same ones."""
    trace = record_run(pair, SETTINGS, bars=0)
    assert measured_passage.speculative.trace == trace
    token = measured_passage.speculative.tokens[10]
    query = dict(parse_qsl(payload.link_round(SETTINGS, token.round).partition("?")[2]))
    found, said = Settings.from_query(query)
    assert (found, said) == (SETTINGS, []) and read_cursor(query["at"]) == {"round": token.round, "step": 0}


def test_the_first_lane_is_the_target_alone(measured_passage):
    assert (
        measured_passage.target.counts == {"target": SETTINGS.max_new_tokens}
        and len(measured_passage.target.trace.rounds) == SETTINGS.max_new_tokens
    )
    assert measured_passage.read.tokens == measured_passage.target.trace.output_ids


def test_at_temperature_0_both_lanes_write_one_text(pair):
    cold = passage.write_passage(pair, replace(SETTINGS, temperature=0.0), runs=1)
    assert cold.same_text and "token for token" in words.compare_texts(cold)
    assert set(cold.read.beta) <= {0.0, 1.0}


def test_each_clock_counts_its_own_work_and_the_lane_with_less_time_goes_next(pair, monkeypatch):
    """Time between two rounds is on no clock; a lane's times never run backwards."""
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    events = []
    for event in passage.stream_rounds(pair, SETTINGS):
        for _ in range(50):
            time.perf_counter()
        events.append(event)
    for lane in (TARGET_ONLY, SPECULATIVE):
        mine = [event.at for event in events if event.lane == lane]
        assert mine == sorted(mine)
    alone = [event for event in events if event.lane == TARGET_ONLY]
    assert alone[-1].at < 10 * SETTINGS.max_new_tokens, "fifty ticks between any two rounds would make more than a thousand"
    spent, both = (
        {TARGET_ONLY: 0.0, SPECULATIVE: 0.0},
        min(max(n for n, event in enumerate(events) if event.lane == lane) for lane in (TARGET_ONLY, SPECULATIVE)),
    )
    for event in events[:both]:
        assert spent[event.lane] == min(spent.values())
        spent[event.lane] = event.at


def test_work_that_is_stopped_ends_between_two_rounds(pair):
    class EnoughError(Exception):
        pass

    reports, counts = [], []

    def on_progress(share, doing):
        reports.append((share, doing))
        if counts[-1] == 5:
            raise EnoughError

    with pytest.raises(EnoughError):
        passage.write_passage(pair, SETTINGS, 2, on_progress, lambda rounds: counts.append(len(rounds)))
    assert reports[0][1] == "Warming up" and counts[-1] == 5 and len(reports) == len(counts)
    assert all(0.0 <= share <= 1.0 for share, _ in reports)


def test_clocks_are_those_of_the_middle_run_where_it_wrote_the_same(pair):
    def events(fast: float, token: int = 9) -> list[TimedRound]:
        return [
            TimedRound(TARGET_ONLY, round_of(kind="bonus"), 1.0),
            TimedRound(SPECULATIVE, round_of(True, kind="bonus", token=token), fast),
        ]

    empty = passage.build_passage(pair, SETTINGS, events(0.5))
    found = passage.add_rates(empty, [events(0.5), events(1.0), events(0.8)])
    assert found.factors == (4.0, 2.0, 2.5) and found.middle == 2 and found.speculative.clock == (0.8,)
    other = passage.add_rates(empty, [events(0.5), events(1.0), events(0.8, token=8)])
    assert other.speculative.clock == (0.5,), "another text's clock does not fit this one"


def timed_round(*accepted: bool | None, **timing: float) -> Round:
    return replace(round_of(*accepted, kind="bonus"), timing=timing)


def test_the_parts_of_each_rounds_time_are_those_of_the_middle_run_and_survive_a_record(pair):
    def events(pace: float) -> list[TimedRound]:
        drafted = [timed_round(True, draft=pace, target=2 * pace), timed_round(True, draft=2 * pace, target=3 * pace)]
        alone = timed_round(draft=0.001, target=0.75)
        return [
            TimedRound(TARGET_ONLY, alone, 1.0),
            TimedRound(SPECULATIVE, drafted[0], 4 * pace),
            TimedRound(SPECULATIVE, drafted[1], 10 * pace),
        ]

    runs = [events(0.25), events(1.0), events(0.5)]
    found = passage.add_rates(passage.build_passage(pair, SETTINGS, runs[0]), runs)
    assert found.middle == 2 and found.speculative.clock == (2.0, 5.0)
    assert found.speculative.times == (RoundTime(0.5, 1.0, 0.5), RoundTime(1.0, 1.5, 0.5))
    assert found.target.times == (RoundTime(0.0, 0.75, 0.25),), "nothing was drafted"
    assert [one.whole for one in found.speculative.times] == [2.0, 3.0]
    again = load_passages(dump_passages({"it": found}))["it"]
    assert again.speculative.times == found.speculative.times and again == found
    untimed = replace(found.speculative.trace, rounds=tuple(replace(one, timing={}) for one in found.speculative.trace.rounds))
    assert replace(found.speculative, trace=untimed).times == ()


def test_a_written_passage_has_the_parts_of_each_round_within_its_time(measured_passage):
    for lane in (measured_passage.target, measured_passage.speculative):
        assert len(lane.times) == len(lane.trace.rounds)
        assert all(one.target > 0.0 and one.other >= 0.0 for one in lane.times)
        assert sum(one.whole for one in lane.times) == pytest.approx(lane.seconds, abs=1e-4 * len(lane.clock))
    lane = measured_passage.speculative
    assert [one.draft > 0.0 for one in lane.times] == [len(one.proposals) > 0 for one in lane.trace.rounds]


def test_a_passage_comes_back_from_its_record_and_timing_is_no_part_of_equality(measured_passage):
    (back,) = load_passages(dump_passages({"here": measured_passage})).values()
    assert back.target == measured_passage.target and back.settings == measured_passage.settings
    assert back.speculative.tokens[-1].at == pytest.approx(measured_passage.speculative.seconds, abs=1e-5)
    assert (
        replace(
            measured_passage, target=replace(measured_passage.target, clock=tuple(2 * at for at in measured_passage.target.clock))
        )
        == measured_passage
    )


@pytest.mark.parametrize("damage", ("schema", "clock", "lanes", "text"))
def test_a_damaged_record_is_refused_with_a_sentence(measured_passage, damage):
    record = json.loads(dump_passages({"here": measured_passage}))
    if damage == "schema":
        record["schema"] = "other"
    elif damage == "clock":
        record["passages"]["here"][TARGET_ONLY]["clock"][3] = 0.0
    elif damage == "lanes":
        del record["passages"]["here"][SPECULATIVE]
    text = "{" if damage == "text" else json.dumps(record)
    with pytest.raises(TraceError, match="passage"):
        load_passages(text)


def test_the_lanes_hold_every_token_with_its_origin_round_and_time(measured_passage):
    drawn = payload.build_lanes_payload(measured_passage)
    for row, lane in zip(drawn["lanes"], (measured_passage.target, measured_passage.speculative), strict=True):
        assert [token["is"] for token in row["tokens"]] == [token.origin for token in lane.tokens]
        assert [token["at"] for token in row["tokens"]] == [token.at for token in lane.tokens]
        assert sum(round_["count"] for round_ in row["rounds"]) == len(row["tokens"])
    assert drawn["end"] == max(measured_passage.target.seconds, measured_passage.speculative.seconds)
    marked = [place for place, token in enumerate(drawn["lanes"][0]["tokens"]) if token["divergence"]]
    assert marked == sorted(payload.list_divergent_words(measured_passage.read)) and len(marked) <= MARKED
    assert all("href" in token for token in drawn["lanes"][1]["tokens"])


def test_a_token_leads_to_the_step_that_decides_it(pair, measured_passage):
    """An accepted token to its own check, a replacement to the check that rejected, a bonus token to its draw, by the steps of One round."""
    trace, links = (
        record_run(pair, SETTINGS),
        [row["href"] for row in payload.build_lanes_payload(measured_passage)["lanes"][1]["tokens"]],
    )
    seen = set()
    for token, link in zip(measured_passage.speculative.tokens, links, strict=True):
        at = read_cursor(dict(parse_qsl(link.partition("?")[2]))["at"])
        told = build_steps(trace, trace.rounds[at["round"]])[at["step"]]
        assert at["round"] == token.round
        if token.origin in ("bonus", "target"):
            assert told.kind == "bonus"
        else:
            decided = trace.rounds[token.round].proposals[told.node]
            assert told.kind == "uniform" and decided.accepted == (token.origin == "accepted")
            assert not decided.accepted or decided.token == token.token
        seen.add(token.origin)
    assert {"accepted", "residual"} <= seen, "the text has both"


def test_passes_and_the_time_of_a_round_explain_the_speed(measured_passage):
    """Four tokens both ways: alone in four passes of a second each; drafted in two rounds of 1.5 s. So 2 / 1.5 = 1.33."""
    alone = replace(
        measured_passage.target,
        trace=replace(measured_passage.target.trace, rounds=(round_of(kind="bonus"),) * 4),
        clock=(1.0, 2.0, 3.0, 4.0),
        rates=(1.0,),
    )
    rounds = (round_of(True, False), round_of(True, kind="bonus"))
    drafted = replace(
        measured_passage.speculative,
        trace=replace(measured_passage.speculative.trace, rounds=rounds),
        clock=(1.5, 3.0),
        rates=(4 / 3,),
    )
    found = replace(measured_passage, target=alone, speculative=drafted, machine={"threads": 1, "cores": 2})
    answer = words.build_answer(found)
    assert (answer["factor"], answer["unit"], answer["passes"]) == (
        "1.33",
        "as fast with a draft model",
        "4 tokens / (2 rounds, each as long as 1.50 target-only passes) = 1.33",
    )
    assert words.relate_speed(found).startswith(
        "A round gives 2.00 tokens and lasts 1.50 single passes: 2.00 / 1.50 = 1.33, at temperature 1. This is one text."
    )
    said = words.explain_speed(found)
    for part in (
        "2.00 tokens a pass: 4 tokens in 2 rounds, each with one target pass and up to 3 draft tokens.",
        "A round takes 1.50 s: the draft model runs 3 times, then the target reads 4 tokens. Without a draft, a pass reads one token and takes 1.00 s.",
        "One run. One text at temperature 1, 3 draft tokens per round, 1 of 2 cores.",
    ):
        assert part in said
    slow = words.build_answer(replace(found, speculative=replace(drafted, clock=(3.0, 6.0))))
    assert slow["factor"] == "0.67" and slow["unit"].endswith("drafting does not pay here")
    writing = words.build_answer(replace(found, read=None))
    assert set(writing.values()) == {""}, "no verdict after some tokens"


def test_before_both_ways_have_ended_a_round_there_is_no_answer(pair):
    begun = passage.build_passage(pair, SETTINGS, [])
    assert set(words.build_answer(begun).values()) == {""} and words.relate_speed(begun) == ""


def test_the_first_words_stand_while_the_models_warm_up_and_the_run_writes_them_again(pair):
    """Nothing is measured before the first token is shown, and no token that was shown is taken back."""
    stages, seen = ["Warming up"], []
    passage.write_passage(
        pair, SETTINGS, 1, lambda share, doing: stages.append(doing), lambda rounds: seen.append((stages[-1], list(rounds)))
    )
    warm = next(events for doing, events in reversed(seen) if doing == "Warming up")
    assert seen[0][1] and warm
    for lane in (TARGET_ONLY, SPECULATIVE):
        mine, whole = ([one.round for one in events if one.lane == lane] for events in (warm, seen[-1][1]))
        assert mine == whole[: len(mine)]


def test_the_legend_names_each_origin_that_a_token_has(measured_passage):
    """Two accepted, one replacement, one bonus token; what no token is has no entry."""
    rounds = (round_of(True, False), round_of(True, kind="bonus"))
    drafted = replace(
        measured_passage.speculative, trace=replace(measured_passage.speculative.trace, rounds=rounds), clock=(1.5, 3.0)
    )
    given = payload.build_lanes_payload(replace(measured_passage, speculative=drafted))
    assert given["legend"] == ["accepted", "residual", "bonus"]
    assert Counter(token["is"] for token in given["lanes"][1]["tokens"]) == {"accepted": 2, "residual": 1, "bonus": 1}


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((" the", " Th", "umb", " el", "ina", " ran", "."), {0, 5}),
        ((" it", "'s", " 12", " nights", "\n", "one", " more"), {0, 3, 5}),
        (("语", "言", "模", "型", "好", "的", "了"), set(range(7))),
    ],
)
def test_the_list_of_divergences_has_whole_words_if_the_text_has_any(measured_passage, pieces, words):
    """The last token may go on, so it is no whole word; nor is a part between letters."""
    n, read = len(pieces), measured_passage.read
    probs = replace(next(iter(read.divergences.values())), tokens=(0, n), p=(0.6, 0.2), q=(0.2, 0.6))
    one = replace(read, tokens=tuple(range(n)), p=read.p[:n], q=read.q[:n], beta=tuple(k / n for k in range(n)), kinds=read.kinds[:n],
                  divergences=dict.fromkeys(range(n), probs),
                  pieces={k: piece.encode().hex() for k, piece in enumerate((*pieces, " one"))})  # fmt: skip
    assert payload.list_divergent_words(one) == sorted(words)[:MARKED], "the largest difference first"
    split = replace(one, pieces={**one.pieces, n: b"el".hex()})
    assert payload.list_divergent_words(split) == list(range(n))[:MARKED], "the draft would go on with a word at every place"


def test_bytes_that_make_a_character_together_are_said_behind_the_last_of_them(measured_passage):
    """Three tokens: a letter, and the two bytes of an e with an accent."""
    trace = replace(measured_passage.target.trace, rounds=tuple(round_of(kind="bonus", token=n) for n in (1, 2, 3)),
                    pieces={**measured_passage.target.trace.pieces, 1: "66", 2: "c3", 3: "a9"})  # fmt: skip
    lane = replace(measured_passage.target, trace=trace, clock=(0.1, 0.2, 0.3))
    tokens = payload.build_lanes_payload(replace(measured_passage, target=lane, read=None))["lanes"][0]["tokens"]
    assert [token["makes"] for token in tokens] == ["", "", "é"]
    assert tokens[2]["since"] == 1, "the outline begins at the first of the two"
    assert [token["glyphs"][0] for token in tokens[1:]] == [{"t": "C3", "k": "byte"}, {"t": "A9", "k": "byte"}]


def test_what_is_still_written_is_drawn_up_to_the_time_it_will_take(pair, measured_passage):
    events = [event for event in passage.stream_rounds(pair, SETTINGS)][:10]
    half = passage.build_passage(pair, SETTINGS, events)
    tokens = len(half.target.trace.output_ids)
    drawn = payload.build_lanes_payload(half, done=False)
    assert drawn["end"] >= half.target.seconds * SETTINGS.max_new_tokens / tokens > half.target.seconds
    assert half.read is None and payload.build_divergences_payload(half) is None


def test_the_conclusion_counts_accepted_and_drawn_tokens_and_both_ways_passes(measured_passage):
    counts, said = measured_passage.speculative.counts, words.describe_tokens(measured_passage)
    drawn = SETTINGS.max_new_tokens - counts.get("accepted", 0)
    suggested = sum(len(round_.proposals) for round_ in measured_passage.speculative.trace.rounds)
    rejected = counts.get("residual", 0)
    unchecked = suggested - counts.get("accepted", 0) - rejected
    assert f"{counts.get('accepted', 0)} are accepted draft tokens, of {suggested} that the draft model suggested ({rejected} were rejected, {unchecked} were not checked" in said  # fmt: skip
    assert f"The other {drawn} were drawn, one at the end of a round" in said
    assert (
        f"{len(measured_passage.speculative.trace.rounds)} target passes; target-only sampling took {SETTINGS.max_new_tokens}."
        in said
    )


def test_a_text_that_ends_early_is_said_with_its_reason(measured_passage):
    assert words.describe_short_texts(measured_passage) == ""
    end = {**measured_passage.target.trace.pieces, 9: b"<|endoftext|>".hex()}
    short = replace(
        measured_passage.target,
        trace=replace(measured_passage.target.trace, rounds=(round_of(kind="bonus", token=9),), pieces=end),
        clock=(0.1,),
    )
    said = words.describe_short_texts(replace(measured_passage, target=short))
    assert (
        said
        == f"The text of target-only sampling ends after 1 of {SETTINGS.max_new_tokens} tokens, with <|endoftext|>, which ends a text."
    )
    assert words.describe_short_texts(replace(measured_passage, target=short, speculative=short)).startswith(
        "Both texts end after 1 of"
    )
    cut = replace(short, trace=replace(short.trace, rounds=(round_of(kind="bonus", token=8),)))
    assert "context was full" in words.describe_short_texts(replace(measured_passage, target=cut))


def test_a_slower_way_a_busy_machine_and_uneven_runs_are_said(measured_passage):
    slow = replace(
        measured_passage,
        target=replace(measured_passage.target, rates=(10.0, 10.0)),
        speculative=replace(measured_passage.speculative, rates=(8.0, 9.0)),
    )
    assert (
        "does not pay" in words.describe_speed(slow)
        and "0.85 times" in words.describe_speed(slow)
        and "0.80 to 0.90" in words.describe_speed(slow)
    )
    calm = replace(measured_passage, machine={"load": 0.1, "cores": 2}, target=replace(measured_passage.target, rates=(50.0, 50.0)),
                   speculative=replace(measured_passage.speculative, rates=(60.0, 61.0)))  # fmt: skip
    assert words.list_cautions(calm) == []
    assert "busy" in words.list_cautions(replace(calm, machine={"load": 3.0, "cores": 2}))[0]
    assert "factor of 2.0" in words.list_cautions(replace(calm, speculative=replace(calm.speculative, rates=(60.0, 120.0))))[0]
    assert any(
        "no faster than people read" in said
        for said in words.list_cautions(replace(slow, target=replace(measured_passage.target, rates=(6.0, 6.0))))
    )


def test_the_figures_show_the_readings_numbers_and_say_what_they_conclude(measured_passage):
    plain, divergences = figures.plot_along_text(measured_passage.read).data
    assert len(plain.x) + len(divergences.x) == SETTINGS.max_new_tokens and sorted(
        place - 1 for place in divergences.x
    ) == sorted(measured_passage.read.divergence_places[:MARKED])
    assert list(divergences.y) == [
        measured_passage.read.distances[place] for place in sorted(measured_passage.read.divergence_places[:MARKED])
    ]
    curves = figures.list_curves(measured_passage.read, {"temperature 1": (measured_passage.read,) * 2})
    drawn = figures.plot_lorenz(curves, "dark")
    assert list(drawn.data[1].y) == list(curves[0][1].y) and drawn.layout.yaxis.title.text == "share of all divergence"
    assert f"{curves[0][1].tops[2].value:.0%} of all divergence" in figures.describe_lorenz(curves)
    dots = figures.plot_kinds(curves[1][1], curves[0][1])
    assert len(dots.data) == 2 and dots.layout.xaxis.title.text == "mean rejection probability"
    assert list(dots.data[0].x) == sorted(row.distance.value for row in curves[1][1].kinds)
