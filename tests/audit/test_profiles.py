"""Servers are told apart by what they answer, and each is asked so that nothing but the model's distribution is sampled."""

from __future__ import annotations

import json
import sys

import pytest

from specviz.audit.profiles.answers import merge_objects
from specviz.audit.profiles.base import PROFILES, DraftCounters, ServerProfile
from specviz.audit.profiles.llama_cpp import LlamaCppProfile
from specviz.audit.profiles.recognition import recognize_server
from specviz.audit.profiles.sglang import SglangProfile
from specviz.audit.profiles.transformers_serve import TransformersProfile
from specviz.audit.profiles.vllm import VllmProfile
from specviz.audit.protocol.endpoint import Endpoint, HttpReply
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError
from tests.audit.server import run_server

NAMES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "transformers": "transformers serve",
    "llama-cpp-python": "llama-cpp-python",
    "generic": "an OpenAI-compatible server",
}
IDS = {"vllm", "sglang", "llama.cpp"}
PLAIN = SamplingRequest("Once upon a time", 4)


def settle_profile(server, sampling: SamplingRequest = PLAIN):
    """The settled profile of a server, and its first answer."""
    endpoint = Endpoint(server.url, timeout=10.0)
    try:
        return recognize_server(endpoint).profile.settle(endpoint, sampling)
    finally:
        endpoint.close()


@pytest.mark.parametrize(("dialect", "name"), NAMES.items())
def test_each_server_is_known_by_its_answers_and_gives_a_sample(dialect, name):
    with run_server(dialect=dialect) as server:
        profile, answer, said = settle_profile(server)
        (sample,) = answer.samples
        assert profile.name == name and not said
        assert (sample.tokens is not None) == (dialect in IDS)
        assert len(sample.tokens or sample.text.split()) == 4 or sample.stop == "stop"
        assert answer.prompt_tokens == 4


@pytest.mark.parametrize("dialect", NAMES)
def test_the_text_of_tokens_is_read_where_an_address_gives_it_and_escaped(dialect):
    with run_server(dialect=dialect) as server:
        endpoint = Endpoint(server.url, timeout=10.0)
        profile, found = recognize_server(endpoint).profile, []
        for answer in (lambda text: text, lambda text: "\x1b[31m\u202e\n" + "x" * 500, lambda text: None, lambda text: [text]):
            server.switches.detokenized = answer
            found.append(profile.fetch_text(endpoint, "", (5, 6)))
        endpoint.close()
    known = [" 5 6", "\\x1b[31m\\u202e\\n" + "x" * 193, None, None]
    assert found == (known if dialect in ("vllm", "llama.cpp") else [None] * 4)


@pytest.mark.parametrize("dialect", NAMES)
def test_a_chat_sends_messages_and_its_answer_is_read(dialect):
    with run_server(dialect=dialect) as server:
        _, answer, _ = settle_profile(server, SamplingRequest("Hello there", 4, chat=True))
        assert server.seen.bodies[-1]["messages"] == [{"role": "user", "content": "Hello there"}]
        assert server.seen.paths["/v1/chat/completions"] == 1
        assert (answer.samples[0].tokens is not None) == (dialect in {"vllm", "llama.cpp"})


@pytest.mark.parametrize("dialect", sorted(NAMES.keys() - {"generic"}))
def test_the_request_of_each_server_switches_its_default_filters_off(dialect):
    """At a temperature that makes 1,024 tokens alike, 60 draws reach more than the 40 or 50 that the defaults leave: at most 40
    different ones have a chance below 1e-9 without a filter (60 draws repeat 1.7 times on average)."""
    with run_server(dialect=dialect) as server:
        endpoint = Endpoint(server.url)
        profile = recognize_server(endpoint).profile
        hot = PLAIN.with_temperature(profile.max_temperature if profile.max_temperature > 2 else 1000.0, 1)
        seen = {
            (found.tokens or found.text)
            for seed in range(1, 61)
            for found in profile.read_answer(
                endpoint.request_json(profile.select_path(hot), profile.build_body(hot, seed))
            ).samples
        }
        endpoint.close()
        assert len(seen) > 50


def test_filters_that_are_asked_for_are_sent_in_each_servers_own_words():
    sampling = SamplingRequest("x", 4, temperature=0.7, top_k=5, top_p=0.9, min_p=0.1)
    for profile in (VllmProfile(), LlamaCppProfile(), ServerProfile()):
        body = profile.build_body(sampling, 3)
        assert (body["temperature"], body["top_k"], body["top_p"], body["min_p"], body["seed"]) == (0.7, 5, 0.9, 0.1, 3)
    assert LlamaCppProfile().build_body(sampling, 3)["samplers"] == ["temperature", "top_k", "top_p", "min_p"]
    assert SglangProfile().build_body(sampling, 3)["sampling_params"]["sampling_seed"] == 3
    config = json.loads(TransformersProfile().build_body(sampling, 3)["generation_config"])
    assert config["do_sample"] and (config["top_k"], config["top_p"], config["min_p"], config["temperature"]) == (
        5,
        0.9,
        0.1,
        0.7,
    )


def test_greedy_is_asked_of_transformers_without_sampling():
    assert not json.loads(TransformersProfile().build_body(SamplingRequest("x", 4, temperature=0.0), 3)["generation_config"])[
        "do_sample"
    ]


def test_fields_of_ones_own_win_and_those_of_a_json_string_are_added():
    assert VllmProfile().build_body(SamplingRequest("x", 4, extra={"top_k": 3}), 1)["top_k"] == 3
    for own in ({"prompt_lookup_num_tokens": 2}, '{"prompt_lookup_num_tokens": 2}'):
        config = json.loads(
            TransformersProfile().build_body(SamplingRequest("x", 4, extra={"generation_config": own}), 1)["generation_config"]
        )
        assert config["prompt_lookup_num_tokens"] == 2 and config["do_sample"] and config["top_k"] == 0
    with pytest.raises(EndpointError, match="generation_config must be a JSON object"):
        TransformersProfile().build_body(SamplingRequest("x", 4, extra={"generation_config": "[1"}), 1)
    assert merge_objects({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}) == {"a": {"b": 3, "c": 2}, "d": 4}


def test_a_field_that_a_server_refuses_is_left_out_and_said():
    with run_server(dialect="generic", refuses=("presence_penalty", "top_p")) as server:
        profile, _, said = settle_profile(server)
        assert profile.refused_fields == {"presence_penalty", "top_p"} and len(said) == 2
        assert "top_p" not in server.seen.bodies[-1] and "frequency_penalty" in server.seen.bodies[-1]


def test_a_refusal_of_anything_else_is_the_servers_own_sentence():
    with run_server(refuses=("max_tokens",)) as server, pytest.raises(EndpointError, match=r"status 422 .*max_tokens"):
        settle_profile(server)


def test_a_web_page_behind_the_address_is_a_sentence():
    with run_server(html=True) as server, pytest.raises(EndpointError, match="a web page, not JSON"):
        settle_profile(server)


@pytest.mark.parametrize(
    "answer",
    [[], "text", None, {}, {"choices": []}, {"choices": [1]}, {"choices": [{"text": 5}]}, {"choices": {"text": "a"}},
     {"choices": [{"message": {"content": None, "reasoning_content": "hm"}}]}, {"meta_info": {}}, {"content": "a", "tokens": ["a"]}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "profile", [ServerProfile(), VllmProfile(), SglangProfile(), LlamaCppProfile()], ids=lambda one: one.name
)
def test_an_answer_of_any_other_form_is_a_sentence(profile, answer):
    with pytest.raises(EndpointError) as error:
        profile.read_answer(answer)
    assert str(error.value).endswith((".", ")."))


def test_a_server_that_takes_its_answers_apart_is_explained():
    with pytest.raises(EndpointError, match="takes its answers apart"):
        ServerProfile().read_answer({"choices": [{"message": {"content": "yes", "reasoning_content": "hm"}}]})


def test_the_drafting_counters_of_each_server_are_read():
    with run_server(dialect="vllm", drafts=True) as server:
        endpoint = Endpoint(server.url)
        profile, before = recognize_server(endpoint).profile, VllmProfile().read_draft_counters(endpoint)
        endpoint.request_json("/completions", profile.build_body(PLAIN, 1))
        after = profile.read_draft_counters(endpoint)
        assert (before.drafted, before.accepted) == (0.0, 0.0) and (after.drafted, after.accepted) == (2.0, 1.0)
        endpoint.close()
    for dialect in ("llama.cpp", "sglang"):
        with run_server(dialect=dialect, drafts=True) as server:
            assert settle_profile(server)[1].drafted == 2
        with run_server(dialect=dialect) as server:
            assert settle_profile(server)[1].drafted == 0


def test_counters_by_position_are_summed_over_engines_and_subtracted():
    lines = (
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 3.0',
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 5.0',
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 4.0',
    )
    kind = "# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter\n"

    class Fixed:
        def send(self, *_: object, **__: object) -> HttpReply:
            return HttpReply(200, {}, (kind + "\n".join(lines) + "\n").encode(), 0.0)

    found = VllmProfile().read_draft_counters(Fixed())
    assert found.accepted_by_position == (9.0, 3.0)
    assert (found - DraftCounters(0.0, 0.0, 0.0, (1.0,))).accepted_by_position == (8.0, 3.0)


def test_what_a_server_says_of_itself_is_stable_and_holds_no_key():
    with run_server(dialect="sglang") as server:
        endpoint = Endpoint(server.url)
        first, second = recognize_server(endpoint).about, recognize_server(endpoint).about
        endpoint.close()
    assert first == second and first["version"] == "0.32.0"
    assert "secret" not in json.dumps(first) and "created" not in json.dumps(first)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"prompt": ""}, "prompt"), ({"max_tokens": 0}, "max-tokens"), ({"max_tokens": 65}, "max-tokens"), ({"temperature": -1.0}, "temperature"),
     ({"top_k": 0}, "top-k"), ({"top_p": 1.5}, "top-p"), ({"min_p": 0.0}, "min-p"), ({"prompt": "x" * 20_001}, "The prompt is too long")],
)  # fmt: skip
def test_a_request_out_of_range_is_refused(fields, name):
    with pytest.raises(SettingsError, match=f"^{name}"):
        SamplingRequest(**{"prompt": "x", "max_tokens": 4} | fields)


PLUGIN = """
from specviz.audit.profiles.base import ServerProfile, register_server_profile

@register_server_profile("tiny")
class TinyProfile(ServerProfile):
    name = "tiny server"

    @classmethod
    def recognize(cls, facts):
        return facts.version if facts.version.get("version") == "0.32.0" else None
"""


def test_a_profile_of_another_package_is_one_file_and_one_entry_point(tmp_path, monkeypatch):
    """It is tried before the project's own, so a server that looks like vLLM can be told apart."""
    (tmp_path / "tiny_profile.py").write_text(PLUGIN)
    metadata = tmp_path / "tiny-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[specviz.server_profiles]\ntiny = tiny_profile\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with run_server(dialect="vllm") as server:
            endpoint = Endpoint(server.url)
            assert recognize_server(endpoint).name == "tiny server 0.32.0"
            endpoint.close()
    finally:
        PROFILES._entries.pop("tiny", None)
        sys.modules.pop("tiny_profile", None)
