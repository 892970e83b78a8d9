"""What the stage draws is what the trace says: no number is made in the browser, and nothing of a token's bytes is lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from specviz.figures.components import load_component, read_modules
from specviz.figures.theme import MEANINGS
from specviz.glyphs import build_glyphs, decode_whole, find_unfinished, group_characters, name_token
from specviz.process import BUSY_LOAD
from specviz.web.one_round.payload import build_round_payload, read_cursor, write_cursor
from tests.helpers import hand_made_traces


@pytest.mark.parametrize("name", hand_made_traces.TRACES)
def test_the_payload_is_json_without_nan_and_every_motion_has_a_sentence(name):
    payload = json.loads(json.dumps(build_round_payload(hand_made_traces.TRACES[name]()), allow_nan=False))
    assert all(step["sentence"] for round_ in payload["rounds"] for step in round_["steps"])
    for round_ in payload["rounds"]:
        assert all(step["probs"] is None or step["probs"] < len(round_["distributions"]) for step in round_["steps"])


def test_thresholds_uniforms_and_verdicts_are_the_traces_own():
    trace = hand_made_traces.build_story()
    for decision, chip in zip(trace.rounds[0].proposals, build_round_payload(trace)["rounds"][0]["chips"], strict=True):
        assert (chip["q"], chip["p"], chip["u"], chip["threshold"]) == (decision.q, decision.p, decision.u, decision.threshold)
    assert [chip["status"] for chip in build_round_payload(trace)["rounds"][0]["chips"]] == [
        "accepted",
        "accepted",
        "rejected",
        "unchecked",
    ]


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_bars_and_rest_together_hold_all_of_p_q_overlap_and_residual(size):
    trace = hand_made_traces.build_story()
    for probs, drawn in zip(
        trace.rounds[0].distributions[:-1], build_round_payload(trace)["rounds"][0]["distributions"], strict=False
    ):
        bars = drawn["views"][size]
        rounded = len(bars) * 5e-6  # each has five significant digits
        for key in ("p", "q"):
            assert sum(bar[key] for bar in bars) == pytest.approx(1.0, abs=rounded)
        assert sum(bar["overlap"] for bar in bars) == pytest.approx(probs.beta, abs=rounded)
        assert sum(bar["end"] for bar in bars) == pytest.approx(1.0, abs=rounded)
        assert bars[-1]["glyphs"] is None


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_the_draft_token_and_its_replacement_always_have_a_bar(size):
    for index in range(4):
        bars = build_round_payload(hand_made_traces.build_story())["rounds"][0]["distributions"][index]["views"][size]
        assert sum(bar["drafted"] for bar in bars) == 1
        assert sum(bar["drawn"] for bar in bars) == (index == 2)


@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_bars_fall_from_left_to_right_by_the_distribution_that_was_drawn_from(size):
    most = 0
    for round_ in build_round_payload(hand_made_traces.build_story())["rounds"]:
        for one in round_["distributions"]:
            bars = one["views"][size][:-1]
            chances = [bar["p"] if bar["q"] is None else bar["q"] for bar in bars]
            assert chances == sorted(chances, reverse=True)
            most = max(most, len(chances))
    assert most > 3


def test_the_first_pass_counts_the_prompt_and_later_ones_are_counted_where_the_run_was_made_at_once():
    story = hand_made_traces.build_story()
    timed = replace(story, rounds=tuple(replace(one, timing={"draft": 0.001, "target": 0.004}) for one in story.rounds))
    drafted, prompt = [len(one.proposals) for one in story.rounds], len(story.prompt_ids)
    first, second = (round_["times"][0] for round_ in build_round_payload(timed, at_once=True)["rounds"])
    assert first.endswith(f"target pass over {prompt + drafted[0]} tokens ({prompt} of the prompt) 4.0 ms")
    assert second.endswith(f"target pass over {1 + drafted[1]} tokens 4.0 ms")
    assert build_round_payload(timed)["rounds"][1]["times"][0].endswith(", target pass 4.0 ms")
    for round_, one in zip(build_round_payload(timed)["rounds"], timed.rounds, strict=True):
        assert [(part["is"], part["seconds"]) for part in round_["parts"]] == (
            [("draft", 0.001), ("target", 0.004)] if one.proposals else []
        )
    untimed = replace(story, rounds=tuple(replace(one, timing={"target": 0.004}) for one in story.rounds))
    assert not any(round_["parts"] for round_ in build_round_payload(untimed)["rounds"])


def test_equal_distributions_leave_no_residual_and_divide_by_nothing():
    probs = build_round_payload(hand_made_traces.build_same_distributions())["rounds"][0]["distributions"][0]
    assert probs["left"] == 0.0 and probs["beta"] == pytest.approx(1.0)
    assert all(bar["end"] is None for bar in probs["views"]["wide"])


def test_chips_after_a_rejection_go_gray_with_it():
    round_ = build_round_payload(hand_made_traces.build_story())["rounds"][0]
    rejection = next(i for i, step in enumerate(round_["steps"]) if step["kind"] == "uniform" and step["node"] == 2)
    assert [chip["decided"] for chip in round_["chips"]][2:] == [rejection, rejection]


def test_both_fates_of_a_moved_u_are_told_with_the_replacement_that_a_rejection_would_bring():
    chips = build_round_payload(hand_made_traces.build_story())["rounds"][0]["chips"]
    assert "“sat” is accepted" in chips[2]["ifAccepted"]
    assert "“sat” is rejected and “stood” replaces it" in chips[2]["ifRejected"]
    assert chips[0]["ifRejected"] is None  # p above q: no u rejects it
    assert chips[3]["ifAccepted"] is chips[3]["ifRejected"] is None  # not checked


def test_uniforms_are_named_by_the_output_position_that_the_command_line_takes():
    payload = build_round_payload(hand_made_traces.build_story())
    assert [chip["position"] for chip in payload["rounds"][0]["chips"]] == [0, 1, 2, 3]
    assert payload["rounds"][0]["ending"]["position"] == 2
    assert [chip["position"] for chip in payload["rounds"][1]["chips"]] == [3, 4, 5, 6]
    assert payload["rounds"][1]["ending"]["position"] == 7


def test_a_chosen_u_is_marked_where_it_was_used_and_nowhere_else():
    payload = build_round_payload(hand_made_traces.build_edited())
    assert [chip["edited"] for chip in payload["rounds"][0]["chips"]] == [False, False, True, False]
    assert payload["edits"] == ["you set u of “sat” to 0.71"]


def test_a_busy_machine_is_named_beside_the_times():
    ((quiet,), (busy,)) = (
        build_round_payload(hand_made_traces.build_story(), load=load)["rounds"][0]["times"]
        for load in (BUSY_LOAD, BUSY_LOAD + 0.01)
    )
    assert busy == f"{quiet} on a busy machine"


def test_a_round_can_follow_unless_the_text_ended_or_is_full():
    assert build_round_payload(hand_made_traces.build_story())["more"]
    assert not build_round_payload(hand_made_traces.build_ended_trace())["more"]
    assert not build_round_payload(hand_made_traces.build_ended_trace("length"))["more"]
    assert not build_round_payload(hand_made_traces.build_story(max_new_tokens=8))["more"]


def test_a_pair_of_folders_is_named_without_its_path():
    assert build_round_payload(hand_made_traces.build_story())["pair"] == "storybook models"
    assert build_round_payload(hand_made_traces.build_story(pair="/home/me/big|org/small"))["pair"] == "target big, draft small"


def test_the_text_before_a_round_is_what_earlier_rounds_committed():
    rounds = build_round_payload(hand_made_traces.build_story())["rounds"]
    assert [round_["text"] for round_ in rounds] == ["", " river and stood"]


def test_whitespace_is_visible_and_bytes_that_are_no_character_are_hex():
    assert build_glyphs(b" the", 1) == [{"t": "·", "k": "space"}, {"t": "the", "k": "text"}]
    assert build_glyphs(b"\n", 1) == [{"t": "↵", "k": "newline"}]
    assert build_glyphs(b"\xe4\xbd", 1) == [{"t": "E4", "k": "byte"}, {"t": "BD", "k": "byte"}]
    assert build_glyphs(b"a\xf0\x9f", 1) == [{"t": "a", "k": "text"}, {"t": "F0", "k": "byte"}, {"t": "9F", "k": "byte"}]
    assert build_glyphs("\u200d".encode(), 1) == [{"t": "U+200D", "k": "sign"}]
    assert build_glyphs(b"<|endoftext|>", 1)[0]["k"] == "special"
    assert (name_token(b" ", 1), name_token(b"\n\n", 1), name_token(b"\xce", 1)) == (
        "a space",
        "a blank line",
        "the byte token CE",
    )


@pytest.mark.parametrize("text", ["λόγος", "你好", "👩‍🚀🇫🇷👍🏽", "naïve é"])
def test_cutting_a_text_into_bytes_joins_each_character_again(text):
    raw = text.encode()
    runs = group_characters(b"", [raw[i : i + 1] for i in range(len(raw))])
    assert "".join(run["text"] for run in runs) == "".join(c for c in text if len(c.encode()) > 1)
    assert all(run["last"] > run["first"] for run in runs)


def test_an_emoji_of_several_code_points_is_one_character_under_one_brace():
    assert group_characters(b"", ["👩".encode(), "\u200d".encode(), "🚀".encode()]) == [
        {"first": 0, "last": 2, "text": "👩\u200d🚀"}
    ]
    assert group_characters(b"", [b"a", b"b"]) == []


def test_a_character_begun_in_an_earlier_round_is_braced_where_it_is_completed():
    assert group_characters(b"\xce", [b"\xbb", b"a"]) == [{"first": 0, "last": 0, "text": "λ"}]


def test_the_text_line_shows_whole_characters_only():
    assert decode_whole("aλ".encode()[:-1]) == "a" and find_unfinished("aλ".encode()) == b""
    assert decode_whole("👩".encode()[:3]) == ""


def test_the_links_cursor_counts_from_one_and_reads_back():
    assert read_cursor(write_cursor(2, 5)) == {"round": 2, "step": 5} == read_cursor("3.6")
    assert [read_cursor(bad) for bad in (None, "", "3", "0.1", "1.0", "a.b", "1.2.3", "-1.2")] == [None] * 8


def test_the_script_never_writes_markup_and_computes_no_distribution():
    script = re.sub(r"//[^\n]*|/\*.*?\*/", "", "\n".join(read_modules("one_round/main.js").values()), flags=re.DOTALL)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert not re.search(r"Math\.min\([^)]*\.p\b[^)]*\.q\b|\.p\s*/\s*\w+\.q|\.p\s*-\s*\w+\.q", script)
    assert script.count("export default") == 1


def test_every_meaning_has_its_color_in_the_style_sheet():
    sheet = load_component("one_round")["css"]
    for meaning in MEANINGS:
        assert f"--{meaning}:" in sheet and f"var(--{meaning}" in sheet


@pytest.mark.parametrize("meaning", list(MEANINGS))
def test_inks_reach_a_contrast_of_four_and_a_half_on_paper_and_panel(meaning):
    shade = MEANINGS[meaning]
    for ink, grounds in ((shade.light_ink, ("#ffffff", "#f5f7fa")), (shade.dark_ink, ("#0e1217", "#171c23"))):
        assert min(_contrast(ink, ground) for ground in grounds) >= 4.5


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
