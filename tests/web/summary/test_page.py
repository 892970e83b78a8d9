"""The page Summary: its number is the one that One round shows, and each of its commands is one of the command line."""

from __future__ import annotations

import shlex

from specviz import __version__
from specviz.__main__ import build_parser
from specviz.records import load_toml
from specviz.speed.records.cost_model import load_cost_models
from specviz.web.one_round.words import GPU
from specviz.web.summary.words import DRAFTED, SUMMARY, list_commands, list_sentences
from tests.web.common.test_frame import open_page


def test_it_says_what_several_tokens_cost_by_the_record_and_what_becomes_of_the_rest_of_a_draft():
    model = load_cost_models()[GPU]
    draft, rule, _ = (one["text"] for one in list_sentences())
    assert f"{model.compute_pass(DRAFTED + 1) / model.passes[1]:.2f} times" in draft and f"for example {DRAFTED}." in draft
    assert "up to the first one it rejects, replaces that one, and drops the rest" in rule
    kept = "It keeps them up to the first one it rejects, replaces that one, and drops the rest."
    assert load_toml("texts/front")["race"]["lede"].endswith(kept) and load_toml("texts/one_round")["opening"].endswith(kept)


def test_every_command_is_copied_by_itself_and_the_parser_takes_it():
    usage, _, citation = SUMMARY["part"]
    (_, install), *commands = list_commands(usage)
    assert install == "pip install ." and len(commands) == 4
    for _, line in commands:
        name, *arguments = shlex.split(line)
        assert name == "specviz" and build_parser(arguments[0]).parse_args(arguments[1:])
    app = open_page("summary")
    assert not app.exception
    assert [one.value for one in app.code] == [line for part in (usage, citation) for _, line in list_commands(part)]
    assert all(one.proto.wrap_lines for one in app.code), "nothing is cut on a phone"
    assert (
        f"version = {{{__version__}}}" in app.code[-1].value
        and "year = {2026}" in app.code[-1].value
        and "url = " in app.code[-1].value
    )
