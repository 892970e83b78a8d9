"""The page Summary: its pictures are those of the records, and each of its commands is one of the command line."""

from __future__ import annotations

import shlex

import pytest

from specviz import __version__
from specviz.__main__ import build_parser
from specviz.figures.pages_and_glossary import PAGES
from specviz.records import ASSETS, load_toml, read_file
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.web.front.payload import build_large_model
from specviz.web.front.words import describe_large_target
from specviz.web.one_round.words import GPU, describe_large_pass
from specviz.web.one_token.payload import FIRST_PRESET, GRID, PRESETS
from specviz.web.questions.figures import Bar, BarGroup, BarPicture
from specviz.web.speed.batch_figures import estimate_speeds
from specviz.web.speed.round_model import build_headline_model
from specviz.web.summary.pictures import build_conclusions, build_picture_html, build_pictures, describe_conditions
from specviz.web.summary.view import build_points, link_pages
from specviz.web.summary.words import SUMMARY, list_commands, set_variables
from tests.web.common.test_frame import open_page

PICTURES = build_pictures()


def list_labels(key: str) -> list[str]:
    return [bar.label for group in PICTURES[key].groups for bar in group.bars]


def test_each_point_has_a_picture_of_three_bars_and_the_page_that_shows_it():
    assert {one["key"] for one in SUMMARY["sentence"]} == set(PICTURES)
    found = build_points(SUMMARY["sentence"], PICTURES, build_conclusions())
    assert found.count("<figure>") == len(PICTURES) == 3
    assert [len(picture.groups) for picture in PICTURES.values()] == [3, 3, 3], "all cards are built alike"
    for picture in PICTURES.values():
        drawn = {role for group in picture.groups for bar in group.bars for role, _ in bar.parts}
        assert drawn == {role for role, _ in picture.legend if role}, "the key has every color"
    for one in SUMMARY["sentence"]:
        first = one["pages"][0]
        assert f"<a href='{first}' target='_self'>{PAGES[first].title}</a>" in found
    assert all(f"<strong>{set_variables(one)}</strong>" in found for one in build_conclusions().values())
    assert build_points(SUMMARY["sentence"], {}, {}).count("<figure>") == 0, "without records the words are left"


def test_what_is_folded_links_every_page_of_its_point():
    app = open_page("summary")
    folded = next(one.proto.body for one in app.get("html") if "class='conditions'" in one.proto.body)
    for one in SUMMARY["sentence"]:
        assert link_pages(one["pages"]) in folded and folded.count(f"href='{one['pages'][-1]}'") == 1


def test_a_round_of_the_large_model_takes_what_its_parts_take_and_each_of_its_tokens_gains_what_the_front_page_says():
    costs, large = load_cost_models()[GPU], build_large_model()
    one, round_, each = (group.bars[0] for group in PICTURES["draft"].groups)
    assert one.parts == (("p", costs.target_only),)
    times = dict(round_.parts)
    assert times["p"] == pytest.approx(costs.compute_pass(large.gamma + 1)) and times["q"] == pytest.approx(
        large.gamma * costs.find_draft().step
    )
    assert times["plain"] == pytest.approx(costs.find_draft().rest)
    assert f"{times['p'] / costs.passes[1]:.2f} times a one-token pass" in describe_large_pass(large.gamma + 1)
    gain = one.end / each.end
    assert (
        build_conclusions()["draft"].startswith(f"{gain:.2f}× as fast, computed")
        and f"{gain:.2f}×" == describe_large_target(large)["gain"]
    )
    assert list_labels("draft") == [f"{bar.end:.2f} ms" for bar in (one, round_, each)]
    for said in (describe_conditions(), PICTURES["draft"].title):
        assert "8B model on an H200" in said


def test_accepted_and_replaced_of_each_token_add_up_to_p():
    preset = PRESETS[FIRST_PRESET]
    bars = [bar for group in PICTURES["rule"].groups for bar in group.bars]
    ends = [sum(value for _, value in bar.parts) for bar in bars]
    assert sum(ends) == pytest.approx(1.0) and ends == pytest.approx([0.4, 0.3, 0.3])
    accepted = sum(min(p, q) for p, q in zip(preset.p, preset.q, strict=True)) / GRID
    assert sum(bar.parts[0][1] for bar in bars) == pytest.approx(accepted), "the share that Why it is exact shows"
    rule = next(one for one in SUMMARY["sentence"] if one["key"] == "rule")
    assert "up to the first one it rejects, replaces that one, and drops the rest" in rule["more"]
    kept = "the large target keeps those before its first rejection and adds one."  # the same, and true of a round without a rejection
    assert load_toml("texts/one_round")["opening"].endswith(kept)


def test_the_speeds_are_those_of_every_page():
    alone, one, many = (group.bars[0].parts[0][1] for group in PICTURES["speed"].groups)
    assert alone == 1.0 and one == headline.get_speed("1").value and many < 1.0, "many texts lose"
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    model = build_headline_model(batches)
    assert many == model.compute_speed(model.alpha, model.c, headline.load_headline().gamma, 64)
    assert PICTURES["speed"].groups[2].name.startswith("64 ")
    assert f"{many:.2f}" == f"{estimate_speeds(model, batches)[-1].value:.2f}", "the last point of How fast? says the same"
    assert "tiny models on two CPU cores" in PICTURES["speed"].title and f"{model.alpha:.0%} accepted" in describe_conditions()
    later = [one.value for one in estimate_speeds(model, batches)[2:]]
    assert build_conclusions()["speed"] == f"From {batches.rows[2]} texts on: {min(later):.2f} to {max(later):.2f}×", (
        "where it turns"
    )
    lost = headline.get_speed("1").value / headline.get_round("1").tokens  # one token in the time of a round
    for words in (
        headline.MACHINE,
        "temperature 1",
        "computed",
        f"{headline.load_headline().gamma} draft tokens a round",
        f"{lost:.2f} times",
    ):
        assert words in describe_conditions()
    said = next(one for one in SUMMARY["sentence"] if one["key"] == "speed")["more"]
    assert f"here {batches.rows[-1]} texts" in said, "the sentence names the bar that loses"


def test_a_bar_is_as_long_as_its_value_and_its_words_are_escaped():
    picture = BarPicture(
        "<i>", (BarGroup("a<b", (Bar((("p", 1.0), ("q", 0.0)), "1"),)), BarGroup("c", (Bar((("q", 4.0),), "4"),)))
    )
    found = build_picture_html(picture, "<b>")
    assert "width:25.00%" in found and "width:100.00%" in found and found.count("<em") == 2, "nothing is drawn of a part of 0"
    assert "a&lt;b" in found and "<strong>&lt;b&gt;</strong>" in found and "<figcaption>&lt;i&gt;</figcaption>" in found


def test_a_variable_is_set_as_one_and_text_is_escaped():
    assert set_variables("min(_p_, q) < 1") == "min(<var>p</var>, q) &lt; 1"


def test_every_command_is_copied_by_itself_the_parser_takes_it_and_no_line_is_cut_on_a_phone():
    usage, _, citation = SUMMARY["part"]
    (_, _, install), *commands = list_commands(usage)
    assert install == 'pip install ".[audit]"' and len(commands) == 4
    for _, gets, lines in commands:
        assert gets.startswith("Prints ")
        name, *arguments = shlex.split(lines.replace("\\\n", " "))
        assert name == "specviz" and build_parser(arguments[0]).parse_args(arguments[1:])
    shown = [lines for part in (usage, citation) for _, _, lines in list_commands(part)]
    assert max(len(line) for lines in shown for line in lines.splitlines()) <= 40
    app = open_page("summary")
    assert not app.exception
    assert [one.value for one in app.code] == shown
    assert f"version = {{{__version__}}}" in shown[-1] and "year = {2026}" in shown[-1]
    assert "URL" not in " ".join(shown), "nothing is left to be filled in"
