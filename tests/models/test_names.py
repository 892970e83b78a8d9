"""A user-supplied pair has one name in settings, links and commands. Its draft may be rounded to 8 bits after reading."""

import argparse
import json

import pytest
import torch

from specviz.__main__ import main
from specviz.cli.common.command_options import add_pair_options, read_pair_name
from specviz.errors import ModelError
from specviz.evidence.sampling import certificate
from specviz.models.attachments import exits
from specviz.models.fast_llama.draft_8bit import is_rounded
from specviz.models.pairs.loading import load_pair
from specviz.models.pairs.names import PairPlaces, expand_path, format_options, parse_pair_name
from tests.proposers.test_early_exit import save_random_exit


@pytest.mark.parametrize("places", (PairPlaces("a/b", "./c d"), PairPlaces("a/b", "c", True)), ids=str)
def test_a_name_holds_its_places_and_the_options_name_it_again(places):
    assert parse_pair_name(places.name) == places
    parser = argparse.ArgumentParser()
    add_pair_options(parser)
    assert read_pair_name(parser.parse_args(format_options(places.name))) == places.name


@pytest.mark.parametrize("name", ("storybook", "a|", "|b", "a|b|", "a|b|4bit", "a|b|8bit|8bit", "a|b|c|d", "||", ""))
def test_other_names_hold_no_places_and_load_nothing(name):
    assert parse_pair_name(name) is None
    if name != "storybook":
        with pytest.raises(ModelError, match="There is no pair"):
            load_pair(name)


def test_a_rounded_draft_is_another_draft_beside_the_same_target(pair_folders):
    target, draft = map(str, pair_folders)
    plain, rounded = (load_pair(PairPlaces(target, draft, bits).name, "cpu") for bits in (False, True))
    assert is_rounded(rounded.draft) and not is_rounded(rounded.target) and not is_rounded(plain.draft)
    assert rounded.describe()["draft"]["bits"] == 8
    pairs = zip(plain.target.parameters(), rounded.target.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert not torch.equal(plain.draft.lm_head.weight, rounded.draft.lm_head.weight)


def test_decode_takes_it_and_its_settings_name_it(pair_folders, capsys):
    target, draft = map(str, pair_folders)
    own = ["--target", target, "--draft", draft, "--device", "cpu"]
    assert main(["decode", *own, "--draft-bits", "8", "--prompt", "Once", "--max-new-tokens", "5", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["pair"] == f"{target}|{draft}|8bit"


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (("--draft-bits", "8"), "given with --target and --draft"),
        (("--target", "a", "--draft", "b", "--draft-bits", "4"), "must be 8"),
    ),
    ids=("a shipped pair", "4 bits"),
)
def test_bits_that_cannot_be_had_are_a_sentence(words, said, capsys):
    assert main(["decode", *words, "--prompt", "Once"]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def home(pair_folders, monkeypatch):
    """The folder of the tiny pair as the home directory."""
    monkeypatch.setenv("HOME", str(pair_folders[0].parent))
    return pair_folders[0].parent


def test_a_folder_below_ones_home_is_loaded_under_the_name_it_was_asked_for(home):
    name = PairPlaces("~/target", "~/draft").name
    assert load_pair(name, "cpu").name == name


def test_a_certificate_of_such_a_pair_finds_it_again(home):
    assert certificate._has_models("~/target|~/draft") and not certificate._has_models("~/target|~/missing")


def test_an_exit_below_ones_home_is_read(pair, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(exits.EXITS, "allowed", set())
    save_random_exit(tmp_path / "exit")
    place = exits.EXITS.choose_folder("none", exits.EXITS.allow("~/exit"))
    assert exits.EXITS.load_once(pair.target, place, exits.load_exit).layer == 1


@pytest.mark.parametrize("place", ("~nobody-of-this-name/model", "~/missing"))
def test_a_home_that_is_not_there_is_a_sentence(home, place):
    assert not expand_path(place).is_dir()
    with pytest.raises(ModelError, match="neither a folder on this machine nor a hub name"):
        load_pair(PairPlaces(place, place).name, "cpu")
