"""The package: its dependencies, extras and metadata are what requirements.txt, the docs and the code say."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_layers import FILES, find_folder, list_imports
from tools.check_commit_subject import find_fault

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
EXTRA_OF = {
    "audit": "audit",
    "export": "app",
    "figures": "app",
    "jobs": "cluster",
    "web": "app",
}  # folder -> the extra that it needs
COMES_WITH = {  # a library that is imported -> the requirement that brings it
    "fontTools": "matplotlib",
    "google": "streamlit",
    "pandas": "streamlit",
    "PIL": "streamlit",
    "pyarrow": "streamlit",
    "pydantic": "pydantic-settings",
    "starlette": "streamlit",
    "tokenizers": "transformers",
}


def read_requirements(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sorted(line for line in lines if line)


def name_of(requirement: str) -> str:
    return re.split(r"[<>=\[;]", requirement)[0].lower().replace("_", "-")


def test_requirements_txt_is_the_package_with_the_app():
    assert read_requirements(ROOT / "requirements.txt") == sorted([*PROJECT["dependencies"], *EXTRAS["app"]])


def test_the_core_needs_six_libraries():
    assert {name_of(one) for one in PROJECT["dependencies"]} == {
        "torch",
        "transformers",
        "numpy",
        "scipy",
        "safetensors",
        "huggingface-hub",
    }


def test_the_extra_all_holds_the_extras_of_users():
    assert EXTRAS["all"] == ["specviz[app,audit,cluster,gguf]"]
    assert set(EXTRAS) == {"app", "audit", "cluster", "gguf", "all", "test", "docs", "dev", "release"}


def list_undeclared(folder: str, source: str) -> list[str]:
    """The libraries that a file of a folder imports and that neither the core nor the folder's extra installs."""
    declared = {name_of(one) for one in [*PROJECT["dependencies"], *EXTRAS.get(EXTRA_OF.get(folder, ""), [])]}
    imported = {module.partition(".")[0] for module in list_imports(source)} - {*sys.stdlib_module_names, "specviz"}
    return sorted(name for name in imported if name_of(COMES_WITH.get(name, name)) not in declared)


def test_a_folder_imports_what_the_core_and_its_own_extra_install():
    """An extra works without the others. Pytest itself loads the plugin."""
    found = {
        str(path.relative_to(ROOT)): names
        for path in FILES
        if path.name != "pytest_plugin.py" and (names := list_undeclared(find_folder(path), path.read_text()))
        if path.relative_to(ROOT).parts[0] == "specviz"
    }
    assert found == {}
    assert list_undeclared("audit", "import segno") == ["segno"] and list_undeclared("web", "import segno, pandas") == []
    assert list_undeclared("models", "def f():\n    import httpx2") == ["httpx2"]


def test_every_dependency_has_a_tested_version():
    tested = {name_of(line) for line in read_requirements(ROOT / "constraints.txt")}
    wanted = {name_of(one) for extra in ("app", "audit", "cluster", "test") for one in EXTRAS[extra]} - {"specviz"}
    assert wanted | {name_of(one) for one in PROJECT["dependencies"]} <= tested


def test_the_python_that_runs_is_one_that_the_package_admits():
    assert sys.version_info >= tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))


@pytest.mark.parametrize(
    ("subject", "fault"),
    (
        ("audit: check end tokens", ""),
        ("web/speed: name the machine of each recorded plan", ""),
        ("game, samples: sizes by tokens", ""),
        ("Merge branch 'main'", ""),
        ("audit: " + "x" * 66, "73 characters"),
        ("Fixed it", "must read"),
        ("audit:", "must read"),
    ),
)
def test_a_commit_subject_names_its_area_in_72_characters(subject, fault):
    found = find_fault(subject)
    assert fault in found and bool(found) == bool(fault)
