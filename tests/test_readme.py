"""The README is short, its links, pictures, paths and commands exist, and its Python example runs."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from specviz.__main__ import COMMANDS
from specviz.figures.pages_and_glossary import PAGES
from tests.helpers.tiny_pairs import TEXT

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""
LONGEST = 150  # lines


def find_code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def list_commands() -> list[list[str]]:
    """Words of every ``specviz`` command in the code blocks and in the text, without comments. "." reads a file into the shell."""
    lines = [line.split("#")[0] for block in find_code_blocks("sh") for line in block.splitlines()]
    lines += re.findall(r"`((?:specviz|verify|decode|bench|plan|check) [^`]*)`", README)
    words = [re.sub(r'"[^"]*"', "TEXT", line).split() for line in lines]
    return [line[1:] if line[0] == "specviz" else line for line in words if line and line[0] not in ("make", ".")]


def test_it_is_short():
    assert 0 < len(README.splitlines()) <= LONGEST


def test_nothing_is_left_to_be_filled_in():
    assert "@@" not in README
    assert "TODO" not in README


def test_every_link_and_every_picture_leads_somewhere():
    found = re.findall(r"\]\(([^)#\s]+)(?:#([^)]*))?\)", README)
    assert len(found) > 10
    for path, anchor in found:
        assert (ROOT / path).is_file(), path
        if anchor:
            titles = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, (path, anchor)


def test_every_path_that_it_names_exists():
    paths = re.findall(r"`((?:specviz|static|assets)/[\w/.]+)`", README)
    assert len(paths) >= 12
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_command_and_option_that_it_shows_exists():
    import argparse

    commands = list_commands()
    assert {line[0] for line in commands} >= {"app", "decode", "verify", "plan", "bench"}
    for name, *words in commands:
        assert name in COMMANDS, name
        parser = argparse.ArgumentParser()
        importlib.import_module(f"specviz.cli.{name}").add_arguments(parser)
        known = {option for action in parser._actions for option in action.option_strings}
        assert {word for word in words if word.startswith("--")} <= known, (name, words)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not on the path")
def test_every_make_target_that_it_shows_is_one_that_make_help_lists():
    done = subprocess.run(["make", "--no-print-directory", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^make ([\w-]+) +\S", done.stdout, re.M))
    shown = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.M))
    assert {"run", "test", "help"} <= shown <= listed
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert listed == set(targets), "a target of the Makefile has no words after ##"


def test_the_pages_of_its_table_are_the_pages_of_the_app():
    table = README.split("## The pages")[1].split("\n## ")[0]
    named = re.findall(r"^\| ([^|]+) \|", table, re.M)[1:]
    assert named == [page.title for page in PAGES.values()]


def test_the_numbers_that_it_gives_of_the_code_are_the_codes():
    from specviz.evidence.mistakes.registry import MISTAKES
    from specviz.models.pairs.families import FAMILIES

    assert f"- {len(FAMILIES)} families of transformers models" in README
    assert f"- {len(MISTAKES)} [mistakes]" in README


def test_the_python_example_runs_and_is_ten_lines_long(pair_folders, tmp_path, monkeypatch):
    (example,) = find_code_blocks("python")
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 10
    for name, folder in zip(("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"), pair_folders, strict=True):
        assert name in example
        example = example.replace(name, str(folder))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yours.txt").write_text(TEXT[0] * 8)
    small = {
        "samples=20_000, min_tv=0.05": "samples=2_000, min_tv=0.4, max_new_tokens=2, mode='shared-distributions'",
        "read()": "read(), **SMALL",
    }
    for shown, less in small.items():
        assert shown in example
        example = example.replace(shown, less)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(
            compile(example, "README.md", "exec"), {"SMALL": {"continuations": 3, "opening": 8, "max_new_tokens": 8, "probes": 2}}
        )
    *text, per_pass, verdict, plan = said.getvalue().splitlines()
    assert text and 1.0 <= float(per_pass.split(" tokens per target pass")[0]) <= 5.0
    assert verdict.startswith("Consistent with the target's distribution") and plan


@pytest.mark.slow
def test_the_examples_of_the_python_page_run_one_after_the_other(pair_folders, tmp_path, monkeypatch, no_pictures):
    page = (ROOT / "docs" / "tutorial" / "python.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yours.txt").write_text(TEXT[0] * 8)
    names = dict(zip(("TARGET", "DRAFT"), pair_folders, strict=True))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for example in re.findall(r"```python\n(.*?)```", page, re.S):
            exec(compile(example, "python.md", "exec"), names)
    assert (tmp_path / "evidence" / "report.json").is_file()
    assert "gamma must be a whole number from 0 to 16, got 17." in said.getvalue() and "100%" in said.getvalue()


def test_the_python_example_of_the_docs_is_the_same():
    (example,) = find_code_blocks("python")
    assert example in (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
