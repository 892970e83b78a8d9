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
from specviz.web.one_round.words import GPU, describe_large_pass
from specviz.web.speed.batch_figures import estimate_speeds
from specviz.web.speed.round_model import build_bench_model
from specviz.web.summary.pictures import DRAFTED, build_picture_html, build_pictures, describe_conditions
from specviz.web.summary.view import build_sentences
from specviz.web.summary.words import SUMMARY, list_commands, set_variables
from tests.web.common.test_frame import open_page

PICTURES = build_pictures()


def list_labels(key: str) -> list[str]:
    return [bar.label for group in PICTURES[key].groups for bar in group.bars]


def test_each_point_has_its_picture_and_links_to_pages():
    assert {one["key"] for one in SUMMARY["sentence"]} == set(PICTURES)
    found = build_sentences(SUMMARY["sentence"], PICTURES)
    assert found.count("<figure>") == len(PICTURES) == 3
    for one in SUMMARY["sentence"]:
        assert all(f"<a href='{page}' target='_self'>{PAGES[page].title}</a>" in found for page in one["pages"])
    assert build_sentences(SUMMARY["sentence"], {}).count("<figure>") == 0, "without records the words are left"


def test_the_cost_of_a_pass_is_the_one_that_one_round_names():
    model = load_cost_models()[GPU]
    drafting = DRAFTED * model.find_draft().step / model.passes[1]
    assert list_labels("draft") == [str(DRAFTED + 1), f"{drafting:.2f} + {model.compute_pass(DRAFTED + 1) / model.passes[1]:.2f}"]
    assert f"{list_labels('draft')[1].split(' + ')[1]} times" in describe_large_pass(DRAFTED + 1)
    assert [role for role, _ in PICTURES["draft"].groups[1].bars[0].parts] == ["q", "p"], "drafting has its own color"
    for said in (describe_conditions(), PICTURES["draft"].title):
        assert all(words in said for words in ("8B model", "H200"))


def test_accepted_and_replaced_of_each_token_add_up_to_p():
    ends = [sum(value for _, value in bar.parts) for group in PICTURES["rule"].groups for bar in group.bars]
    assert sum(ends) == pytest.approx(1.0) and ends == pytest.approx([0.4, 0.3, 0.2, 0.07, 0.03])
    rule = next(one for one in SUMMARY["sentence"] if one["key"] == "rule")
    assert "up to the first one it rejects, replaces that one, and drops the rest" in rule["more"]
    kept = "the large target keeps those before its first rejection and adds one."  # the same, and true of a round without a rejection
    assert load_toml("texts/one_round")["opening"].endswith(kept)


def test_the_speeds_are_those_of_every_page_and_each_other_bar_differs_from_the_first_in_one_respect():
    """One text or many, a good draft or one that is never accepted; the same number is drafted in all three."""
    groups = PICTURES["speed"].groups
    one, many, useless = (bar.parts[0][1] for group in groups for bar in group.bars)
    first, *others = ([part.split()[0 if n == 0 else -2] for n, part in enumerate(group.name.split(", "))] for group in groups)
    assert [sum(a != b for a, b in zip(first, other, strict=True)) for other in others] == [1, 1]
    assert one == headline.FACTORS["1"][0] and many < 1.0 and useless < 0.6, "many texts and a bad draft lose"
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    model = build_bench_model(batches)
    assert many == model.compute_speed(model.alpha, model.c, headline.GAMMA, 64) and groups[1].name.startswith("64 ")
    assert f"{many:.2f}" == f"{estimate_speeds(model, batches)[-1].value:.2f}", "the last point of How fast? says the same"
    assert useless == pytest.approx(one / headline.load_bench_round("1").tokens), "one token in the time of a round"
    assert "two CPU cores" in PICTURES["speed"].title, "another machine than the first picture's"
    assert all(
        words in describe_conditions()
        for words in (headline.MACHINE, "temperature 1", "computed", f"{headline.GAMMA} draft tokens a round")
    )
    assert PICTURES["speed"].line == (1.0, "no draft")
    found = build_picture_html(PICTURES["speed"])
    assert found.count("<u style='--at:0.7042'>") == 3 and found.count("<s>no draft</s>") == 1
    assert found.count("margin-left") == 1, "the number of 0.99 stands behind the line, which would cross it"
    said = next(one for one in SUMMARY["sentence"] if one["key"] == "speed")["more"]
    assert f"here {batches.rows[-1]} texts" in said, "the sentence names the bar that loses"


def test_a_variable_is_set_as_one_and_text_is_escaped():
    assert set_variables("min(_p_, q) < 1") == "min(<var>p</var>, q) &lt; 1"


def test_every_command_is_copied_by_itself_the_parser_takes_it_and_no_line_is_cut_on_a_phone():
    usage, _, citation = SUMMARY["part"]
    (_, install), *commands = list_commands(usage)
    assert install == 'pip install ".[audit]"' and len(commands) == 4
    for _, lines in commands:
        name, *arguments = shlex.split(lines.replace("\\\n", " "))
        assert name == "specviz" and build_parser(arguments[0]).parse_args(arguments[1:])
    shown = [lines for part in (usage, citation) for _, lines in list_commands(part)]
    assert max(len(line) for lines in shown for line in lines.splitlines()) <= 40
    app = open_page("summary")
    assert not app.exception
    assert [one.value for one in app.code] == shown
    assert f"version = {{{__version__}}}" in shown[-1] and "year = {2026}" in shown[-1]
    assert "URL" not in " ".join(shown), "nothing is left to be filled in"
