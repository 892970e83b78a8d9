"""``pays`` from end to end: its sentence, its exit codes, what it leaves behind, and what it refuses. No claim here is about a duration."""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.audit.pays import load
from specviz.audit.pays.load import OFF, ON, Block
from specviz.audit.pays.record import SCHEMA
from specviz.audit.pays.report import list_remarks
from specviz.audit.pays.streams import StreamedAnswer
from specviz.records import read_json
from tests.audit.pays.stream_server import ROUND, run_stream_server

SMALL = ("--concurrency", "1,2", "--turns", "2", "--prompts-per-user", "1", "--max-new-tokens", "24")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "times"


def run_pays(capsys, *words):
    code = main(["pays", *map(str, words)])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_two_servers_are_compared_and_the_measurement_goes_on_where_it_stopped(capsys, folder, tmp_path):
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"prompt": "Once"}\n{"prompt": "Twice"}\n')
    with run_stream_server(rounds=ROUND, drafts=True) as on, run_stream_server() as off:
        words = (
            on.url,
            "--without",
            off.url,
            *SMALL,
            "--prompts",
            prompts,
            "--prometheus",
            tmp_path / "pays.prom",
            "--out",
            folder,
        )
        code, out, _ = run_pays(capsys, *words)
        assert code == 0 and "speculation" in out.splitlines()[0].lower()
        asked = len(on.seen.bodies), len(off.seen.bodies)
        assert asked[0] > 0 and asked[0] >= asked[1] > 0 and {body["prompt"] for body in on.seen.bodies} == {"Once", "Twice"}
        lines = (folder / "blocks.jsonl").read_text().splitlines()
        assert len(lines) == 1 + 2 * 2 * 2
        # Stopped in the middle of a line: the blocks before it are not measured again.
        (folder / "blocks.jsonl").write_text("\n".join([*lines[:7], lines[7][:40]]))
        code, again, errors = run_pays(capsys, *words, "--format", "json")
        assert code == 0 and "6 blocks are there already" in errors
        assert (folder / "blocks.jsonl").read_text().splitlines()[:7] == lines[:7]
        assert len(off.seen.bodies) + len(on.seen.bodies) < 2 * sum(asked)
        out_of_all = run_pays(capsys, *words)[1]
        assert run_pays(capsys, *words, "--temperature", "0")[0] == 2, "another measurement"
    report = json.loads(again)
    assert [level["users"] for level in report["levels"]] == [1, 2] and report["unit"] == "tokens/s"
    assert report["rounds"][0]["source"] == "counters"  # 11 rounds after the prompt's pass
    assert report["rounds"][0]["tokens_per_round"]["value"] == pytest.approx(23 / 11)
    assert read_json(folder / "report.json", "report")["schema"] == SCHEMA.tag
    assert 'specviz_speculation_speedup{users="2",bound="low"}' in (tmp_path / "pays.prom").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["blocks.jsonl", "report.json", "report.txt"]
    assert (folder / "report.txt").read_text() == out_of_all


def test_one_server_with_a_field_that_switches_speculation_off(capsys, folder):
    with run_stream_server(rounds=ROUND, off_by_field="n_max") as server:
        code, out, _ = run_pays(capsys, server.url, "--without-body", '{"n_max": 0}', *SMALL, "--out", folder)
        assert code == 0 and {body.get("n_max") for body in server.seen.bodies} == {None, 0}
    assert "the default set of 16" in out


def test_a_threshold_decides_the_exit_code():
    from specviz.audit.pays.report import choose_exit_code

    def report(*bounds):
        return {"levels": [{"speedup": dict(zip(("low", "high"), pair, strict=True)) if pair else None} for pair in bounds]}

    assert choose_exit_code(report((1.2, 1.4), (1.1, 1.2)), 1.1, 3) == 0
    assert choose_exit_code(report((1.2, 1.4), (0.9, 1.05)), 1.1, 3) == 1
    assert choose_exit_code(report((1.2, 1.4), (1.0, 1.2)), 1.1, 3) == 3
    assert choose_exit_code(report(None), 1.1, 3) == 3
    assert choose_exit_code(report((0.5, 0.6)), None, 3) == 0


def test_one_server_alone_gives_rounds_and_no_verdict(capsys, folder):
    with run_stream_server(rounds=(3,), one_piece=True) as server:
        code, out, _ = run_pays(capsys, server.url, *SMALL[2:], "--concurrency", "1", "--at-least", "1.1", "--out", folder)
    assert code == 3 and "Only one server was measured: a round writes" in out


def test_what_limits_the_numbers_is_said(capsys, folder):
    """No counts, answers that repeat, a prompt that fails, end tokens that are ignored."""
    fails = {4: 400, 5: 429}
    with (
        run_stream_server(counts=False, text=lambda number, place: f" word{place}", fails=lambda n: fails.get(n, 0)) as on,
        run_stream_server() as off,
    ):
        words = (on.url, "--without", off.url, "--turns", "5", "--concurrency", "1", "--max-new-tokens", "24", "--out", folder)
        code, out, _ = run_pays(capsys, *words, "--body", '{"ignore_eos": true}')
    assert code == 0
    for sentence in (
        "rates are in characters",
        "1 prompt got no answer",
        "The server with speculation on refused or broke 1 request",
        "The requests set ignore_eos",
        "repeat another one word for word",
        "characters long with speculation",
    ):
        assert sentence in out, sentence


def test_whether_speculation_was_at_work_is_said():
    def block(arm, drafted):
        return Block(arm, 1, 0, 0.0, (StreamedAnswer(0.0, (1.0, 2.0), 8, 2, "stop", drafted),))

    assert "is not known" in " ".join(list_remarks([block(ON, None)], [], {}, "2 of 'mine.txt'"))
    assert "was not seen at work" in " ".join(list_remarks([block(ON, 0)], [], {}, "2 of 'mine.txt'"))
    assert list_remarks([block(ON, 3), block(OFF, 0)], [], {}, "2 of 'mine.txt'") == []
    assert "drafted tokens too" in " ".join(list_remarks([block(ON, 3), block(OFF, 3)], [], {}, "2 of 'mine.txt'"))


def test_a_server_that_stops_answering_leaves_what_was_measured(capsys, folder):
    with run_stream_server(fails=lambda number: 400 if number > 9 else 0) as on, run_stream_server() as off:
        words = (on.url, "--without", off.url, "--turns", "6", "--concurrency", "1", "--max-new-tokens", "8", "--out", folder)
        code, out, errors = run_pays(capsys, *words)
    assert code == 6 and "The report covers what was measured before" in errors and "times as fast" in out
    assert "The measurement ended early. Turns that were measured: " in out and "covers the true one with probability" in out


def test_an_interrupt_reports_what_was_measured(capsys, folder, tmp_path, monkeypatch):
    """The third block is not ended: one turn is there. Before the first block ends there is nothing to report."""
    junit = tmp_path / "pays.xml"
    junit.write_text("<testsuite tests='1'/>")  # of an earlier run
    run_block, left = load.run_block, iter((True, True, True, False))  # the first is a warm-up of each arm

    def run_some(*given):
        if not next(left, False):
            raise KeyboardInterrupt
        return run_block(*given)

    monkeypatch.setattr(load, "run_block", run_some)
    with run_stream_server(rounds=ROUND, drafts=True) as on, run_stream_server() as off:
        words = (on.url, "--without", off.url, "--turns", "2", "--concurrency", "1", "--max-new-tokens", "8", "--out", folder)
        code, out, errors = run_pays(capsys, *words, "--junit", junit)
        assert code == 130 and f"what was measured is kept in '{folder}'" in errors and "0 of 2 with one user" in out
        assert "did not end" in junit.read_text()
        code, out, errors = run_pays(capsys, *words[:-1], tmp_path / "other")
        assert code == 130 and "no turn was measured to its end, so there are no numbers" in errors and not out


@pytest.mark.parametrize(
    ("words", "sentence"),
    (
        (("--model", "big"), "without-model must be one that the server lists (\"big-off\"), got 'big'"),
        ((), 'model must be one that the server lists ("big"), got nothing'),
        (
            ("--model", "big", "--without-model", "gib"),
            "without-model must be one that the server lists (\"big-off\"), got 'gib'",
        ),
    ),
    ids=str,
)
def test_a_model_that_a_server_does_not_have_is_a_wrong_setting(capsys, folder, words, sentence):
    with run_stream_server(model="big") as on, run_stream_server(model="big-off") as off:
        code, out, errors = run_pays(capsys, on.url, "--without", off.url, *SMALL, *words, "--out", folder)
    assert code == 2 and sentence in errors and not out


@pytest.mark.parametrize(
    ("words", "sentence"),
    (
        (("--concurrency", "2,1"), "ascending"),
        (("--concurrency", "1,x"), "whole numbers"),
        (("--concurrency", "0"), "1 to 256"),
        (("--body", '{"stream": false}'), "other options"),
        (("--body", "[]"), "a JSON object"),
        (("--without-body", "{}"), "another server"),
        (("--without-model", "m"), "given with --without"),
        (("--temperature", "3"), "from 0"),
        (("--prompts", "nowhere.txt"), "The prompts file 'nowhere.txt' could not be read (No such file or directory)."),
        (("--at-least", "0"), "above 0"),
        (("--turns", "1"), "2 to 200"),
    ),
)
def test_bad_input_is_a_sentence_before_the_first_request(capsys, words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, errors = run_pays(capsys, "http://127.0.0.1:9/v1", *words)
    assert code == 2 and sentence in errors and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "sentence"),
    (
        ("", "0 prompts"),
        ('{"prompt": 3}', "Line 1 of 'p.jsonl' has neither a prompt nor messages."),
        ('{"messages": [{"role": "king", "content": "x"}]}', "a role is one of"),
        ('{"prompt": "a"}\n{"messages": [{"role": "user", "content": "x"}]}', "a file may hold only one of the two"),
        (b"\xff\xfe", "UTF-8"),
    ),
)
def test_a_file_of_prompts_that_cannot_be_used_is_a_sentence(capsys, content, sentence, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, errors = run_pays(capsys, "http://127.0.0.1:9/v1", "--prompts", path)
    assert code == 2 and sentence in errors


def test_the_key_goes_to_the_first_server_alone(capsys, folder, monkeypatch):
    monkeypatch.setenv("KEY_OF_TESTS", "secret")
    with run_stream_server() as on, run_stream_server() as off:
        run_pays(capsys, on.url, "--without", off.url, "--api-key-variable", "KEY_OF_TESTS", *SMALL, "--out", folder)
    assert set(on.seen.keys) == {"Bearer secret"} and set(off.seen.keys) == {""}
    assert not any("secret" in path.read_text() for path in folder.iterdir())
