"""Several prompts have one verdict and one exit code, and other traffic shows what uniform traffic hides.

An exact server is rejected with a probability of 0.001 over all prompts; samples are fixed by the seed of the command.
"""

from __future__ import annotations

import json
from collections import Counter
from xml.etree import ElementTree

import pytest
from tokenizers import Tokenizer

from specviz.__main__ import main
from specviz.audit.collection.other_traffic import DEFAULT_REQUESTS, read_beside
from specviz.audit.many_prompts import read_audit_prompts
from specviz.errors import SettingsError
from specviz.models.pairs import loading
from specviz.records import ASSETS
from tests.audit.of_pair import answer_from_pair
from tests.audit.server import run_server

WORDS = ("--max-new-tokens", "2", "--request-tokens", "3", "--samples", "150", "--min-tv", "0.9", "--format", "json")
pytestmark = pytest.mark.usefixtures("short_preflight", "brief_confirmation", "no_pictures")


@pytest.fixture
def local_pair(pair, pair_folders, monkeypatch):
    """Options that name the tiny pair, which is read once."""
    monkeypatch.setattr(loading, "load_pair", lambda *_: pair)
    return ("--target", str(pair_folders[0]), "--draft", str(pair_folders[1]))


@pytest.mark.parametrize(
    "is_wrong", (pytest.param(False, marks=pytest.mark.slow), True)
)  # consistent: the first prompt, and test_command.py
def test_one_wrong_prompt_of_two_rejects(is_wrong, pair, local_pair, capsys, tmp_path):
    """The second prompt's tokens are drawn at a low temperature in the wrong server. The parts share the false-alarm rate."""
    switches, second = answer_from_pair(pair), tuple(pair.encode("The end"))

    def sharpen(ids):
        probs = switches["probs"](ids)
        return probs**4 / (probs**4).sum() if is_wrong and tuple(ids[: len(second)]) == second else probs

    (tmp_path / "prompts.txt").write_text("Once upon\nThe end\n")
    out, junit = tmp_path / "a", tmp_path / "junit.xml"
    with run_server(drafts=True, **switches | {"probs": sharpen}) as server:
        prompts = ("--prompts", str(tmp_path / "prompts.txt"), "--out", str(out), "--junit", str(junit))
        code = main(["audit", server.url, *local_pair, *WORDS, "--choices", "10", *prompts])
        draws = Counter()  # of single tokens, as the check of filters has many
        for body in server.seen.bodies:
            draws[str(body.get("prompt"))] += (body.get("n") or 1) * (body.get("max_tokens") == 1)
    assert draws["Once upon"] > 100 and draws["The end"] < 5, "only the prompt and the length are checked after each prompt"
    record = json.loads(capsys.readouterr().out)
    assert code == int(is_wrong) and record["verdict"] == ("rejected" if is_wrong else "consistent")
    assert [one["verdict"] == "rejected" for one in record["prompts"]] == [False, is_wrong]
    assert json.loads((out / "prompts.json").read_text()) == record and record["sentence"] in (out / "prompts.txt").read_text()
    assert ("The samples part first at position 1" in (out / "prompts.txt").read_text()) is is_wrong
    reports = [json.loads((out / one["folder"] / "report.json").read_text()) for one in record["prompts"]]
    assert [one["settings"]["prompt"] for one in reports] == ["Once upon", "The end"]
    assert {answer["plan"]["alpha"] for one in reports for answer in one["answers"]} == {0.001 / 2 / 2}
    assert record["prompts"][1]["adjusted_p"] >= min(
        test["p_value"] for answer in reports[1]["answers"] for test in answer["tests"]
    )
    checks = [one["audit"]["servers"][0]["traps"] for one in reports]
    assert [check["name"] for check in checks[0]] == [check["name"] for check in checks[1]] and len(checks[0]) == 11
    names = [case.get("name") for case in ElementTree.parse(junit).getroot()]
    assert names[0] == "lossless" and "prompt-01: lossless" in names and "prompt-02: lossless" in names


def test_a_plan_names_each_prompt_and_adds_them_up(pair, local_pair, capsys, tmp_path):
    (tmp_path / "prompts.txt").write_text("Once upon\nThe end\n")
    with run_server(drafts=True, **answer_from_pair(pair)) as server:
        prompts = ("--prompts", str(tmp_path / "prompts.txt"), "--out", str(tmp_path / "a"), "--plan")
        assert main(["audit", server.url, *local_pair, *WORDS, *prompts]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "prompt-01: 'Once upon'" in lines and "prompt-02: 'The end'" in lines
    assert lines[-2].startswith("All 2 prompts: 300 samples are to be collected. Sampling takes about ")
    assert not (tmp_path / "a").exists()


def test_the_default_set_has_the_lengths_that_it_names():
    """Tokens of the shipped pair: 16, 64, 128, a text that repeats itself, one that ends soon."""
    tokenizer = Tokenizer.from_file(str(ASSETS / "models" / "storybook" / "target" / "tokenizer.json"))
    lengths = [len(tokenizer.encode(text).ids) for text in read_audit_prompts("default")]
    assert lengths[:3] == [16, 64, 128] and len(lengths) == 5


@pytest.mark.parametrize("beside", (False, True))
def test_a_fault_that_other_traffic_shows_is_seen_only_beside_it(beside, pair, local_pair, capsys, tmp_path):
    """The server answers at the temperature of the request before. 200 samples, half of them or more at another temperature."""
    words = ("--beside", '[{"temperature": 0.0}, {"temperature": 0.0, "stream": true, "abort": true}]') if beside else ()
    with run_server(drafts=True, leaks=True, **answer_from_pair(pair)) as server:
        code = main(["audit", server.url, *local_pair, *WORDS, "--prompt", "Once upon", *words, "--out", str(tmp_path / "a")])
        cold = sum(body.get("temperature") == 0.0 and body.get("max_tokens") == 32 for body in server.seen.bodies)
    report = json.loads(capsys.readouterr().out)
    assert code == int(beside) and (cold > 10) is beside
    traffic = report["audit"].get("beside")
    assert traffic is None if not beside else traffic["sent"] > 10 and "other requests were sent" in traffic["sentence"]


@pytest.mark.parametrize("text", ("", "[]", "3", "[1]", '{"abort": true}', "{"))
def test_other_traffic_that_cannot_be_sent_is_a_sentence(text):
    with pytest.raises(SettingsError, match="beside must be"):
        read_beside(text)


def test_the_default_traffic_has_all_kinds():
    assert read_beside("default") == DEFAULT_REQUESTS and read_beside('{"temperature": 2}') == ({"temperature": 2},)
    assert {key for one in DEFAULT_REQUESTS for key in one} == {"temperature", "seed", "prompt", "stream", "abort"}


def test_prompts_beside_a_prompt_are_refused(capsys, tmp_path):
    words = ["--against", "http://b", "--prompt", "a", "--prompts", "default", "--out", str(tmp_path / "a")]
    assert main(["audit", "http://HOST", *words]) == 2 and "prompts must be left out" in capsys.readouterr().err
