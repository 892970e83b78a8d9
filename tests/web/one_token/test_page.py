"""Why it is exact: what the page is given, what an address says, and that the first paint needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from specviz.figures.components import load_component
from specviz.trace import Trace
from specviz.web.one_token.payload import (
    GRID,
    MAX_TOKENS,
    MIN_TOKENS,
    PRESETS,
    TEXTS,
    build_token_payload,
    list_positions,
)
from specviz.web.one_token.state import read_distribution, read_state, write_distribution
from tests.helpers import hand_made_traces
from tests.helpers.pages import draw_first_paint
from tests.helpers.written_cases import round_to_grid

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Trace.from_json((ROOT / "assets" / "traces" / "opening.json").read_text(encoding="utf-8"))


def open_page(query: dict[str, str]) -> dict:
    shown = '"state": given[0]["state"], "notices": given[0]["notices"], "positions": len(given[0]["payload"]["positions"])'
    return draw_first_paint("one_token", query, shown)


def test_the_first_paint_needs_no_torch_and_offers_the_recorded_text():
    seen = open_page({})
    assert (seen["errors"], seen["heavy"], seen["notices"]) == (0, [], [])
    assert seen["state"] == {"preset": "usual", "from": None, "p": None, "q": None}
    assert seen["positions"] == sum(len(one.proposals) for one in RECORDED.rounds)


def test_a_damaged_link_falls_back_value_by_value_with_a_sentence_each():
    seen = open_page({"preset": "nope", "from": "99.1", "p": "50-50", "q": "20-20-20-20-20"})
    assert seen["errors"] == 0
    assert seen["state"] == {"preset": "usual", "from": None, "p": [0.4, 0.3, 0.2, 0.07, 0.03], "q": [0.2] * 5}
    assert [sentence.split(" was left out")[0] for sentence in seen["notices"]] == [
        "The link's preset",
        "The link's position",
        "The link's p",
    ]


def test_positions_of_a_visitors_own_run_are_offered_but_not_put_into_addresses():
    app = AppTest.from_file(str(ROOT / "pages" / "one_token.py"), default_timeout=60)
    app.session_state["one_round"] = SimpleNamespace(run=SimpleNamespace(trace=hand_made_traces.build_story()))
    app.run()
    (component,) = app.get("bidi_component")
    payload = json.loads(component.proto.mixed.json or component.proto.json)["payload"]
    assert payload["shared"] is False
    assert len(payload["positions"]) == len(list_positions(hand_made_traces.build_story())) > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_distributions_and_show_what_their_names_say(preset):
    p, q = PRESETS[preset].p, PRESETS[preset].q
    assert MIN_TOKENS <= len(p) == len(q) <= min(MAX_TOKENS, len(TEXTS["words"]))
    assert sum(p) == sum(q) == GRID
    beta = sum(map(min, p, q)) / GRID
    assert {"equal": beta == 1.0, "disjoint": beta == 0.0, "sure": max(q) > 9000}.get(preset, 0.0 < beta < 1.0)
    if preset == "misses":
        assert q[0] == 0 < p[0] == max(p)


def test_the_draft_of_another_temperature_is_a_power_of_the_target():
    preset = PRESETS["temperatures"]
    assert tuple(preset.q) == round_to_grid(tuple((x / GRID) ** (1.0 / 0.5) for x in preset.p))


def test_every_position_of_the_recorded_text_keeps_the_overlap_of_the_whole_vocabulary():
    found = list_positions(RECORDED)
    assert [one["id"] for one in found][:5] == ["1.1", "1.2", "1.3", "2.1", "2.2"]
    expected = [one for round_ in RECORDED.rounds for one in round_.distributions if one.q is not None]
    for one, distribution in zip(found, expected, strict=True):
        assert len(one["slots"]) == 8
        assert one["slots"][-1]["glyphs"] is None
        for key, total in (("p", 1.0), ("q", 1.0), ("overlap", distribution.beta), ("residual", 1.0 - distribution.beta)):
            assert sum(slot[key] for slot in one["slots"]) == pytest.approx(total, abs=1e-12)
    assert RECORDED.text.startswith(f"{found[4]['before'].rpartition('an old')[2]} {found[4]['draft'][1:-1]}"), (
        "where the second of the second round stands, which was accepted"
    )


@pytest.mark.parametrize(
    "name",
    hand_made_traces.TRACES,
)
def test_any_run_gives_a_payload_that_is_plain_json(name):
    payload = build_token_payload(hand_made_traces.TRACES[name]())
    assert json.loads(json.dumps(payload)) == payload


def test_without_a_run_the_presets_still_stand():
    payload = build_token_payload(None)
    assert payload["positions"] == []
    assert len(payload["presets"]) == len(PRESETS)
    state, said = read_state({"from": "1.1"}, [])
    assert state["from"] is None
    assert "no run was recorded" in said[0]


@pytest.mark.parametrize("text", ("40-30-20-7-3", "100-0-0-0-0", "12.5-12.5-25-25-25", "0.01-99.99-0-0-0-0-0-0"))
def test_a_distribution_is_written_as_it_was_read(text):
    assert write_distribution(read_distribution(text)) == text


@pytest.mark.parametrize(
    ("text", "wrong"),
    (
        ("", "not written in percents"),
        ("40-30-20-7-3.001", "not written in percents"),
        ("40-30-20-7-nan", "not written in percents"),
        ("٤٠-30-20-7-3", "not written in percents"),
        ("40-30-30", "3 numbers"),
        ("-".join(["10"] * 10), "10 numbers"),
        ("40-30-20-7-4", "sum to 101"),
        ("0-0-0-0-0", "sum to 0"),
        ("999-0-0-0-0", "sum to 999"),
    ),
)
def test_a_distribution_that_cannot_be_used_says_why(text, wrong):
    with pytest.raises(ValueError, match=wrong):
        read_distribution(text)
    state, said = read_state({"p": text}, [])
    assert (state["p"], state["q"]) == (None, None)
    assert wrong in said[0]


def test_bars_of_two_lengths_are_not_guessed_at():
    state, said = read_state({"p": "20-20-20-20-20", "q": "50-10-10-10-10-10"}, [])
    assert state["p"] is None
    assert "p has 5 numbers and q has 6" in said[0]
    state, said = read_state({"p": "50-10-10-10-10-10"}, [])
    assert said == []
    assert state["q"] == [0.15, 0.45, 0.25, 0.05, 0.1, 0.0]


def test_a_very_long_value_is_repeated_in_part_only():
    _, said = read_state({"preset": "x" * 5000, "p": "<img src=x>" * 300, "from": "9" * 900}, ["1.1"])
    assert len(said) == 3
    assert max(map(len, said)) < 200


def test_script_and_payload_name_the_same_sentences():
    made = load_component("one_token")
    script = made["js"]
    used = set(re.findall(r"\btexts\.(\w+)", script)) | set(re.findall(r'"(fate\w+)\\?"', script))
    assert used == set(TEXTS["texts"])
    assert "innerHTML" not in script
    assert "#0072B2" in made["css"]
