"""The wrong server of our own speaks as vLLM does, and its samples are the mutant's: so an audit names what it was started with.

A mistake is missed in less than one seed of a million, the correct decoder rejected once in 1,000. The seeds are those of the requests.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from specviz.__main__ import main as command
from specviz.audit.findings import confirmation
from specviz.audit.findings.verdict import NO_SINGLE_PREFIX
from specviz.decoding.samples import NONE
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.mistakes.registry import PENALTY
from specviz.models.pairs import loading
from tests.audit.served import PROMPT, build_settings
from tools.servers import own
from tools.servers.own import CompletionsApi, MistakenDecoder, main, start_http_server

pytestmark = pytest.mark.usefixtures("short_preflight")
# Every token of the tiny pair is unlikely, so p without one of them is nearly p.
# In the first round of a sample, a number for each round is a number for each sample. In three tokens, R18 with one draft token a round writes what a
# decoder writes whose first draft token is not verified.
SIMILAR = {"R5": ("one-hot-residual",), "one-hot-residual": ("R5",), "one-uniform": ("R7",), "first-unverified": ("R18",)}


@pytest.fixture
def start_server(pair):
    """mistake -> the address of a running server and its Api."""
    running = []

    def start(mistake: str) -> tuple[str, CompletionsApi]:
        api = CompletionsApi.from_pair(pair, mistake, 2, "tiny")
        server = start_http_server(api)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}", api

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


def request_json(url: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=60) as answer:
        content = answer.read().decode()
    return json.loads(content) if "json" in answer.headers["Content-Type"] else {"text": content}


def run_audit(url: str, out: Path, pair_folders, samples: int, tv: float, more: Sequence[str] = ()) -> int:
    """The exit code of the command, which knows the server as vLLM."""
    options = ["--model", "tiny", "--prompt", PROMPT, "--max-new-tokens", "3", "--choices", "50", "--concurrency", "2"]
    options += ["--samples", str(samples), "--min-tv", str(tv), *more]
    local = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    return command(["audit", url, *options, *local, "--format", "json", "--out", str(out)])


COLD = ("--temperature", "0.3")  # samples share their prefixes
REPEATING = ("--body", json.dumps({"frequency_penalty": PENALTY, "logit_bias": {"17": 8}}))  # most tokens are 17
NAMED = (
    ("R18", 300, ()),
    ("R1", 1500, ()),
    ("R5", 1500, ()),
    ("gate", 1500, ()),
    ("pass-temperature", 1500, ()),
    ("one-hot-residual", 1500, ()),
    ("lenience", 1500, ()),
    ("greedy-bonus", 1500, COLD),
    ("first-unverified", 1500, COLD),
    ("draft-settings", 1500, ()),
    ("draft-row", 1500, ("--beside", '{"prompt": "An old king"}', "--concurrency", "1")),
    ("rejecting-number", 6000, ()),
    ("one-uniform", 3000, COLD),
    ("penalty-twice", 3000, REPEATING),
    ("no-rollback", 1500, COLD),
    ("row-after-rejected", 1500, COLD),
)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("mistake", "samples", "more"),
    [one if one[0] == "R18" else pytest.param(*one, marks=pytest.mark.slow) for one in NAMED],
    ids=[one[0] for one in NAMED],
)
def test_a_published_mistake_behind_the_protocol_is_rejected_and_named(
    mistake, samples, more, start_server, pair, pair_folders, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pair)
    monkeypatch.setattr(confirmation, "MAX_SECONDS", 0.2)  # test_confirmation.py has whole runs of a reproduction
    url, api = start_server(mistake)
    assert run_audit(url, tmp_path / "a", pair_folders, samples, 0.9, more) == 1
    audit = json.loads(capsys.readouterr().out)["audit"]
    named = audit["diagnosis"]["named"]
    assert mistake in named and set(named) <= {mistake, *SIMILAR.get(mistake, ())} and audit["speculation"]["drafted"] is True
    assert audit["where"] == NO_SINGLE_PREFIX or f"{url}/v1/completions" in audit["reproduction"]["script"]
    assert audit["servers"][0]["profile"] == "vLLM"
    assert 0 < api.decoder.coverage.accepted <= api.decoder.coverage.proposed


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_the_correct_decoder_behind_the_protocol_is_consistent(start_server, pair, pair_folders, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pair)
    assert run_audit(start_server("none")[0], tmp_path / "a", pair_folders, 1500, 0.3) == 0


@pytest.mark.parametrize("mistake", ("R5", "R8"))
def test_a_seed_gives_the_sample_that_our_decoder_gives(mistake, pair):
    """R5 on shared distributions, R8 through the engine."""
    written = MistakenDecoder(pair, mistake, 2).write(pair.encode(PROMPT), build_settings(pair, seed=0), range(5))
    for seed, text in enumerate(written):
        settings = build_settings(pair, seed=seed)
        mode = ENGINE if mistake == "R8" else SHARED
        tokens = build_decoder(mistake, pair, settings, pair.encode(PROMPT)).sample(mode, 0, 1).tokens[0]
        assert text == [token for token in tokens.tolist() if token != NONE]


def test_it_says_of_itself_what_vllm_says(start_server):
    url, api = start_server("none")
    assert request_json(f"{url}/v1/models")["data"][0]["id"] == "tiny" and "version" in request_json(f"{url}/version")
    body = {"prompt": [5, 6], "max_tokens": 4, "n": 2, "seed": 3, "return_token_ids": True}
    first, again = (request_json(f"{url}/v1/completions", body) for _ in range(2))
    assert [one["token_ids"] for one in first["choices"]] == [one["token_ids"] for one in again["choices"]]
    single = request_json(f"{url}/v1/completions", body | {"n": 1, "seed": 4})
    assert single["choices"][0]["token_ids"] == first["choices"][1]["token_ids"], "choice i has the seed + i"
    assert first["choices"][0]["prompt_token_ids"] == [5, 6] and first["usage"]["prompt_tokens"] == 2
    assert f"vllm:spec_decode_num_draft_tokens_total {api.decoder.coverage.proposed}.0" in request_json(f"{url}/metrics")["text"]
    assert request_json(f"{url}/v1/completions", {"prompt": "Once"})["choices"][0].get("token_ids") is None
    streamed = request_json(f"{url}/v1/completions", body | {"n": 1, "stream": True})["text"].split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in streamed if line.startswith("data: {")]
    parts = [one["token_ids"] for event in events for one in event["choices"]]
    assert (
        [token for part in parts for token in part] == first["choices"][0]["token_ids"]
        and len(parts) > 1
        and streamed[-2:] == ["data: [DONE]", ""]
    )
    assert events[-1]["usage"]["completion_tokens"] == 4
    assert request_json(f"{url}/detokenize", {"tokens": [17]})["prompt"] == api.tokens.decode([17], False) != ""
    biased = request_json(f"{url}/v1/completions", body | {"n": 1, "logit_bias": {"17": 100}})
    assert biased["choices"][0]["token_ids"] == [17] * 4


def test_a_stream_is_sent_as_its_rounds_end_and_a_client_that_leaves_ends_it(pair):
    """After the first event one round is decoded, and other requests wait; after the client has left, none does."""
    api = CompletionsApi.from_pair(pair, "none", 2, "tiny")
    body = {"prompt": [5, 6], "max_tokens": 12, "seed": 3, "return_token_ids": True}
    events = api.complete(body | {"stream": True})
    (first,), done = next(events)["choices"], api.decoder.coverage
    assert first["finish_reason"] is None and done.proposed == 2 and api.decoder.lock.locked()
    del events
    assert not api.decoder.lock.locked() and api.decoder.coverage == done
    whole = api.complete(body)["choices"][0]["token_ids"]
    assert whole[: len(first["token_ids"])] == first["token_ids"] and len(whole) == 12


def test_a_measurement_reads_the_rounds_of_its_streams(start_server, capsys, tmp_path):
    prompts = tmp_path / "mine.txt"
    prompts.write_text("Once upon\nAn old king\n")
    words = ["--turns", "2", "--prompts-per-user", "2", "--concurrency", "1", "--max-new-tokens", "24", "--prompts", str(prompts)]
    assert command(["pays", start_server("none")[0], *words, "--out", str(tmp_path / "a"), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    counted, rounds = report["rounds"]
    assert (counted["source"], rounds["source"]) == ("counters", "pieces") and 1.0 < rounds["tokens_per_round"]["value"] <= 3.0
    assert counted["tokens_per_round"]["value"] == pytest.approx(rounds["tokens_per_round"]["value"], abs=0.4)
    assert rounds["seconds_per_round"]["value"] > 0.0
    assert "No draft length is computed. That needs the time of a token without speculation" in report["remarks"][-1]


@pytest.mark.parametrize(
    ("body", "said"),
    (
        ({"prompt": ""}, "prompt must be"),
        ({"prompt": "a", "n": 0}, "n must be a whole number from 1 to 256"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens must be"),
        ({"prompt": "a", "temperature": -1}, "temperature must be"),
        ({"prompt": "a", "model": "x"}, "does not exist"),
        ({"prompt": [99999]}, "prompt must be"),
        ([], "must be a JSON object"),
    ),
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(body, said, start_server):
    url, _ = start_server("none")
    with pytest.raises(urllib.error.HTTPError) as refused:
        request_json(f"{url}/v1/completions", body)
    assert refused.value.code == 400 and said in json.load(refused.value)["error"]["message"]


def test_a_port_that_is_taken_is_a_sentence_and_the_decoder_is_described(start_server, pair, monkeypatch, capsys):
    monkeypatch.setattr(own, "load_pair", lambda *_: pair)
    url, _ = start_server("none")
    assert main(["--port", url.rpartition(":")[2]]) == 2
    said = capsys.readouterr()
    assert (
        "cannot be used (Address already in use); --port names another." in said.err
        and said.err.count("\n") == 1
        and not said.out
    )
    assert own.describe_decoder("none", 2) == "decodes exactly, 2 draft tokens a round"
    assert own.describe_decoder("none", 0) == "decodes exactly, without speculation"
    assert own.describe_decoder("R5", 3) == "decodes with the mistake R5, 3 draft tokens a round"


def test_an_unknown_mistake_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--mistake", "R99"])
    assert "pass-temperature" in capsys.readouterr().err
