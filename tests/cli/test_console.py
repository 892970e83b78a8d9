"""The console that a command runs in: encodings without a character, closed streams, an interrupt during imports, misspelled options."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace

import pytest

from specviz.__main__ import main, outlive_readers, prepare_streams
from specviz.cli.common.output import write_report
from specviz.proposers import source_texts
from tests.helpers.fresh_process import run_fresh
from tests.helpers.tiny_pairs import build_tiny_model
from tests.models.kinds import change_json


@pytest.fixture
def pair_words(pair_folders) -> tuple[str, ...]:
    target, draft = map(str, pair_folders)
    return ("--target", target, "--draft", draft, "--device", "cpu")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
def test_a_character_that_the_encoding_lacks_is_escaped(monkeypatch, encoding):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    prepare_streams()
    print("漢 and é", flush=True)
    assert raw.getvalue().startswith(b"\\u6f22 and ")


def test_a_closed_stream_takes_nothing_and_the_command_ends_well(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["--version"]) == 0
    sys.stdout.close()
    sys.stderr.close()


def test_a_stream_without_a_reader_takes_everything_and_so_do_child_processes(monkeypatch):
    """Before, and after a reader has gone; a child writes to the descriptor itself. Unbuffered as with ``python -u``, too."""
    for more in ({}, {"write_through": True}):
        reading, writing = os.pipe()
        with open(writing, "wb", buffering=0) as raw, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8", **more))
            outlive_readers()
            print("heard", flush=True)
            assert os.read(reading, 100) == b"heard\n"
            os.close(reading)
            print("unheard" * 10**5, flush=True)
            subprocess.run(["echo", "unheard"], stdout=writing, check=True)
            print("unheard", flush=True)


def test_an_interrupt_while_libraries_are_imported_is_a_line():
    code = (
        "import sys, builtins\n"
        "usual = builtins.__import__\n"
        "def interrupt(name, *more):\n"
        "    if name.startswith('specviz.cli'): raise KeyboardInterrupt\n"
        "    return usual(name, *more)\n"
        "builtins.__import__ = interrupt\n"
        "try:\n"
        "    import specviz.__main__\n"
        "except SystemExit as left:\n"
        "    print('left with', left.code)\n"
    )
    assert "left with 130" in run_fresh(code).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max_new_tokens", "4"), "did you mean --max-new-tokens?"),
        (("--num_speculative_tokens", "4"), "here it is --gamma"),
        (("--draft-model", "a/b"), "here it is --draft"),
        (("--assistant_model=a/b",), "here it is --draft"),
        (("--max-tokens", "4"), "here it is --max-new-tokens"),
        (("--dtype", "bf16"), "(did you mean bfloat16?)"),
        (("--dtype", "fp16"), "(did you mean float16?)"),
        (("--proposer", "n-gram"), "(did you mean ngram?)"),
        (("--engine", "compile"), "(did you mean compiled?)"),
        (("--temperature", "0,8"), "temperature must be a number from 0 (greedy) to 5, got '0,8'"),
        (("--max-new-tokens", "1e5"), "max-new-tokens must be a whole number from 1 to 4096, got '1e5'"),
        (("--max-new-tokens", "20,000"), "got '20,000'"),
        (("--seed", "7.0"), "seed must be"),
        (("--format", "json", "--color", "always"), "left out with --format json"),
        (("--target", "", "--draft", "a/b"), "target must be a folder, a GGUF file or a hub name (owner/model), got nothing"),
        (("--target", "a|b", "--draft", "a/b"), "target must be a path without |"),
        (("--target", "gtp2", "--draft", "a/b"), "A hub name begins with its owner."),
        (("--tree", "3-2-1"), "tree must be left out with proposer draft"),
    ],
    ids=lambda value: value[0] + value[-1] if isinstance(value, tuple) else "",
)
def test_a_misspelled_option_or_value_gets_a_sentence_that_names_the_right_one(capsys, words, said):
    assert main(["decode", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1


def test_a_mode_of_assisted_generation_is_refused(capsys):
    assert main(["verify", "--decoder", "assisted", "--mode", "engine"]) == 2
    assert "mode must be left out with decoder assisted" in capsys.readouterr().err


def test_a_byte_order_mark_is_no_part_of_a_prompt_or_a_text(capsys, pair_words, tmp_path, monkeypatch):
    monkeypatch.setattr(source_texts, "TEXTS", dict(source_texts.TEXTS))
    words = ["decode", *pair_words, "--max-new-tokens", "6", "--temperature", "0"]
    file = tmp_path / "book.txt"
    written = []
    for mark in ("", "\ufeff"):
        file.write_text(mark + "Once upon a time there was a rabbit.", encoding="utf-8")
        assert main([*words, "--prompt", f"{mark}Once upon", "--proposer", "retrieval", "--source-text", str(file)]) == 0
        written.append(capsys.readouterr().out)
    assert written[0] == written[1]


@pytest.mark.parametrize(("reason", "asked", "context"), [("length", 4, 128), ("context", 60, 32), ("stop", 60, 128)])
def test_decode_says_why_a_text_ends(capsys, pair_folders, tmp_path, reason, asked, context):
    """In the words of servers: as many tokens as were asked for, a full context, the fifth token of the text as an end token."""
    target = shutil.copytree(pair_folders[0], tmp_path / "target")
    build_tiny_model(300, context=context).save_pretrained(target)
    words = ["--draft", str(pair_folders[1]), "--temperature", "0", "--prompt", "Once upon a time"]
    if reason == "stop":
        assert main(["decode", "--target", str(target), *words, "--max-new-tokens", "9", "--format", "json"]) == 0
        fifth = json.loads(capsys.readouterr().out)["output_ids"][4]
        target = shutil.copytree(target, tmp_path / "other")
        change_json(target, "generation_config.json", eos_token_id=fifth)
    assert main(["decode", "--target", str(target), *words, "--max-new-tokens", str(asked)]) == 0
    assert f"finish reason: {reason} (" in capsys.readouterr().out


def test_the_report_of_another_run_is_not_replaced_without_a_word(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("specviz.export.report.write_certificate", lambda folder, record: "")
    record = {"decoder": "speculative", "seed": 7, "settings": {"gamma": 4}}
    (tmp_path / "report.json").write_text('{"decoder": "R5", "seed": 3, "settings": {"gamma": 4}}')
    write_report(record, Namespace(out=tmp_path))
    assert "held the report of another run (R5, seed 3)" in capsys.readouterr().err
    write_report({"decoder": "R5", "seed": 3, "settings": {"gamma": 4}}, Namespace(out=tmp_path))
    assert capsys.readouterr().err == ""
