"""The README's tree names every file, and its commands are the ones that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""


def tree() -> tuple[set[str], set[str]]:
    """Files of the README's tree, and folders (ending in /) that stand there for everything below them."""
    block = re.search(r"## The files\n.*?```\n(.*?)```", README, re.S)[1]
    names, above = [], []
    for line in block.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        above = [(depth, folder) for depth, folder in above if depth < indent]
        names.append((indent, "".join(folder for _, folder in above) + name))
        if name.endswith("/"):
            above.append((indent, name))
    files = {name for _, name in names if not name.endswith("/")}
    whole = {name for _, name in names if name.endswith("/") and not any(f != name and f.startswith(name) for _, f in names)}
    return files, whole


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]


def test_every_file_has_its_line_in_the_readmes_tree():
    files, whole = tree()
    missing = [name for name in tracked() if name not in files and not any(name.startswith(folder) for folder in whole)]
    assert missing == [], "add a line for each to the tree in README.md"


def test_the_tree_names_no_file_that_is_not_there():
    files, whole = tree()
    assert sorted(name for name in files | whole if not (ROOT / name).exists()) == []


def test_the_readme_gives_the_two_commands_and_their_plain_equivalents():
    for words in ("make run", "make test", "pip install -r requirements.txt -c constraints.txt", "streamlit run app.py"):
        assert words in README


def test_nothing_in_the_readme_is_left_to_be_filled_in():
    assert "@@" not in README
    assert "TODO" not in README


def test_the_picture_of_the_page_is_there():
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / target).is_file(), target
