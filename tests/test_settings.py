"""Settings fix a run and are its link: ranges are checked with a sentence, and nothing is lost on the way to a link and back."""

import json
import math
from dataclasses import replace
from typing import get_args

import pytest

from specviz.errors import SettingsError
from specviz.randomness import Purpose
from specviz.records import load_toml
from specviz.settings import DEFAULTS, PROMPT_MAX, SETTINGS, Group, Setter, Settings, read_uniform, update_names, write_uniform

FULL = Settings(
    pair="a|b",
    prompt="Once \t upon\na time: naïve 日本 👩‍👧 & ?=#%+",
    gamma=0,
    temperature=0.1 + 0.2,
    top_k=40,
    top_p=0.95,
    min_p=1e-3,
    seed=2**63 - 1,
    max_new_tokens=4096,
    uniforms={(3, "accept"): 0.1 + 0.2, (0, "draft"): 0.0, (3, "residual"): 1 - 2**-53, (12, "bonus"): 5e-324},
    device="cpu",
    dtype="float32",
)


@pytest.mark.parametrize("settings", (Settings(), FULL))
def test_a_record_and_a_link_give_back_the_same_settings(settings):
    assert Settings.from_record(json.loads(json.dumps(settings.to_record()))) == settings
    assert Settings.from_query(settings.to_query()) == (settings, [])


def test_a_link_names_only_what_differs_from_the_defaults():
    assert Settings().to_query() == {}
    assert Settings(gamma=5, top_k=3).to_query() == {"gamma": "5", "top_k": "3"}


@pytest.mark.parametrize("key, u", FULL.uniforms.items())
def test_a_uniform_is_written_and_read_to_the_last_bit(key, u):
    assert read_uniform(write_uniform(key, u)) == (key, u)


def test_a_uniform_without_purpose_is_the_accept_uniform():
    assert read_uniform("3=0.71") == ((3, "accept"), 0.71) == read_uniform(" 3:accept=.71 ")
    assert Settings(uniforms={(3, "accept"): 0.71}).edits == {(3, Purpose.ACCEPT): 0.71}
    assert Settings(uniforms={(3, "accept"): 0.71}).is_edited and not Settings().is_edited


def test_a_uniform_is_chosen_and_given_back_to_chance():
    chosen = Settings().with_uniform(3, "accept", 0.5)
    assert chosen.uniforms == {(3, "accept"): 0.5}
    assert chosen.with_uniform(3, "accept", 0.6).uniforms == {(3, "accept"): 0.6}
    assert chosen.with_uniform(3, "accept", None) == Settings()


BAD = [
    ({"gamma": -1}, "gamma must be a whole number from 0 to 16, got -1."),
    ({"gamma": 17}, "gamma must be a whole number from 0 to 16, got 17."),
    ({"gamma": 2.0}, "gamma must be a whole number from 0 to 16, got 2.0."),
    ({"gamma": True}, "gamma must be a whole number from 0 to 16, got True."),
    ({"temperature": -1}, "temperature must be a number from 0 (greedy) to 5, got -1."),
    ({"temperature": math.nan}, "temperature must be a number from 0 (greedy) to 5, got nan."),
    ({"temperature": math.inf}, "temperature must be a number from 0 (greedy) to 5, got inf."),
    ({"top_k": 0}, "top-k must be a whole number from 1; leave it out to switch it off, got 0."),
    ({"top_p": 0}, "top-p must be above 0 and at most 1; leave it out to switch it off, got 0."),
    ({"top_p": 1.5}, "top-p must be above 0 and at most 1; leave it out to switch it off, got 1.5."),
    ({"min_p": 0.0}, "min-p must be above 0 and at most 1; leave it out to switch it off, got 0.0."),
    ({"seed": -1}, f"seed must be a whole number from 0 to {2**63 - 1}, got -1."),
    ({"seed": 2**63}, f"seed must be a whole number from 0 to {2**63 - 1}, got {2**63}."),
    ({"max_new_tokens": 0}, "max-new-tokens must be a whole number from 1 to 4096, got 0."),
    (
        {"prompt": "a\x00b"},
        "prompt must be text without control characters (line breaks and tabs are fine), got U+0000 at character 2.",
    ),
    (
        {"prompt": "\x1b[31m"},
        "prompt must be text without control characters (line breaks and tabs are fine), got U+001B at character 1.",
    ),
    (
        {"prompt": "x" * (PROMPT_MAX + 1)},
        f"The prompt is too long: {PROMPT_MAX + 1:,} characters, at most {PROMPT_MAX:,}.",
    ),
    ({"prompt": "ab\ud800"}, "prompt must be valid Unicode text, got a lone surrogate at character 3."),
    ({"uniforms": {(0, "accept"): 1.0}}, "random number must be at least 0 and below 1, got 1.0."),
    ({"uniforms": {(0, "accept"): math.nan}}, "random number must be at least 0 and below 1, got nan."),
    ({"uniforms": {(-1, "accept"): 0.5}}, "random number position must be from 0 (the first generated token) to 4096, got -1."),
    ({"uniforms": {(0, "luck"): 0.5}}, "random number purpose must be one of draft, accept, residual, bonus, got 'luck'."),
]


@pytest.mark.parametrize("change, sentence", BAD, ids=lambda case: repr(case)[:40])
def test_bad_input_gets_a_sentence_with_the_value_and_what_is_allowed(change, sentence):
    with pytest.raises(SettingsError) as caught:
        replace(Settings(), **change)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "prompt", ("", "<img src=x onerror=alert(1)>", "$x$", ":red[a]", "</script>", "line\nbreak\ttab", "👩‍👧‍👦")
)
def test_strange_but_harmless_prompts_are_kept_as_they_are(prompt):
    assert Settings(prompt=prompt).prompt == prompt


@pytest.mark.parametrize(
    "text", ("", "3", "=0.5", "3=", "3:accept", "a=0.5", "-1=0.5", "3=1e", "3=nan", "3 = 0.5", "3=0.5=2", "٣=0.5")
)
def test_a_uniform_that_cannot_be_read_gets_a_sentence(text):
    with pytest.raises(SettingsError, match="random number must be written POS=U"):
        read_uniform(text)


@pytest.mark.parametrize("text", ("0=1.0", "0=1", "0=-0.1", "0=1e9", "0=1e999"))
def test_a_uniform_outside_its_range_gets_a_sentence(text):
    with pytest.raises(SettingsError, match="random number must be at least 0 and below 1, got"):
        read_uniform(text)


def test_a_uniform_of_unknown_purpose_gets_a_sentence():
    with pytest.raises(SettingsError, match="random number purpose must be one of draft, accept, residual, bonus, got 'luck'"):
        read_uniform("0:luck=0.5")


LINK = {
    "gamma": "17",
    "temperature": "warm",
    "top_k": "0",
    "top_p": "1.5",
    "min_p": "nan",
    "seed": "9" * 400,
    "max_new_tokens": "1e3",
    "uniforms": "3=1.0",
    "prompt": "a\x07b",
}


@pytest.mark.parametrize("name", LINK)
def test_only_the_damaged_value_of_a_link_falls_back_and_is_named(name):
    settings, notices = Settings.from_query({"pair": "other", "gamma": "3", name: LINK[name]})
    expected = Settings(pair="other") if name == "gamma" else Settings(pair="other", gamma=3)
    assert settings == expected
    what = "random number '3=1.0'" if name == "uniforms" else SETTINGS[name].noun
    assert len(notices) == 1 and notices[0].startswith(f"The link's {what} was left out: ")


def test_only_the_damaged_random_number_of_a_link_falls_back_and_the_others_count():
    settings, notices = Settings.from_query({"uniforms": "0=0.5,1=1.0,2:residual=0.25,x,3:wish=0.1,999999=0.5,4=0.75"})
    assert settings.uniforms == {(0, "accept"): 0.5, (2, "residual"): 0.25, (4, "accept"): 0.75}
    assert [notice.split(" was left out: ")[0] for notice in notices] == [
        "The link's random number '1=1.0'",
        "The link's random number 'x'",
        "The link's random number '3:wish=0.1'",
        "The link's random number '999999=0.5'",
    ]
    assert "at least 0 and below 1, got 1.0" in notices[0] and "got 999999" in notices[3]


def test_a_link_full_of_damaged_random_numbers_says_so_in_a_few_sentences():
    settings, notices = Settings.from_query({"uniforms": ",".join(["x"] * 40 + ["0=0.5"])})
    assert settings.uniforms == {(0, "accept"): 0.5}
    assert len(notices) == 6 and notices[-1] == "More of the link's random numbers were left out: 35 that cannot be used either."


def test_a_link_in_which_everything_is_damaged_is_the_default_with_a_sentence_each():
    settings, notices = Settings.from_query(LINK)
    assert settings == Settings() and len(notices) == len(LINK)


def test_names_of_a_link_that_are_no_settings_are_ignored():
    assert Settings.from_query({"utm_source": "x", "gamma": "2"}) == (Settings(gamma=2), [])


def test_a_record_with_unknown_names_is_refused():
    with pytest.raises(SettingsError, match=r"settings must be among pair, .*, got \['luck'\]"):
        Settings.from_record({"luck": 1})


@pytest.mark.parametrize("record", ({"prompt": 5}, {"uniforms": 5}, {"uniforms": [5]}))
def test_a_record_with_text_or_random_numbers_of_another_type_is_refused_with_a_sentence(record):
    with pytest.raises(SettingsError):
        Settings.from_record(record)


@pytest.mark.parametrize("record", ({"gamma": "3"}, {"temperature": None}, {"top_k": 2.5}, {"seed": "x"}, {"uniforms": ["x"]}))
def test_a_record_with_values_of_another_type_is_refused_with_a_sentence(record):
    with pytest.raises(SettingsError):
        Settings.from_record(record)


@pytest.mark.parametrize("name", ["heads", "early_exit"])
def test_a_link_names_no_folder(name):
    """Folders are named on the command line: what a link sends is hostile."""
    shown = name.replace("_", "-")
    settings, notices = Settings.from_query({name: "/etc", "gamma": "3"})
    assert settings == Settings(gamma=3)
    assert notices == [
        f"The link's {SETTINGS[name].noun} was left out: it must be given on the command line only: --{shown} DIR, got '/etc'."
    ]


OLD = {"length": 5, "nodes": 4, "drafts": 3, "lengths": "gain", "typical": 0.5, "exit": ""}
NEW = Settings(max_new_tokens=5, tree_budget=4, num_chains=3, draft_length_policy="gain", typical_epsilon=0.5)


def test_a_record_and_a_link_of_an_earlier_version_are_read():
    assert Settings.from_record(OLD) == NEW
    assert Settings.from_query({name: str(value) for name, value in OLD.items() if value}) == (NEW, [])


def test_the_source_text_of_earlier_records_and_links_is_read_and_the_text_of_a_plan_stays():
    old = {"proposer": "retrieval", "text": "dorothy"}
    assert Settings.from_record(old) == Settings(proposer="retrieval", source_text="dorothy")
    assert Settings.from_query(old) == (Settings(proposer="retrieval", source_text="dorothy"), [])
    assert update_names({"text": "one to plan for", "draft": "ngram"}) == {"text": "one to plan for", "draft": "ngram"}


def test_a_present_name_wins_over_an_old_one():
    assert Settings.from_query({"max_new_tokens": "6", "length": "5"})[0] == Settings(max_new_tokens=6)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_declaration_reads_what_a_link_writes_and_allows_its_own_default(name):
    declared, default = SETTINGS[name], getattr(DEFAULTS, name)
    declared.check(default)
    assert declared.default == default
    if default is not None:
        assert declared.parse(str(default)) == default
    else:
        assert declared.optional


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.kind is not str])
def test_a_declared_range_ends_where_it_says(name):
    declared = SETTINGS[name]
    step = 1 if declared.kind is int else 0.001
    for inside, outside in ((declared.low, declared.low - step), (declared.high, declared.high + step)):
        if not (declared.above and inside == declared.low):
            declared.check(declared.kind(inside))
        with pytest.raises(SettingsError):
            declared.check(declared.kind(outside) if declared.kind is float else outside)


def test_cuts_are_those_that_are_on():
    cut = Settings(top_k=4, min_p=0.1)
    assert cut.cuts == {"top_k": 4, "min_p": 0.1}
    assert cut.without_cuts(temperature=0.5) == Settings(temperature=0.5)


def test_the_table_of_settings_has_known_keys_and_values_of_their_types():
    kinds = {"low": (int, float), "high": (int, float), "above": bool, "choices": list}
    texts = {"help", "group", "allowed", "shown", "metavar", "setter", "old", "noun"}
    tables = load_toml("settings")
    assert set(tables) == set(SETTINGS)
    for table in tables.values():
        assert table.keys() <= kinds.keys() | texts
        assert all(isinstance(value, kinds.get(key, str)) for key, value in table.items())
        assert table["group"] in get_args(Group) and table.get("setter", "anyone") in get_args(Setter)
