"""Comments, docstrings and pages name only files that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("app.py", "specviz/**/*.py", "pages/*.py", "tests/**/*.py", "tools/**/*.py", "tests/**/*.js", "assets/**/*.js", "assets/**/*.css",
           "assets/**/*.toml", "tools/*.toml", "*.toml", "docs/**/*.md", "*.md")  # fmt: skip
FILES = sorted({path for pattern in SOURCES for path in ROOT.glob(pattern) if "node_modules" not in path.parts})
ENDINGS = {"/".join(path.relative_to(ROOT).parts[start:]) for path in FILES for start in range(len(path.relative_to(ROOT).parts))}
NAMED = re.compile(r"(?<![\w/.:{}<>*-])((?:[\w.-]+/)*[\w-]+\.(?:py|js|css|toml|md))(?![\w(/-]|\.\w)")
WRITTEN = {"specviz.toml", "crowd.md", "room.md", "walk.md", "soak.md"}  # by whoever runs the program
RECIPE = "specviz/proposers/repeat.py"  # of CONTRIBUTING.md
OF_OTHERS = {"vllm/utils/cpu_triton_utils.py"}


def iterate_prose(path: Path) -> Iterator[str]:
    """Comments and docstrings of code, whole pages."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from (
            token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
        )
        nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        yield from (ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, nodes))
    elif path.suffix in {".js", ".css"}:
        yield from re.findall(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", source, re.S)
    elif path.suffix == ".toml":
        yield from re.findall(r"#.*", source)
    else:
        yield source


def list_missing(prose: str, folder: Path) -> list[str]:
    """Names of files in a text that neither stand beside it or at the root, nor end the path of a file of the project."""
    found = [name for name in NAMED.findall(prose) if name not in {*WRITTEN, RECIPE, *OF_OTHERS}]
    return [name for name in found if name not in ENDINGS and not (folder / name).exists() and not (ROOT / name).exists()]


def test_every_file_that_is_named_exists():
    """Only files of which any part names a missing one are split into code and prose."""
    missing = {
        path.relative_to(ROOT).as_posix(): names
        for path in FILES
        if list_missing(path.read_text(encoding="utf-8"), path.parent)
        and (names := list_missing("\n".join(iterate_prose(path)), path.parent))
    }
    assert missing == {}


@pytest.mark.parametrize("prose", ("as in no_such_file.py", "(docs/no_such_page.md)", "# web/common/no_such_sheet.css: why"))
def test_a_name_without_a_file_is_found(prose):
    assert len(list_missing(prose, ROOT)) == 1
