"""Streams are read as they come, and a server that fails is a sentence with what was seen of it."""

from __future__ import annotations

import pytest

from specviz.audit.pays.load import ON, Arm, run_block
from specviz.audit.pays.streams import StreamRequest, stream_answer
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.profiles.llama_cpp import LlamaCppProfile
from specviz.audit.protocol.endpoint import Endpoint
from specviz.errors import EndpointError
from tests.audit.pays.stream_server import ROUND, run_stream_server

SHORT = StreamRequest(model="m", max_new_tokens=21, temperature=0.5, extra={"top_k": 5})


def read_one(server, request=SHORT, prompt="Once", profile=None):
    endpoint = Endpoint(server.url)
    try:
        return stream_answer(endpoint, profile or ServerProfile(), request, prompt)
    finally:
        endpoint.close()


def test_text_counts_and_times_of_a_stream_are_read():
    with run_stream_server(rounds=ROUND, drafts=True) as server:
        answer = read_one(server, profile=LlamaCppProfile())
    assert server.seen.bodies == [
        {"model": "m", "prompt": "Once", "max_tokens": 21, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5, "top_k": 5}
    ]  # fmt: skip
    assert answer.tokens == len(answer.arrivals) == 21 and answer.finish == "length"
    assert answer.text == "".join(f" 1.{place}" for place in range(21)) and answer.characters == len(answer.text)
    assert (answer.drafted, answer.accepted) == (20, 10)  # ten rounds of two tokens, of which one each was a draft token
    assert list(answer.arrivals) == sorted(answer.arrivals) and answer.began < answer.arrivals[0]


def test_a_chat_streams_its_thoughts_too():
    with run_stream_server() as server:
        answer = read_one(server, prompt=({"role": "user", "content": "Hi"},))
    assert server.seen.paths == ["/v1/chat/completions"] and server.seen.bodies[0]["messages"] == [
        {"role": "user", "content": "Hi"}
    ]
    assert answer.tokens == 21


@pytest.mark.parametrize(
    ("switches", "sentence"),
    (
        ({"streams": False}, "does not stream its answers"),
        ({"garbage": True}, "streamed something that is no JSON object"),
        ({"empty": True}, "without any text"),
        ({"cut_after": 5}, "broke its stream in the middle of an answer"),
        ({"error_after": 5}, "stopped in the middle of an answer .*out of memory"),
        ({"fails": lambda number: 400}, r"answered with status 400 \(busy\)"),
        ({"fails": lambda number: 429}, "answered with status 429 .*times in a row"),
    ),
)
def test_each_fault_is_a_sentence(switches, sentence, monkeypatch):
    monkeypatch.setattr("specviz.audit.protocol.endpoint.FIRST_BACKOFF", 0.001)
    with run_stream_server(**switches) as server, pytest.raises(EndpointError, match=sentence):
        read_one(server)


def test_a_server_that_is_full_is_asked_again_before_its_stream_begins():
    with run_stream_server(fails=lambda number: 429 if number == 1 else 0) as server:
        assert read_one(server).tokens == 21 and len(server.seen.bodies) == 2


def test_all_measured_answers_of_a_block_are_written_under_full_load():
    """Three users, four prompts: the two that find no prompt go on with others, which are cancelled when the last one is done."""
    with run_stream_server(length=30) as server:
        arm = Arm(ON, Endpoint(server.url, concurrency=3), ServerProfile(), SHORT)
        block = run_block(arm, ["a", "b", "c", "d"], 3, 0)
        arm.endpoint.close()
    assert len(block.answers) == 4 and not block.errors and server.seen.most >= 3
    assert {body["prompt"] for body in server.seen.bodies} == {"a", "b", "c", "d"} and len(server.seen.bodies) > 4


def test_a_block_keeps_what_was_answered_beside_what_failed():
    with run_stream_server(fails=lambda number: 400 if number == 2 else 0) as server:
        arm = Arm(ON, Endpoint(server.url), ServerProfile(), SHORT)
        block = run_block(arm, ["a", "b", "c"], 1, 0)
        assert len(block.answers) == 2 and len(block.errors) == 1 and "status 400" in block.errors[0]
        arm.endpoint.close()
    with run_stream_server(fails=lambda number: 400) as server:
        arm = Arm(ON, Endpoint(server.url), ServerProfile(), SHORT)
        with pytest.raises(EndpointError, match="status 400"):
            run_block(arm, ["a"], 2, 0)
        arm.endpoint.close()
