"""Servers that misbehave under an audit or a measurement: a sentence each, what was collected is kept, and the verdict says what it does not cover.

BAD has the audit's cases. 40 samples of each server are too few for a verdict, which is not what these tests are about. Elsewhere are an audit's
server that stops in the middle (test_command.py), texts that are streamed in one piece (tests/evidence/sampling/test_whole_texts.py), and what a measurement
says of no usage, repeated answers, 429 and an end in the middle (pays/test_command.py).
"""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.audit.pays.estimate import estimate_rounds, estimate_token_seconds
from specviz.audit.pays.load import OFF, ON, Block
from specviz.audit.pays.report import list_remarks
from specviz.audit.pays.streams import StreamedAnswer
from specviz.audit.protocol import endpoint
from tests.audit.pays.stream_server import ROUND, run_stream_server
from tests.audit.server import run_server

SMALL = ("--prompt", "a b", "--max-new-tokens", "3", "--samples", "40", "--min-tv", "0.5")

BAD = {  # name -> switches of the first server, further options, sentences in the report
    "text without ids and usage": ({"dialect": "generic", "usage": "none"}, (), "characters", "Whether 40 samples have as many tokens as were asked for could not be seen"),
    "refuses seeds": ({"dialect": "generic", "refuses": ("seed",)}, (), "0 of 3 seeds gave the same text twice"),
    "ignores seeds": ({"drafts": True, "ignores_seeds": True}, (), "0 of 3 seeds gave the same text twice"),
    "refuses n": ({"drafts": True, "refuses": ("n",)}, ("--choices", "4"), "Two samples in one request are refused"),
    "answers 429 beside other users": ({"drafts": True, "others": 50, "fails": lambda number: 429 if number % 7 == 0 else 0}, (),
                                       "went out again with the same seed", "so others use it"),
    "a cache of answers": ({"drafts": True, "caches": True}, (), "a cache of answers"),
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("short_preflight")


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", BAD)
def test_an_audit_of_it_says_so_and_keeps_its_samples(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(endpoint, "MAX_BACKOFF", 0.001)
    switches, options, *sentences = BAD[name]
    with run_server(**switches) as bad, run_server(dialect=switches.get("dialect", "vllm")) as good:
        code = main(["audit", bad.url, "--against", good.url, *SMALL, *options, "--out", str(tmp_path / "a")])
    said = capsys.readouterr()
    assert code == 3, said.err
    assert all(sentence in said.out + said.err for sentence in sentences), said.out + said.err
    assert len((tmp_path / "a" / "samples.jsonl").read_text().splitlines()) == 40
    checks = json.loads((tmp_path / "a" / "report.json").read_text())["audit"]["servers"][0]["traps"]
    assert all(check["sentence"] for check in checks)


def test_a_clean_server_has_none_of_these_sentences(tmp_path, capsys):
    """One that changes its speed is no other case for an audit: two servers are asked in turns, which is said."""
    with run_server(drafts=True, slow=lambda number: 0.01 * (number > 60)) as one, run_server() as two:
        assert main(["audit", one.url, "--against", two.url, *SMALL, "--out", str(tmp_path / "a")]) == 3
    said = capsys.readouterr()
    assert not any(sentence in said.out + said.err for _, _, *sentences in BAD.values() for sentence in sentences)
    assert "were asked in turns" in said.out


def test_a_stream_of_several_tokens_a_chunk_and_without_counts_is_measured_and_said(tmp_path, capsys):
    with (
        run_stream_server(rounds=ROUND, one_piece=True, counts=False, length=20) as on,
        run_stream_server(counts=False, length=20) as off,
    ):
        words = ["--turns", "3", "--prompts-per-user", "1", "--concurrency", "1", "--max-new-tokens", "20"]
        assert main(["pays", on.url, "--without", off.url, *words, "--out", str(tmp_path / "a")]) == 0
    assert "rates are in characters" in capsys.readouterr().out
    assert len((tmp_path / "a" / "blocks.jsonl").read_text().splitlines()) == 1 + 3 * 2


def test_answers_that_arrive_at_once_tell_of_no_times():
    """Pieces of two tokens, or of one without speculation, within a millisecond after half a second; or spread over it."""

    def block(arm: str, spread: float) -> Block:
        arrivals = tuple(0.5 + spread * piece for piece in range(6))
        return Block(arm, 1, 0, 0.0, (StreamedAnswer(0.0, arrivals, 60, 12 if arm == ON else 6, "length", None, None, "text"),))

    for spread, is_held_back in ((0.0001, True), (0.1, False)):
        blocks = [block(ON, spread), block(OFF, spread)]
        (rounds,) = estimate_rounds(blocks)
        assert rounds.source == "pieces" and (rounds.seconds_per_round is None) is is_held_back
        assert (estimate_token_seconds(blocks) is None) is is_held_back
        assert any("arrive at once" in remark for remark in list_remarks(blocks, [rounds], {}, "mine")) is is_held_back


def test_a_change_of_speed_while_it_was_measured_is_said():
    def block(turn: int, seconds: float, arm: str) -> Block:
        return Block(
            arm,
            1,
            turn,
            0.0,
            (StreamedAnswer(0.0, (seconds / 2, seconds), 100, 20, "length", 8 if arm == ON else 0, 4, f"{turn}"),),
        )

    steady = [block(turn, 1.0, arm) for turn in range(6) for arm in (ON, OFF)]
    slower = [block(turn, 1.0 + 0.2 * turn, arm) for turn in range(6) for arm in (ON, OFF)]
    assert "changed its speed" in " ".join(list_remarks(slower, [], {}, "2 of 'mine.txt'"))
    assert "changed its speed" not in " ".join(list_remarks(steady, [], {}, "2 of 'mine.txt'"))
