"""``audit`` from end to end against servers over the tiny pair: its verdicts, its exit codes, and what it leaves behind.

An exact server is rejected with a probability of 0.001; its samples are fixed by the seed of the command, which is the default.
"""

from __future__ import annotations

import _thread
import json
import random
import signal
import sys
from collections import Counter

import numpy as np
import pytest
import torch

from specviz.__main__ import InterruptHandler, main
from specviz.audit.collection import preflight
from specviz.audit.collection.audited_server import count_needed_samples
from specviz.audit.collection.size import compute_first_seed
from specviz.audit.findings import confirmation
from specviz.audit.protocol.body_fields import find_distribution_fields
from specviz.audit.protocol.body_rules import read_body_rules
from specviz.audit.run import AuditRequest
from specviz.evidence.sampling.certificate import ALTERED, check_certificate
from specviz.evidence.testing.report import find_changes
from specviz.models.pairs import loading
from specviz.models.pairs.generation_rules import NO_RULES
from specviz.statistics.finding import ALPHA
from tests.audit.of_pair import answer_from_pair
from tests.audit.server import build_chain_probs, encode_words, run_server

ASKED = ("--prompt", "Once upon", "--max-new-tokens", "2", "--samples", "200", "--min-tv", "0.5")
TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


pytestmark = pytest.mark.usefixtures("short_preflight")


@pytest.fixture
def local_pair(pair, pair_folders, monkeypatch):
    """Options that name the tiny pair, which is read once."""
    monkeypatch.setattr(loading, "load_pair", lambda *_: pair)
    return ("--target", str(pair_folders[0]), "--draft", str(pair_folders[1]))


def bend_probs(probs: np.ndarray) -> np.ndarray:
    """Another distribution: the likeliest token becomes ten times as likely, so few samples show it again."""
    changed = probs.copy()
    changed[probs.argmax()] *= 10.0
    return changed / changed.sum()


@pytest.mark.parametrize("dialect", ["vllm", pytest.param("transformers", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("all_permutations")
def test_an_exact_server_is_consistent_and_everything_is_kept(dialect, pair, local_pair, capsys, tmp_path, monkeypatch):
    if dialect == "transformers":  # texts without token ids: some tokens look alike, and half of the draws leave too few
        monkeypatch.setattr(preflight, "HOT_DRAWS", 300)
    out = tmp_path / "audit"
    length = ("--max-new-tokens", "1") if dialect == "transformers" else ("--request-tokens", "3")
    with run_server(dialect=dialect, drafts=True, **answer_from_pair(pair)) as server:
        code = main(["audit", server.url, *ASKED, *local_pair, *length, "--format", "json", "--out", str(out)])
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert code == 0 and report["verdict"] == "consistent" and not find_changes(report)
    assert report["audit"]["servers"][0]["profile"] == {"vllm": "vLLM", "llama.cpp": "llama.cpp"}.get(
        dialect, "transformers serve"
    )
    assert report["audit"]["speculation"]["drafted"] is (None if dialect == "transformers" else True)
    logs = report["audit"].get("log_probabilities")
    assert logs is None if dialect == "transformers" else (logs["texts"], logs["different"]) == (20, 0) and logs["largest"] < 1e-3
    assert sorted(path.name for path in out.iterdir()) == ["report.json", "report.txt", "samples.json", "samples.jsonl"]
    assert json.loads((out / "report.json").read_text()) == report
    assert "samples per second" in said.err and "detect a total variation of" in said.err


@pytest.mark.parametrize(
    ("longer", "sentence"),
    (
        (("--request-tokens", "3"), "request-tokens must be 2, the --max-new-tokens"),
        (("--gamma", "1"), "gamma must be left out: this server"),
    ),
)
def test_texts_are_compared_whole_so_a_longer_request_is_refused_before_the_first_sample(
    longer, sentence, pair, local_pair, capsys, tmp_path
):
    with run_server(dialect="transformers", **answer_from_pair(pair)) as server:
        code = main(["audit", server.url, *ASKED, *local_pair, "--max-new-tokens", "2", *longer, "--out", str(tmp_path / "a")])
    assert code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_plan_says_how_many_samples_and_how_long_and_collects_none(pair, local_pair, capsys, tmp_path):
    with run_server(drafts=True, **answer_from_pair(pair)) as server:
        words = [
            "--prompt",
            "Once upon",
            "--max-new-tokens",
            "2",
            "--request-tokens",
            "3",
            "--min-tv",
            "0.05",
            "--plan",
            "--out",
            str(tmp_path / "a"),
        ]
        code = main(["audit", server.url, *local_pair, *words])
    needed = f"{count_needed_samples(0.05, 2, False, ALPHA / 2):,} samples detect a total variation of 0.05 with power 99%"
    out = capsys.readouterr().out
    assert code == 0 and needed in out and "samples per second: sampling takes about" in out and not list(tmp_path.iterdir())
    assert "The checks before the samples and the tests after them come on top." in out


@pytest.mark.parametrize(
    ("body", "sentence"),
    (
        ('{"temperature": 0.7}', "use --temperature, which both sides get, got 'temperature'"),
        ('{"frequency_penalty": 5}', "frequency_penalty must be a number from -2 to 2, got 5"),
        ('{"logit_bias": {"99999": 1}}', "logit_bias must be an object of token ids below"),
        ('{"sampling_params": {"logit_bias": {"5": 3}}}', "Compare the server with speculation on and off instead"),
        ('{"generation_config": "{\\"repetition_penalty\\": 1.2}"}', "got 'repetition_penalty'"),
        ('{"stop": ["."]}', "got 'stop'"),
    ),
)
def test_a_field_that_changes_the_distribution_is_refused_against_weights(body, sentence, local_pair, capsys, tmp_path):
    """An exact server was rejected because of such a field: the reference did not have it."""
    code = main(["audit", "http://127.0.0.1:9/v1", *ASKED, *local_pair, "--body", body, "--out", str(tmp_path / "a")])
    assert code == 2 and sentence in capsys.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_fields_that_the_reference_can_compute_are_part_of_the_tested_setting(pair, local_pair, capsys, tmp_path):
    """A server that adds 3 to one token's logit, as it was asked to, is consistent; and the sentence names the field."""
    switches = answer_from_pair(pair)

    def add_bias(ids):
        probs = switches["probs"](ids).copy()
        probs[5] *= np.exp(3.0)
        return probs / probs.sum()

    with run_server(drafts=True, **switches | {"probs": add_bias}) as server:
        words = ["--request-tokens", "3", "--choices", "10", "--body", '{"logit_bias": {"5": 3}}', "--out", str(tmp_path / "a")]
        assert main(["audit", server.url, *ASKED, *local_pair, *words]) == 0
    assert "The reference is computed with the requests' logit_bias" in capsys.readouterr().out


def test_penalties_and_a_least_length_by_hand():
    """Prompt of two tokens; the text after it is 3, 3, 1. Presence 0.5, frequency 0.25, at least four tokens, end token 0."""
    body = {"presence_penalty": 0.5, "frequency_penalty": 0.25, "min_tokens": 4}
    rules = read_body_rules(body, 2, 5, frozenset({0}))
    logits = torch.zeros(1, 5)
    for processor in rules.processors:
        logits = processor(torch.tensor([[3, 1, 3, 3, 1]]), logits)
    assert logits.tolist() == [[-torch.inf, -0.75, 0.0, -1.0, 0.0]] and list(rules.applied) == [
        "min_tokens",
        "presence_penalty",
        "frequency_penalty",
    ]
    assert read_body_rules({"presence_penalty": 0, "logit_bias": {}}, 2, 5, frozenset({0})) is NO_RULES


def test_fields_that_change_nothing_may_stay():
    body = {
        "repetition_penalty": 1.0,
        "logit_bias": {},
        "return_token_ids": True,
        "generation_config": {"prompt_lookup_num_tokens": 3},
    }
    assert list(find_distribution_fields(body)) == [] and list(find_distribution_fields({"min_tokens": 2})) == ["min_tokens"]


def test_a_wrong_server_is_rejected_and_reported_before_its_reproduction_is_run(pair, local_pair, capsys, tmp_path, monkeypatch):
    confirm, report = confirmation.confirm_reproduction, tmp_path / "a" / "report.txt"

    def confirm_later(*given):
        out = capsys.readouterr().out
        assert out.startswith("Rejected") and report.read_text().strip() == out.strip()
        return confirm(*given)

    monkeypatch.setattr(confirmation, "confirm_reproduction", confirm_later)
    with run_server(drafts=True, **answer_from_pair(pair, bend_probs)) as server:
        command = ["audit", server.url, *ASKED, *local_pair, "--request-tokens", "3", "--out", str(tmp_path / "a")]
        assert main(command) == 1
    out, written = capsys.readouterr().out, report.read_text()
    assert "Rejected" not in out and "Run again, where the model says" in out and "It shows again." in out
    assert "One request at a time: " in out and "8 at a time: " in out and "differ from the model's by more than" in out
    assert written.startswith("Rejected") and all(line in written for line in out.splitlines())


LATER_FAULTS = {  # where the distribution is flattened, by tokens of the text with and without the prompt; where the tests see it
    "exact": (lambda length, written: False, None),
    "every later token": (lambda length, written: written >= 2, "all tokens"),
    "bonus token": (lambda length, written: written > 2 and written % 3 == 0, "bonus token of a round"),
    "page": (lambda length, written: length % 16 == 0, "position 1 of a page"),
}


@pytest.mark.usefixtures("brief_confirmation")
@pytest.mark.parametrize("fault", [pytest.param(one, marks=[] if "later" in one else pytest.mark.slow) for one in LATER_FAULTS])
def test_whole_texts_are_tested_where_requests_are_longer_than_the_tested_tokens(fault, pair, local_pair, capsys, tmp_path):
    """A server that is exact for the tested tokens, and flattens later distributions: streamed in passes of 1, 3, 3, ... tokens.

    At temperature 0.3 a flattened distribution is far from its own: 300 tokens of it are rejected with certainty.
    """
    switches, prompt = answer_from_pair(pair, deepest=99), "Once upon a time. "[: 9 if fault != "page" else 99]
    begin, (is_flat, place) = len(pair.encode(prompt)), LATER_FAULTS[fault]
    assert fault != "page" or begin + 2 < 16 < begin + 8

    def bend(ids):
        probs = switches["probs"](ids)
        return np.full_like(probs, 1 / len(probs)) if is_flat(len(ids), len(ids) - begin) else probs

    out, (texts, length) = tmp_path / "a", ("100", "6") if "later" in fault else ("300", "8")
    with run_server(drafts=True, **switches | {"probs": bend}) as server:
        words = ["--prompt", prompt, "--temperature", "0.3", "--request-tokens", length, "--samples", texts, "--min-tv", "0.9"]
        code = main(["audit", server.url, *ASKED, *local_pair, *words, "--out", str(out), "--format", "json"])
    said = capsys.readouterr()
    report = json.loads(said.out)
    first, whole = report["answers"]
    is_wrong = place is not None
    assert code == int(is_wrong) and report["verdict"] == ("rejected" if is_wrong else "consistent") and not find_changes(report)
    assert not [result for result in check_certificate(report) if result.state == ALTERED]
    assert first["verdict"] == "consistent" and whole["mode"] == "whole texts" and whole["plan"]["rounds"] == "told"
    tests = {test["name"]: test["adjusted_p"] for test in whole["tests"]}
    assert place is None or tests[f"{place}: transform"] < 1e-6
    assert fault != "bonus token" or tests["place 1 of a round: transform"] > 0.001
    assert report["audit"]["whole_texts"] == whole["sentence"] and first["plan"]["alpha"] == whole["plan"]["alpha"] == 0.0005
    assert f"whole texts of {length} tokens detect a gap" in said.err
    assert "Whole texts, the 6 smallest" in (out / "report.txt").read_text()
    lines = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert all(sum(one["rounds"]) == len(one["tokens"]) for one in lines)


@pytest.mark.usefixtures("brief_confirmation")
def test_a_server_that_misses_the_end_token_is_rejected(pair, local_pair, capsys, tmp_path):
    """A bias of 4 is on the token, so that a sixth of the tokens are it: 100 samples of three miss what follows it with certainty."""
    switches, (end,) = answer_from_pair(pair), pair.eos_token_ids

    def add_bias(ids):
        probs = switches["probs"](ids).copy()
        probs[end] *= np.exp(4.0)
        return probs / probs.sum()

    with run_server(drafts=True, **switches | {"end": -1, "probs": add_bias}) as server:
        more = ["--samples", "100", "--body", json.dumps({"logit_bias": {str(end): 4}})]
        words = ["--max-new-tokens", "3", *more, "--out", str(tmp_path / "a"), "--format", "json"]
        code = main(["audit", server.url, *ASKED, *local_pair, *words])
    report = json.loads(capsys.readouterr().out)
    assert code == 1 and "go on after the token that ends a text" in report["note"]


@pytest.mark.usefixtures("all_permutations")
def test_speculation_on_against_off_needs_no_weights_and_uses_other_seeds(pair, capsys, tmp_path):
    with run_server(drafts=True, **answer_from_pair(pair)) as on, run_server(**answer_from_pair(pair)) as off:
        code = main(["audit", on.url, "--against", off.url, *ASKED, "--max-new-tokens", "3", "--out", str(tmp_path)])
    assert code == 0 and "Speculation was seen at work" in capsys.readouterr().out
    seeds = [
        {json.loads(line)["settings"]["seed"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()}
        for name in ("samples", "against")
    ]
    assert len(seeds[0]) == len(seeds[1]) == 200 and not seeds[0] & seeds[1]


@pytest.mark.usefixtures("short_preflight")
def test_stop_and_a_grammar_are_compared_between_two_servers_and_refused_against_weights(local_pair, capsys, tmp_path):
    """A chain of 1,024 tokens of which three are allowed, one of them a stop; 200 samples of each. A server that forgets the stop differs in most."""
    last = encode_words("Once upon")[-1]
    allowed = np.argsort(-build_chain_probs(last))[:3].tolist()
    body = ("--body", json.dumps({"stop": [f" {allowed[0]}"], "allowed_token_ids": allowed}))
    with run_server(drafts=True) as on, run_server() as off:
        assert main(["audit", on.url, *ASKED, *local_pair, *body, "--out", str(tmp_path / "weights")]) == 2
        said = capsys.readouterr().err
        assert (
            "Compare the server with speculation on and off instead (--against), with the same body" in said
            and not on.seen.bodies
        )
        command = [*ASKED, "--max-new-tokens", "3", "--choices", "10", *body]
        assert main(["audit", on.url, "--against", off.url, *command, "--out", str(tmp_path / "two")]) == 0
        rows = [json.loads(line) for line in (tmp_path / "two" / "samples.jsonl").read_text().splitlines()]
        assert {token for row in rows for token in row["tokens"]} <= {*allowed} and {row["stop"] for row in rows} == {
            "stop",
            "length",
        }
        on.switches.ignores = ("stop",)
        assert main(["audit", on.url, "--against", off.url, *command, "--out", str(tmp_path / "wrong")]) == 1


def test_the_reproduction_of_two_servers_is_run_on_both_and_the_command_is_kept(capsys, tmp_path):
    """The likeliest token is ten times as likely on the first server: 200 samples of each show that with certainty, and so do the runs."""
    out = tmp_path / "a"
    with run_server(probs=lambda ids: bend_probs(build_chain_probs(ids[-1]))) as on, run_server() as off:
        assert main(["audit", on.url, "--against", off.url, *ASKED, "--choices", "10", "--out", str(out)]) == 1
    said, written = capsys.readouterr().out, (out / "report.txt").read_text()
    confirmed = json.loads((out / "report.json").read_text())["audit"]["confirmation"]
    assert "Run again on both servers. One request at a time: " in said and confirmed["sentence"].endswith("It shows again.")
    assert [run["concurrency"] for run in confirmed["runs"]] == [1, 8] and all(run["second_reached"] for run in confirmed["runs"])
    counts = json.loads((out / "report.json").read_text())["audit"]["reproduction"]["counts"]
    assert counts and all(one["text"] == f" {one['token']}" for one in counts), "the server's text of its tokens"
    again = f"To run it again, with another --seed and another --out for new samples: specviz audit {on.url} --prompt 'Once upon'"
    assert again in written and f"--against {off.url}" in written


def test_ids_of_one_server_and_texts_of_the_other_are_refused_before_the_first_sample(capsys, tmp_path):
    with run_server() as one, run_server(dialect="generic") as two:
        code = main(["audit", one.url, "--against", two.url, "--prompt", "a b", "--max-new-tokens", "2", "--samples", "9", "--out", str(tmp_path / "a")])  # fmt: skip
    assert code == 2 and "The first server gives token ids, the second text" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_one_server_asked_in_two_ways(pair, capsys, tmp_path):
    """Top-k 3 leaves tokens that have a tenth of the mass: 500 samples of each show that with certainty."""
    with run_server(**answer_from_pair(pair)) as server:
        code = main(
            ["audit", server.url, "--against-body", '{"top_k": 3}', *ASKED, "--samples", "500", "--out", str(tmp_path / "a")]
        )
        assert code == 1 and {body.get("top_k") for body in server.seen.bodies} == {-1, 3, None}
        script = json.loads((tmp_path / "a" / "report.json").read_text())["audit"]["reproduction"]["script"]
        assert script in capsys.readouterr().out and "'top_k': 3" in script and "'top_k': -1" in script


def test_a_check_stops_the_audit_before_the_first_sample_and_nothing_is_written(pair, local_pair, capsys, tmp_path):
    with run_server(greedy=True, **answer_from_pair(pair)) as server:
        code = main(["audit", server.url, *ASKED, *local_pair, "--out", str(tmp_path / "a")])
    said = capsys.readouterr()
    assert code == 7 and "the server does not sample" in said.err and "--ignore-checks" in said.err and not said.out
    assert not list(tmp_path.iterdir())


def test_an_audit_that_a_dying_server_ended_goes_on_with_the_same_command(pair, local_pair, capsys, tmp_path, monkeypatch):
    from specviz.audit.protocol import endpoint

    monkeypatch.setattr(endpoint, "MAX_BACKOFF", 0.001)
    first = range(compute_first_seed(7, 0), compute_first_seed(7, 0) + 60)  # the seeds of the samples: the probes have others
    command = [*ASKED, *local_pair, "--samples", "60", "--concurrency", "1", "--out", str(tmp_path / "a")]
    with run_server(dialect="llama.cpp", **answer_from_pair(pair)) as server:
        server.switches.fails = lambda number: (
            500 if sum(body.get("seed", -1) in first for body in server.seen.bodies) > 30 else 0
        )
        assert main(["audit", server.url, *command]) == 6
        said = capsys.readouterr().err
        assert "status 500" in said and "the same command goes on from there" in said
        assert " of 60 samples are there. They are tested now" in said and "Too few samples" in said
        kept = (tmp_path / "a" / "samples.jsonl").read_bytes()
        server.switches.fails = lambda number: 0
        assert main(["audit", server.url, *command]) == 3, "60 samples are too few for a verdict"
        asked = len(server.seen.bodies)
        assert main(["audit", server.url, *command]) == 3, "everything is there: only the profile is settled"
        assert len(server.seen.bodies) == asked + 1
    whole = (tmp_path / "a" / "samples.jsonl").read_bytes()
    assert 0 < len(kept) < len(whole) and whole.startswith(kept)


@pytest.fixture
def interruptible():
    """A process in the background has interrupts ignored."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_within_a_second_are_one_and_the_exit_code_is_the_firsts(interruptible):
    handler = InterruptHandler()
    handler.install()
    assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is handler
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGTERM, None)
    handler(signal.SIGINT, None)
    assert handler.number == signal.SIGTERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    InterruptHandler().install()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "a signal that is ignored stays ignored"


@pytest.mark.parametrize(
    ("few", "number", "ending"),
    (
        (30, signal.SIGTERM, "ended by SIGTERM: what"),
        pytest.param(30, signal.SIGINT, "interrupted: what", marks=pytest.mark.slow),
        pytest.param(1, signal.SIGINT, "interrupted: what", marks=pytest.mark.slow),
    ),
)
def test_an_interrupt_gives_a_verdict_on_what_was_collected(
    few, number, ending, pair, local_pair, capsys, tmp_path, interruptible, monkeypatch
):
    """After 30 samples there is one, if only that they are too few; after one or two none is possible, and the reason is said.

    The server's counters of draft tokens are read once more, so the verdict says that it drafted.
    """
    first, junit = range(compute_first_seed(7, 0), compute_first_seed(7, 0) + 900), tmp_path / "audit.xml"
    junit.write_text("<testsuite tests='1'/>")  # of an earlier run, in which all was well
    command = [
        *ASKED,
        *local_pair,
        "--max-new-tokens",
        "3",
        "--samples",
        "900",
        "--concurrency",
        "1",
        "--junit",
        str(junit),
        "--out",
        str(tmp_path / "a"),
    ]
    with run_server(drafts=True, **answer_from_pair(pair)) as server:
        sent = iter(range(900))

        def interrupt(request: int) -> int:
            if server.seen.bodies[request - 1].get("seed", -1) in first and next(sent) == few:
                _thread.interrupt_main(number)
            return 0

        server.switches.fails = interrupt
        monkeypatch.setattr(sys, "argv", ["specviz", "audit", server.url, *command])
        assert main() == 128 + number
    said = capsys.readouterr()
    assert ending in said.err
    assert " of 900 samples are there. They are tested now" in said.err and "the same command goes on from there" in said.err
    assert ("The report on these samples is in " if few == 30 else "No verdict: ") in said.err and not said.out
    assert (tmp_path / "a" / "report.json").exists() is (few == 30) and "did not end" in junit.read_text()
    if few == 30:
        assert json.loads((tmp_path / "a" / "report.json").read_text())["audit"]["speculation"]["drafted"] is True


@pytest.mark.parametrize("words", (("--smaples", "9"), ("--samples", "none"), ("--samples",)), ids=str)
def test_a_refused_option_leaves_no_outcome_of_an_earlier_run(words, capsys, tmp_path):
    """The parser ends before the command begins. A file that is no JUnit file stays."""
    junit, other = tmp_path / "audit.xml", tmp_path / "notes.txt"
    junit.write_text("<?xml version='1.0'?>\n<testsuite tests='1'/>")
    other.write_text("mine")
    for path in (junit, other):
        assert main(["audit", "http://127.0.0.1:9/v1", f"--junit={path}", *words]) == 2
    assert main(["audit", "http://127.0.0.1:9/v1", *words, "--junit", str(junit)]) == 2
    assert not junit.exists() and other.read_text() == "mine" and "--help" not in capsys.readouterr().out


def kill_server(server) -> None:
    """Close its port and its connections, as a process that is killed does."""
    with server.lock:
        if server.switches.cut(0):
            return
        server.switches.cut = lambda number: True
    server.shutdown()
    server.server_close()


FAULTS = {
    "killed": (kill_server, "its port was closed for 0.01 s, so no server runs there"),
    "hangs": (lambda server: setattr(server.switches, "slow", lambda number: 5.0), "did not answer within 0.5 s"),
    "html": (lambda server: setattr(server.switches, "html", True), "a web page, not JSON"),
    "garbage": (lambda server: setattr(server.switches, "garbage", True), "something that is not JSON"),
    "fewer": (lambda server: setattr(server.switches, "most_tokens", 1), "gave 1 token where a sample of 2 tokens was asked for"),
    "becomes": (
        lambda server: setattr(server.switches, "becomes", (0, "elsewhere")),
        'Another model answers, or another build of the server: model was "table" and now is "elsewhere"',
    ),
    "stops": (lambda server: setattr(server.switches, "fails", lambda number: 404), "status 404"),
}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_middle_is_a_sentence_and_keeps_what_was_collected(fault, pair, local_pair, capsys, tmp_path, monkeypatch):
    from specviz.audit.protocol import endpoint

    monkeypatch.setattr(endpoint, "REFUSED_SECONDS", 0.01)
    break_, sentence = FAULTS[fault]
    first = range(compute_first_seed(7, 0), compute_first_seed(7, 0) + 60)  # the seeds of the samples
    patience = (
        "0.5" if fault == "hangs" else "30"
    )  # a busy machine answers late, and an early answer that is late leaves few samples
    command = [*ASKED, *local_pair, "--samples", "60", "--timeout", patience, "--out", str(tmp_path / "a")]
    with run_server(dialect="llama.cpp", **answer_from_pair(pair)) as server:

        def break_confirmation(number: int) -> int:
            if sum(body.get("seed", -1) in first for body in server.seen.bodies) > 45:
                break_(server)
            return 0

        server.switches.fails = break_confirmation
        assert main(["audit", server.url, *command]) == 6
    said = capsys.readouterr()
    assert sentence in said.err and "the same command goes on from there" in said.err and not said.out
    files = ["report.json", "report.txt", "samples.json", "samples.jsonl"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == files
    samples = [json.loads(line) for line in (tmp_path / "a" / "samples.jsonl").read_text().splitlines()]
    assert 0 < len(samples) < 60 and all(len(one["tokens"]) == 2 or one["stop"] == "stop" for one in samples)


@pytest.mark.parametrize(
    ("first", "second", "option"), (("nosuch", None, "model"), (None, None, "model"), ("good", "nosuch", "against-model"))
)
def test_a_model_that_a_server_does_not_have_is_a_wrong_setting_and_its_models_are_named(first, second, option, capsys, tmp_path):
    """The names are the server's words: escaped, and the first five, of at most 80 characters each."""
    names = ("good", "\x1b[31m\u202ebad", "x" * 500, "a", "b", "c", "d")
    with run_server(models=names) as one, run_server(models=names) as two:
        words = [] if first is None else ["--model", first]
        words += [] if second is None else ["--against-model", second]
        command = [
            "audit",
            one.url,
            "--against",
            two.url,
            "--prompt",
            "a b",
            "--samples",
            "9",
            *words,
            "--out",
            str(tmp_path / "a"),
        ]
        assert main(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert (
        f'{option} must be one that the server lists ("good", "\\u001b[31m\\u202ebad", "xxx' in said
        and "and 2 more), got" in said
    )
    assert "\x1b" not in said and "x" * 81 not in said and not (tmp_path / "a").exists()


def test_a_refusal_of_something_else_stays_the_servers_own_sentence(capsys, tmp_path):
    with run_server(fails=lambda number: 400) as one, run_server() as two:
        words = ["--against", two.url, "--prompt", "a b", "--samples", "9", "--model", "unlisted", "--out", str(tmp_path / "a")]
        assert main(["audit", one.url, *words]) == 6
    assert "status 400 (it failed)" in capsys.readouterr().err


@pytest.mark.slow  # collection/test_collect.py has the same of the file
def test_a_server_that_fails_half_of_the_time_is_audited_all_the_same(pair, local_pair, capsys, tmp_path, monkeypatch):
    """Each request fails with probability 1/2, at most 8 times with one body, and the first six do not: so none can fail 20 times."""
    from specviz.audit.protocol import endpoint

    monkeypatch.setattr(endpoint, "MAX_BACKOFF", 0.001)
    dice, failures = random.Random(5), Counter()

    def fail(number: int) -> int:
        body = json.dumps(server.seen.bodies[number - 1], sort_keys=True)
        if number <= 6 or failures[body] >= 8 or dice.random() >= 0.5:
            return 0
        failures[body] += 1
        return 500

    with run_server(drafts=True, fails=fail, **answer_from_pair(pair)) as server:
        code = main(
            ["audit", server.url, *ASKED, *local_pair, "--request-tokens", "3", "--samples", "100", "--out", str(tmp_path / "a")]
        )
    assert code == 0 and "Consistent" in capsys.readouterr().out


def test_a_chat_is_tested_after_the_text_of_the_tokenizers_own_template(pair, local_pair, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(pair.tokenizer, "chat_template", TEMPLATE, raising=False)
    text = f"{pair.tokenizer.bos_token}<user>Once upon<assistant>"

    def encode(chat: str) -> list[int]:
        return list(pair.encode(chat.replace("TEMPLATE", f"{pair.tokenizer.bos_token}<user>") + "<assistant>"))

    options = ["--chat", *ASKED, *local_pair, "--samples", "100", "--request-tokens", "3"]
    switches = answer_from_pair(pair, deepest=len(pair.encode(text)) + 2) | {"encode": encode}
    with run_server(template="TEMPLATE", drafts=True, **switches) as server:
        assert main(["audit", server.url, *options, "--out", str(tmp_path / "a")]) == 0
    assert json.loads((tmp_path / "a" / "report.json").read_text())["settings"]["prompt"] == text
    with run_server(template="another ", drafts=True, **switches) as server:
        assert main(["audit", server.url, *options, "--out", str(tmp_path / "b")]) == 7
    assert "another chat template" in capsys.readouterr().err


def test_the_key_is_in_no_file_and_no_word(pair, local_pair, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "hunter2-hunter2")
    with run_server(key="hunter2-hunter2", greedy=True, **answer_from_pair(pair)) as server:
        main(["audit", server.url, *ASKED, *local_pair, "--api-key-variable", "SERVER_KEY", "--ignore-checks", "--samples", "40", "--out", str(tmp_path / "a")])  # fmt: skip
    said = capsys.readouterr()
    written = "".join(
        path.read_text(errors="replace") for path in (tmp_path / "a").rglob("*") if path.is_file() and path.suffix != ".zip"
    )
    assert "samples.jsonl" in str(list((tmp_path / "a").iterdir()))
    assert "hunter2" not in said.out + said.err + written and all(
        "hunter2" not in json.dumps(body) for body in server.seen.bodies
    )


def test_a_key_is_not_sent_to_the_second_server(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SERVER_KEY", "hunter2-hunter2")
    with run_server() as first, run_server() as second:
        main(["audit", first.url, "--against", second.url, "--prompt", "a b", "--max-new-tokens", "3", "--samples", "30", "--api-key-variable", "SERVER_KEY",
              "--out", str(tmp_path / "a")])  # fmt: skip
        assert all(headers["Authorization"] == "Bearer hunter2-hunter2" for headers in first.seen.headers)
        assert not any("Authorization" in headers for headers in second.seen.headers)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "An audit compares the server with local weights"),
        (("--pair", "storybook", "--against", "http://b"), "for the same one); both were given."),
        (("--against", "http://HOST"), "another server, or the same one with other fields"),
        (("--against", "nowhere"), "URL must be an address"),
        (("--against", "http://b", "--max-new-tokens", "5"), "max-new-tokens must be a whole number from 1 to 4"),
        (("--max-tokens", "9"), "--max-tokens is called --request-tokens now."),
        (
            ("--against", "http://b", "--max-new-tokens", "3", "--request-tokens", "2"),
            "request-tokens must be at least --max-new-tokens",
        ),
        (("--against", "http://b", "--samples", "0"), "samples must be"),
        (("--against", "http://b", "--min-tv", "0"), "min-tv must be"),
        (("--against", "http://b", "--timeout", "0"), "timeout must be"),
        (("--against", "http://b", "--rate", "-1"), "rate must be"),
        (("--against", "http://b", "--body", "[1]"), "body must be a JSON object"),
        (("--against", "http://b", "--body", '{"seed": 1}'), "without what other options say"),
        (("--against", "http://b", "--against-body", "{"), "against-body must be a JSON object"),
        (("--against", "http://b", "--api-key-variable", "NO_SUCH"), "environment variable that holds the key"),
        (("--against", "http://b", "--prompt", ""), "prompt must be a text"),
        (("--draft", "somewhere"), "--draft was given without --target"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_are_a_sentence_before_anything_is_asked(options, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "http://HOST", "--prompt", "Once upon", *options]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "more"), (("report.json", ()), ("figures/notes.txt", ("--figures",))))
def test_a_folder_of_something_else_is_refused_before_anything_is_asked(name, more, capsys, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    assert main(["audit", "http://HOST", "--prompt", "a", "--against", "http://b", "--out", str(tmp_path), *more]) == 2
    assert name.rpartition("/")[2] in capsys.readouterr().err and (tmp_path / name).read_text() == "mine"


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("options", "tokens"),
    (
        ({"gamma": 5}, 14),
        ({"gamma": 2}, 4),
        ({"gamma": 5, "request_tokens": 9}, 9),
        ({}, 4),
        ({"gamma": 5, "pair": None, "against": "http://b"}, 4),
    ),
)
def test_requests_have_two_rounds_where_a_round_is_longer_than_the_tested_tokens(options, tokens):
    request = AuditRequest(**{"url": "http://a", "pair": "storybook"} | options)
    assert request.request_length == tokens and request.tests_whole_texts == (tokens > request.max_new_tokens)
