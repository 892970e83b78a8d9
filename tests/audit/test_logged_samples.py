"""Logged samples with different prompts are tested without a server.

300 texts of 12 tokens detect a gap of 0.06 between distribution functions with power 99%; an exact log is rejected once in 1,000. The texts
are fixed by their seed.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch

from specviz.__main__ import InterruptHandler, main
from specviz.audit.logged_samples import LoggedText, arrange_texts
from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError
from specviz.models.pairs import loading

PROMPTS = ("Once upon", "the river", "the old woman ran by the house of the river and the", "a", "no, no, no")
EACH, LENGTH = 60, 12


@pytest.fixture
def local_pair(pair, pair_folders, monkeypatch):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pair)
    return ("--target", str(pair_folders[0]), "--draft", str(pair_folders[1]))


def draw_texts(pair, prompt: str, temperature: float, late_temperature: float | None = None) -> list[dict]:
    """Texts of the target as a log has them. late_temperature: of the tokens from the seventh on, a server's mistake."""
    generator, ids = torch.Generator().manual_seed(len(prompt)), torch.tensor([pair.encode(prompt)] * EACH)
    begin = ids.shape[1]
    with torch.no_grad():
        for place in range(LENGTH):
            heat = temperature if late_temperature is None or place < 6 else late_temperature
            probs = (pair.target(ids).logits[:, -1].double() / heat).softmax(-1)
            ids = torch.cat((ids, torch.multinomial(probs, 1, generator=generator)), 1)
    lines = []
    for row in ids[:, begin:].tolist():
        ends = [place for place, token in enumerate(row) if token in pair.eos_token_ids]
        tokens = row[: ends[0]] if ends else row  # the end token itself is left out, as servers do
        settings = {"temperature": temperature, "max_tokens": LENGTH}
        lines.append({"prompt": prompt, "tokens": tokens, "stop": "stop" if ends else "length", "settings": settings})
    return [line for line in lines if line["tokens"]]


def write_log(path, lines) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def exact_lines(pair) -> list[dict]:
    return [line for number, prompt in enumerate(PROMPTS) for line in draw_texts(pair, prompt, (1.0, 0.7)[number % 2])]


def test_a_log_of_an_exact_server_is_consistent_and_lines_that_cannot_be_tested_are_said(
    exact_lines, local_pair, tmp_path, capsys
):
    one = exact_lines[0]
    bad = [
        "{",
        one | {"tokens": [10**6]},
        {"prompt": "a", "text": " b", "stop": "length"},
        one | {"settings": {"temperature": 0.0}},
        one | {"settings": {"temperature": 1.0, "top_p": 0.9}},
        one | {"settings": {"temperature": 1.0, "repetition_penalty": 1.1}},
        exact_lines[3] | {"settings": {"temperature": 1.0, "seed": 5}},
        exact_lines[3] | {"settings": {"temperature": 1.0, "seed": 5}},
    ]
    log = write_log(tmp_path / "log.jsonl", [*(line for place, line in enumerate(exact_lines) if place != 3), *bad])
    words = [
        "audit",
        "--log",
        log,
        *local_pair,
        "--min-tv",
        "0.1",
        "--junit",
        str(tmp_path / "junit.xml"),
        "--out",
        str(tmp_path / "a"),
    ]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "Consistent with the target's distribution" in said.out and "of 5 prompts" in said.out
    for reason in (
        "is not valid JSON", "outside the vocabulary", "text without token ids", "greedy text tests nothing", "sampled with top_p",
        "sampled with repetition_penalty", "the same seed and text",
    ):  # fmt: skip
        assert reason in said.err and reason in said.out, reason
    assert "write the same text. Log the ids. 1 line left out" in said.out, "a sentence for each reason"
    record = json.loads((tmp_path / "a" / "report.json").read_text())
    assert main(["check", str(tmp_path / "a" / "report.json"), "--no-redraw"]) == 4 and record["n"] == len(exact_lines)
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()


def test_the_token_that_ended_a_text_is_added_where_it_is_known(pair):
    (end,) = pair.eos_token_ids
    texts = [LoggedText(1, (5, 6), "stop"), LoggedText(2, (5, 6), "length"), LoggedText(3, (5, end), "stop")]
    assert arrange_texts(texts, pair, 3).tolist() == [[5, 6, end], [5, 6, NONE], [5, end, NONE]]
    with pytest.raises(EvidenceError, match="Line 1 ended by itself, and its last token is missing: this model has 2 tokens"):
        arrange_texts(texts, replace(pair, eos_token_ids=frozenset({end, 1})), 3)


def test_a_fault_that_begins_late_is_rejected(pair, local_pair, tmp_path, capsys):
    lines = [line for prompt in PROMPTS for line in draw_texts(pair, prompt, 1.0, late_temperature=0.4)]
    assert main(["audit", "--log", write_log(tmp_path / "log.jsonl", lines), *local_pair, "--out", str(tmp_path / "a")]) == 1
    said, record = capsys.readouterr().out, json.loads((tmp_path / "a" / "report.json").read_text())
    tests = record["answers"][0]["tests"]
    assert (
        "Rejected: " in said
        and f"The 6 smallest of {len(tests)} p-values:" in said
        and said.count("corrected: ") == 6 < len(tests)
    )
    assert f"To run it again: specviz audit --log {tmp_path / 'log.jsonl'}" in said


def test_readers_that_go_away_change_no_verdict_and_no_file(pair, local_pair, tmp_path, monkeypatch):
    """As ``2>&1 | head -1`` does to a rejection, whose exit code was 0 and whose JUnit said that the audit did not end."""
    lines = [line for prompt in PROMPTS for line in draw_texts(pair, prompt, 1.0, late_temperature=0.4)]
    junit, words = tmp_path / "junit.xml", ["--log", write_log(tmp_path / "log.jsonl", lines), *local_pair]
    monkeypatch.setattr(sys, "argv", ["specviz", "audit", *words, "--junit", str(junit), "--out", str(tmp_path / "a")])
    monkeypatch.setattr(InterruptHandler, "install", lambda handler: None)
    with ExitStack() as streams, monkeypatch.context() as patched:
        for name in ("stdout", "stderr"):
            reading, writing = os.pipe()
            patched.setattr(sys, name, streams.enter_context(open(writing, "w")))
            os.close(reading)
        code = main()
    report = (tmp_path / "a" / "report.txt").read_text()
    assert code == 1 and report.startswith("Rejected: ") and 'failures="1" errors="0"' in junit.read_text()


def test_too_few_samples_copies_and_a_log_without_reference_have_their_own_answers(exact_lines, local_pair, tmp_path, capsys):
    few = write_log(tmp_path / "few.jsonl", exact_lines[:30])
    assert main(["audit", "--log", few, *local_pair, "--out", str(tmp_path / "a")]) == 3
    assert "Too few samples" in capsys.readouterr().out
    copied = write_log(
        tmp_path / "copied.jsonl", [*exact_lines[:30], max(exact_lines[:30], key=lambda line: len(line["tokens"]))]
    )
    for words, sentence in (
        (["--log", copied, *local_pair], "hold the same text, which is no chance"),
        (["--log", str(tmp_path / "no.jsonl"), *local_pair], "could not be read"),
        (["--log", write_log(tmp_path / "empty.jsonl", ["{}"]), *local_pair], "holds no line that can be tested"),
        (["--log", few, "--against", "http://b"], "--log needs local weights"),
        (["http://a", "--log", few, *local_pair], "in its place"),
        ([*local_pair], "or --log FILE in its place"),
    ):
        assert main(["audit", *words, "--out", str(tmp_path / "b")]) == 2
        assert sentence in capsys.readouterr().err, sentence
    assert not (tmp_path / "b").exists()
