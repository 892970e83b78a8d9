"""Each preflight check catches a server that does it, and no other.

Chance: two honest texts of 16 tokens at the highest temperature are equal with a probability below 1e-12 on the dialects that take
temperature 1,000; at temperature 2 the eight likeliest tokens of the table still share the mass so that it stays below 1e-6. The
number of reachable tokens is estimated from 300 draws of 1,024 as 1,024 with a standard deviation of 180; below 400 it falls with a
probability of less than 1e-9.
"""

from __future__ import annotations

import pytest

from specviz.audit.collection.preflight import CHECKS, OUTCOMES, PreflightResult, ServerProbe, run_preflight
from specviz.audit.collection.size import PROBE_REGION, compute_first_seed
from specviz.audit.profiles.recognition import recognize_server
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from tests.audit.server import encode_words, run_server

CLEAN = ("vllm", "sglang", "llama.cpp", "transformers", "llama-cpp-python", "generic")
PROMPT = "Once upon a time"


def run_checks(server, length: int = 4, chat: bool = False, known=None, **extra) -> PreflightResult:
    endpoint = Endpoint(server.url, timeout=10.0)
    try:
        sampling = SamplingRequest(PROMPT, length, chat=chat, extra=extra)
        return run_preflight(
            ServerProbe(endpoint, recognize_server(endpoint).profile, sampling, 4, compute_first_seed(7, PROBE_REGION), known)
        )
    finally:
        endpoint.close()


def list_states(found: PreflightResult) -> dict[str, str]:
    return {check.name: check.state for check in found.checks}


def list_caught(found: PreflightResult) -> dict[str, str]:
    return {check.name: check.sentence for check in found.checks if check.state == "caught"}


def test_every_check_has_its_sentences():
    """Of assets/texts/audit_preflight.toml, which an editor may break."""
    assert set(OUTCOMES) == {*CHECKS, "concurrent_seeds"}
    for check in OUTCOMES.values():
        assert check["name"] and "safe" in check and set(check) <= {"name", "safe", "caught", "blocking", "unknown"}
        assert all(sentence.endswith(".") for state in set(check) - {"name"} for sentence in check[state].values())


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("dialect", CLEAN)
def test_a_server_without_faults_is_not_accused(dialect):
    """The samples of one request with seeds s, s + 1 and one seed for a list are how these servers are, and no accusation."""
    with run_server(dialect=dialect, drafts=True) as server:
        found = run_checks(server, known=tuple(encode_words(PROMPT)))
    usual = {"several samples of a request", "lists of prompts", "log probabilities"}
    assert not found.blocking and set(list_caught(found)) <= usual
    assert len(found.checks) == 11 and found.concurrency == (1 if dialect in ("transformers", "llama-cpp-python") else 4)


@pytest.mark.parametrize(
    ("wrong", "name", "words"),
    [
        ({"greedy": True}, "temperature", "the server does not sample"),
        ({"one_seed": True}, "temperature", "one seed, or answers from a cache"),
        ({"dialect": "llama.cpp", "top_k": 6}, "default filters", "The filters are on: 6 tokens are reachable"),
        ({"dialect": "transformers", "top_k": 50}, "default filters", "The filters are on"),
        ({"dialect": "llama.cpp", "least": 0.05}, "default filters", "The filters are on"),
        ({"dialect": "llama.cpp", "most_mass": 0.9}, "default filters", "The filters are on"),
        ({"dialect": "generic", "penalty": 1e6}, "penalties", "with --body"),
        ({"start_token": True}, "prompt", "another chat template or another start token"),
        (
            {"dialect": "llama.cpp", "start_token": True},
            "prompt",
            "another chat template or another start token",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_fault_that_makes_samples_worthless_stops_the_audit(wrong, name, words, request):
    if name in ("temperature", "prompt"):  # the others count tokens
        request.getfixturevalue("short_preflight")
    with run_server(**wrong) as server:
        found = run_checks(server, known=tuple(encode_words(PROMPT)))
    assert name in [check.name for check in found.blocking] and words in list_caught(found)[name]


@pytest.mark.parametrize(
    ("wrong", "name", "words"),
    [
        ({"fixed_seed": True}, "requests without a seed", "the default seed is fixed"),
        ({"caches": True}, "requests without a seed", "a cache of answers"),
        ({"ignores_seeds": True}, "seeds", "0 of 3 seeds"),
        ({"penalty": 1e6}, "penalties", "Every request here switches it off"),
        ({"mixes_seeds": True, "slow": lambda number: 0.01}, "seeds of concurrent requests", "one by one"),
        ({"ignores_n": True}, "several samples of a request", "n is ignored"),
        ({"equal_choices": True}, "several samples of a request", "are equal"),
        ({}, "several samples of a request", "has the seed s + i"),
        ({}, "lists of prompts", "give the same text"),
        ({}, "log probabilities", "before the temperature"),
        ({"zero_logprobs": True}, "log probabilities", "as after a verifying pass"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_fault_that_can_be_avoided_is_named_and_avoided(wrong, name, words, request):
    if name != "penalties":  # which are counted
        request.getfixturevalue("short_preflight")
    with run_server(**wrong) as server:
        found = run_checks(server)
    assert words in list_caught(found)[name] and not found.blocking
    assert found.concurrency == (1 if "mixes_seeds" in wrong else 4)
    assert (found.choices == 1) == ("ignores_n" in wrong or "equal_choices" in wrong)


@pytest.mark.usefixtures("short_preflight")
@pytest.mark.parametrize(
    "dialect", ["vllm", *(pytest.param(one, marks=pytest.mark.slow) for one in ("sglang", "llama.cpp"))]
)  # what each counts: test_profiles.py
def test_requests_too_short_to_draft_stop_the_audit_and_longer_ones_do_not(dialect):
    with run_server(dialect=dialect, drafts=True, drafts_from=3) as server:
        short, long = run_checks(server, length=2), run_checks(server, length=3)
    assert [check.name for check in short.blocking] == ["drafting at this length"]
    assert "ask for longer ones (--max-new-tokens, --request-tokens)" in list_caught(short)["drafting at this length"]
    assert not long.blocking and long.drafted > 0


@pytest.mark.usefixtures("short_preflight")
def test_speculation_that_is_not_at_work_or_not_visible_is_said():
    with run_server(dialect="vllm") as server:
        silent = run_checks(server)
    with run_server(dialect="transformers") as server:
        blind = run_checks(server)
    assert silent.drafted == 0 and any("not seen at work" in check.sentence for check in silent.checks)
    assert blind.drafted is None and list_states(blind)["drafting at this length"] == "unknown"


@pytest.mark.usefixtures("short_preflight")
def test_a_chat_whose_template_differs_is_caught_by_the_number_of_tokens():
    """On a server that does not tell the tokens themselves."""
    with run_server(dialect="generic", template="system words <user>") as server:
        found = run_checks(server, chat=True, known=tuple(encode_words(PROMPT)))
    assert "read 6 tokens" in list_caught(found)["prompt"] and found.blocking


@pytest.mark.usefixtures("short_preflight")
def test_a_template_of_as_many_tokens_is_caught_where_the_server_can_be_asked_for_them():
    with run_server(dialect="llama.cpp", template="<other>") as server:
        found = run_checks(server, chat=True, known=tuple(encode_words(f"<user>{PROMPT}")))
        same = run_checks(server, chat=True, known=tuple(encode_words(f"<other>{PROMPT}")))
    assert "read the tokens" in list_caught(found)["prompt"] and found.blocking
    assert list_states(same)["prompt"] == "safe"


def test_few_reachable_tokens_are_no_proof_of_filters_where_no_temperature_is_high():
    with run_server(top_k=6) as server:
        found = run_checks(server)
    told = {check.name: check for check in found.checks}["default filters"]
    assert told.state == "unknown" and "6 different ones: filters may be on" in told.sentence and not found.blocking


def test_a_small_vocabulary_is_no_filter():
    with run_server(dialect="llama.cpp", probs=lambda ids: [1 / 16] * 16, encode=lambda text: [1, 2]) as server:
        endpoint = Endpoint(server.url)
        few = [
            run_preflight(
                ServerProbe(endpoint, recognize_server(endpoint).profile, SamplingRequest(PROMPT, 4), 4, 9, None, size)
            ).blocking
            for size in (16, None)
        ]
        endpoint.close()
    assert not few[0] and few[1]


def test_looking_can_be_stopped_between_any_two_answers():
    """Within one check of 300 requests too: whoever stops the work does not wait for the rest."""
    told = []

    def stop(share: float, doing: str) -> None:
        told.append(doing)
        if doing.endswith("filters") and told.count(doing) > 5:
            raise KeyboardInterrupt

    with run_server(dialect="llama.cpp", slow=lambda number: 0.002) as server:
        endpoint = Endpoint(server.url)
        probe = ServerProbe(endpoint, recognize_server(endpoint).profile, SamplingRequest(PROMPT, 4), 4, 9)
        with pytest.raises(KeyboardInterrupt):
            run_preflight(probe, stop)
        endpoint.close()
        assert len(server.seen.bodies) < 150
