"""The front page's race is the recorded passage, its games are recorded samples of reported mistakes, and its texts are complete."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.recordings.games import GAMES, RecordedGames
from specviz.figures.pages_and_glossary import PAGES
from specviz.records import ASSETS, load_toml, read_file
from specviz.settings import Settings
from specviz.speed.records import headline
from specviz.statistics.goodness import compute_chi_square
from specviz.theory import compute_expected_tokens
from specviz.web.front.payload import LARGE, build_front_payload, build_games_payload
from specviz.web.front.race_payload import TOKENS
from specviz.web.front.state import load_recorded_race
from specviz.web.front.words import TEXTS, describe_sizes
from specviz.web.speed.state import SpeedQuestion, build_round_model, load_batches, place_sliders
from specviz.web.whole_text.payload import build_lanes_payload
from specviz.web.whole_text.words import build_answer

PASSAGE = load_recorded_race()
RACE = build_front_payload(PASSAGE, recorded=True)["race"]
RECORDED = read_file(GAMES, RecordedGames.from_json)
DOORS = [link for one in TEXTS["doors"]["list"] for link in one["links"]]
GAMMA = int(re.search(r"GAMMA = (\d+);", (ASSETS / "components" / "front" / "overlap.js").read_text())[1])
MOST = int(re.search(r"MOST_SAMPLES = (\d+);", (ASSETS / "components" / "lib" / "samples.js").read_text())[1])


def test_both_lanes_have_the_recorded_tokens_rounds_and_times():
    for lane, recorded in zip(RACE["lanes"], (PASSAGE.target, PASSAGE.speculative), strict=True):
        ends = [one["end"] for one in lane["rounds"]]
        assert ends == list(recorded.clock[: len(ends)]) and lane["seconds"] == ends[-1]
        assert sum(len(one["tokens"]) for one in lane["rounds"]) == TOKENS
        text = "".join(token["t"] for one in lane["rounds"] for token in one["tokens"])
        assert recorded.trace.text.startswith(text) and len(text) > 100


def test_one_factor_that_of_whole_text_slows_down_both_clocks_and_the_gain_is_the_quotient_of_measured_times():
    alone, drafted = (lane["seconds"] for lane in RACE["lanes"])
    assert RACE["factor"] == build_lanes_payload(PASSAGE)["pace"] and 7.0 <= RACE["factor"] * max(alone, drafted) <= 20.0
    assert RACE["gain"] == pytest.approx(alone / drafted)


def test_the_race_shows_the_whole_texts_with_the_speed_that_whole_text_shows():
    assert f"{RACE['gain']:.2f}" == build_answer(PASSAGE)["factor"]
    alone, drafted = (len(lane["rounds"]) for lane in RACE["lanes"])
    assert alone == PASSAGE.settings.max_new_tokens and drafted < alone / 2
    assert RACE["sizes"] == ["11 million parameters", "11 + 2 million parameters"]
    assert describe_sizes(replace(PASSAGE, models={})) == ["", ""]


def test_the_recorded_race_leads_with_the_speed_of_the_benchmark_and_a_visitors_with_its_own_alone():
    assert (
        RACE["average"]["gain"] == f"{headline.get_speed('1').value:.2f}"
        and headline.describe_interval("1") in RACE["average"]["how"]
    )
    assert build_front_payload(PASSAGE, recorded=False)["race"]["average"] is None
    for settings in (replace(PASSAGE.settings, pair="another"), replace(PASSAGE.settings, top_k=5)):
        assert build_front_payload(replace(PASSAGE, settings=settings), recorded=True)["race"]["average"] is None
    greedy = replace(PASSAGE, settings=replace(PASSAGE.settings, temperature=0.0))
    assert build_front_payload(greedy, recorded=True)["race"]["average"]["gain"] == f"{headline.get_speed('0').value:.2f}"


@pytest.mark.parametrize(("rounds", "compared"), [(1, False), (12, True)])
def test_a_text_that_ends_early_is_compared_by_its_rate_or_not_at_all(rounds: int, compared: bool):
    """Seconds of 128 tokens over seconds of 4 are no speed-up."""
    lane = PASSAGE.speculative
    ended = replace(lane, trace=replace(lane.trace, rounds=lane.trace.rounds[:rounds]), clock=lane.clock[:rounds])
    race = build_front_payload(replace(PASSAGE, speculative=ended), recorded=False)["race"]
    if not compared:
        assert race["gain"] is None
        return
    tokens = sum(len(one["tokens"]) for one in race["lanes"][1]["rounds"])
    assert race["gain"] == pytest.approx((tokens / lane.clock[rounds - 1]) / (TOKENS / PASSAGE.target.clock[TOKENS - 1]))
    assert 0.5 < race["gain"] < 5.0


def test_a_round_keeps_its_accepted_draft_tokens_and_replaces_the_rejected_one():
    rounds = RACE["lanes"][1]["rounds"]
    verdicts = Counter(one["is"] for round_ in rounds for one in round_["drafts"])
    assert verdicts["accepted"] > 20 and verdicts["rejected"] > 3
    for round_ in rounds[:-1]:
        kept = [one["t"] for one in round_["drafts"] if one["is"] == "accepted"]
        assert [one["t"] for one in round_["tokens"][: len(kept)]] == kept
        rejected = any(one["is"] == "rejected" for one in round_["drafts"])
        assert round_["tokens"][len(kept)]["is"] == ("residual" if rejected else "bonus")


def test_every_game_is_of_a_reported_mistake_that_its_own_samples_show():
    """Chi-square on all recorded samples at level 0.001: each wrong decoder is rejected, and no more right ones than by chance.

    False alarms: 18 right decoders at 0.001, so 0.018 for the test as a whole, on recorded data.
    """
    assert len({game.mistake for game in RECORDED.games}) == len(RECORDED.games) >= 18
    addresses = [address for game in RECORDED.games for _, address in PUBLISHED_MISTAKES[game.mistake].threads]
    for project in ("vllm-project/vllm/", "huggingface/transformers/", "sgl-project/sglang/", "ggml-org/llama.cpp"):
        assert any(project in address for address in addresses), project
    for game in RECORDED.games:
        mistake = PUBLISHED_MISTAKES[game.mistake]
        assert any(address for _, address in mistake.threads), "the game says that a project had it"
        assert all(game.labels[:-1]) and not game.labels[-1], "each word has a name"
        assert len(game.right) == len(game.wrong) > MOST and sum(game.probs) == pytest.approx(1.0, abs=1e-5)
        counts = {side: [getattr(game, side).count(str(cell)) for cell in range(len(game.probs))] for side in ("right", "wrong")}
        probs = [p / sum(game.probs) for p in game.probs]
        assert compute_chi_square(counts["wrong"], probs).p_value < 0.001, game.mistake
        assert compute_chi_square(counts["right"], probs).p_value > 0.001, game.mistake
        assert 1 <= game.needed <= 1200


def test_a_game_names_the_settings_under_which_its_samples_were_drawn():
    shown = {game["settings"] for game in build_games_payload()["games"]}
    assert shown == {f"temperature {one.temperature:g}{f', top-k {one.top_k}' if one.top_k else ''}" for one in RECORDED.games}
    assert {"temperature 1", "temperature 0.5", "temperature 1, top-k 3"} <= shown and "{settings}" in TEXTS["game"]["title"]


def test_the_doors_lead_to_pages_and_the_payload_is_small():
    doors = [link["to"] for link in DOORS]
    assert set(doors) - {"evidence"} == set(PAGES) and len(set(doors)) == len(doors)
    payload = build_front_payload(PASSAGE, recorded=True)
    assert payload["games"] is build_games_payload()
    assert len(json.dumps(payload)) < 140_000


def test_the_second_scene_opens_on_a_draft_that_is_slower_than_none_and_has_the_usual_one_of_why_it_is_exact():
    texts = TEXTS["overlap"]
    assert sum(texts["p"]) == pytest.approx(1.0)
    exact = load_toml("texts/one_token")
    drafts = {one["name"]: one["q"] for one in texts["drafts"]}
    assert texts["words"] == exact["words"][:5], "the example of Why it is exact"
    assert [[round(10_000 * x) for x in row] for row in (texts["p"], drafts["usual"])] == [
        exact["presets"]["usual"][key] for key in ("p", "q")
    ]
    assert all(sum(q) == pytest.approx(1.0) for q in drafts.values())
    cost = build_front_payload(PASSAGE, recorded=True)["cost"]
    speeds = {}
    for name, q in drafts.items():
        share = sum(map(min, texts["p"], q))
        speeds[name] = compute_expected_tokens(share, GAMMA) / cost
    assert speeds["bad"] < 0.8 and 1.2 < speeds["usual"] < speeds["good"], "a bad draft costs speed"
    assert texts["opening"][0] == texts["opening"][-1] == "usual" and "bad" in texts["opening"]
    assert cost == pytest.approx(headline.get_round("1").tokens / headline.get_speed("1").value)


def test_the_speed_of_a_large_target_is_what_how_fast_opens_with_and_says_that_it_is_computed():
    large = build_front_payload(PASSAGE, recorded=True)["large"]
    question = SpeedQuestion.from_link({"costs": LARGE}, Settings())[0]
    model = build_round_model(question, None, load_batches())
    place = place_sliders(question, model)
    shown = model.compute_speed(place.alpha, place.c, place.gamma)
    assert large["query"] == f"?costs={LARGE}" and large["gain"] == f"{shown:.2f}×"
    assert large["says"] == "8B model on an H200" and "computed" in TEXTS["race"]["computed"]
    assert f"{place.gamma} drafted" in large["how"] and "temperature 1" in large["how"]


def test_the_race_names_its_model_and_machine_and_the_install_line_is_that_of_summary():
    assert RACE["writer"] == "tiny models, two CPU cores"
    install = load_toml("texts/summary")["part"][0]["commands"][0]["code"]
    assert TEXTS["doors"]["command"].splitlines()[0] == install


def test_doors_name_a_student_a_teacher_and_an_engineer_and_stand_in_the_groups_of_the_menu():
    for one in TEXTS["doors"]["list"]:
        assert all(PAGES[link["to"]].group == one["title"] for link in one["links"] if link["to"] in PAGES)
    readers = " ".join(one["reader"].lower() for one in TEXTS["doors"]["list"])
    assert all(word in readers for word in ("student", "teacher", "engineer"))


def test_doors_have_the_names_of_their_pages():
    doors = {link["to"]: link["words"] for link in DOORS}
    assert {path: words for path, words in doors.items() if path in PAGES} == {path: page.title for path, page in PAGES.items()}
