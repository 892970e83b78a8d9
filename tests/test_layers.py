"""Packages are layered: each one imports only from its own layer or below, and each library is imported only where it may be.

The same layers are in docs/explanation/architecture.md.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = (  # from the bottom up
    {
        "errors",
        "trace",
        "records",
        "randomness",
        "settings",
        "pair_options",
        "process",
        "progress",
        "registry",
        "glyphs",
        "threads",
    },
    {"theory", "statistics", "verification"},
    {"models"},
    {"proposers"},
    {"decoding"},
    {"jobs"},
    {"audit", "speed", "evidence", "training"},
    {"figures", "export"},
    {"web", "static_site", "interface"},
    {"cli", "pages", "app", "__main__"},
)
TOP_FILES = {
    "__init__",
    "__main__",
    "errors",
    "glyphs",
    "trace",
    "records",
    "randomness",
    "settings",
    "pair_options",
    "process",
    "progress",
    "registry",
    "threads",
    "theory",
    "interface",
}  # files of specviz/ outside a folder
RESTRICTED = {"training": {"cli"}, "web": {"pages", "app", "static_site", "cli"}}  # package -> who else may import it

LIBRARY_USERS = {  # library -> the packages that may import it
    "streamlit": {"web", "pages", "app"},
    "plotly": {"figures", "web"},
    "matplotlib": {"export", "web"},
    "huggingface_hub": {"models"},
    "transformers": {"models", "training", "evidence", "speed", "interface"},
    "tokenizers": {"models", "training"},
    "scipy": {"statistics"},
    "httpx2": {"audit"},
    "ray": {"jobs"},
    "psutil": {"jobs"},
    "segno": {"web"},
    "sqlite3": {"web"},
    "torch": {
        "threads",
        "audit",
        "verification",
        "models",
        "proposers",
        "decoding",
        "speed",
        "evidence",
        "jobs",
        "training",
        "web",
        "cli",
    },
}

FILES = sorted([*ROOT.glob("specviz/**/*.py"), *ROOT.glob("pages/**/*.py"), ROOT / "app.py"])


def find_folder(path: Path) -> str:
    """specviz/models/cache/decoder.py -> models; specviz/trace.py -> trace; pages/speed.py -> pages."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "specviz" else parts[0]


def find_layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


@cache
def list_imports(source: str) -> list[str]:
    """Every module that a source imports, inside functions too; ``from a import b`` gives a and a.b."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def list_violations(name: str, source: str) -> list[str]:
    """What a file of the package ``name`` imports that it must not, each with the reason."""
    found = set()
    for module in list_imports(source):
        package, _, rest = module.partition(".")
        other = rest.split(".")[0]
        if package == "specviz" and other and not other.startswith("__"):
            if find_layer(other) > find_layer(name):
                found.add(f"{name} (layer {find_layer(name)}) imports {other} (layer {find_layer(other)}): upwards")
            if other in RESTRICTED and name not in {other, *RESTRICTED[other]}:
                found.add(f"{name} imports {other}: {other} is for {', '.join(sorted(RESTRICTED[other]))} alone")
        if package in LIBRARY_USERS and name not in LIBRARY_USERS[package]:
            found.add(f"{name} imports {module}: {package} is for {', '.join(sorted(LIBRARY_USERS[package]))}")
    return sorted(found)


def test_every_package_is_in_a_layer_and_every_file_in_a_package():
    assert {find_folder(path) for path in FILES if path.stat().st_size} - {"__init__"} == set.union(*LAYERS)
    assert {path.stem for path in ROOT.glob("specviz/*.py")} == TOP_FILES


def test_imports_point_downwards_and_libraries_stay_where_they_may_be():
    found = {
        str(path.relative_to(ROOT)): list_violations(find_folder(path), path.read_text())
        for path in FILES
        if find_folder(path) != "__init__"
    }
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    (
        ("verification", "from specviz.proposers.draft import DraftModel", "upwards"),
        ("proposers", "from specviz.decoding.engine import step", "upwards"),
        ("decoding", "from specviz import evidence", "upwards"),
        ("trace", "import torch", "torch is for"),
        ("theory", "def f():\n    import torch.nn", "torch is for"),
        ("decoding", "from transformers import AutoModel", "transformers is for"),
        ("export", "import plotly.graph_objects as go", "plotly is for"),
        ("figures", "import streamlit as st", "streamlit is for"),
        ("models", "from scipy import stats", "scipy is for"),
        ("evidence", "def f():\n    import ray", "ray is for"),
        ("jobs", "from specviz.web.common import cache", "upwards"),
        ("web", "import httpx2", "httpx2 is for"),
        ("interface", "from specviz.web.common import cache", "web is for"),
    ),
)
def test_a_violation_is_named(name, line, reason):
    """The test itself can fail: each of these lines would be a violation."""
    assert any(reason in sentence for sentence in list_violations(name, line))


def test_a_proposer_cannot_reach_the_rule():
    """'A bad proposer costs speed, never correctness': proposers know trees and draws, not rules."""
    for path in ROOT.glob("specviz/proposers/**/*.py"):
        assert "specviz.verification.token" not in list_imports(path.read_text()), path.name


PAGE_FOLDERS = sorted(path.parent for path in ROOT.glob("specviz/web/*/view.py"))
SESSION_FILES = {"view", "work"}  # files of a page that use the session and the queue


def list_module_files() -> dict[str, Path]:
    """Every module's dotted name with its file."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def reaches(name: str, package: str, imports: dict[str, list[str]]) -> bool:
    """Whether a module imports a package, itself or through others."""
    seen, rest = {name}, [name]
    while rest:
        for module in imports[rest.pop()]:
            if module.partition(".")[0] == package:
                return True
            if module in imports and module not in seen:
                seen.add(module)
                rest.append(module)
    return False


def test_only_the_view_of_a_page_imports_streamlit():
    """What draws and exports serves the static edition and the command line, too."""
    found = {path for folder in PAGE_FOLDERS for path in folder.rglob("*.py") if "streamlit" in list_imports(path.read_text())}
    assert found == {folder / "view.py" for folder in PAGE_FOLDERS}


def test_files_of_a_page_that_draw_reach_no_streamlit_through_others():
    imports = {name: list_imports(path.read_text()) for name, path in list_module_files().items()}
    for folder in PAGE_FOLDERS:
        names = {name for name in imports if name.startswith(f"specviz.web.{folder.name}.")}
        names -= {f"specviz.web.{folder.name}.{name}" for name in SESSION_FILES}
        assert [name for name in sorted(names) if reaches(name, "streamlit", imports)] == []


def test_rooms_know_nothing_of_the_page_from_which_they_are_steered():
    rooms = {name for path in ROOT.glob("specviz/web/classroom/room/*.py") for name in list_imports(path.read_text())}
    page = {f"specviz.web.classroom.{path.stem}" for path in ROOT.glob("specviz/web/classroom/*.py")}
    assert len(page) > 1 and rooms & page == set()


def test_no_file_imports_itself_through_others():
    """No circle of imports, those inside functions included."""
    names = list_module_files()
    after = {
        name: {module for module in list_imports(path.read_text()) if module in names and names[module].name != "__init__.py"}
        - {name}
        for name, path in names.items()
    }
    open_ = dict(after)
    while ends := {name for name, others in open_.items() if not others & open_.keys()}:
        open_ = {name: others for name, others in open_.items() if name not in ends}
    in_cycles = {name for name in open_ if any(name in after[other] for other in open_)}
    assert in_cycles == set(), "these import each other in a circle, or stand between two that do"
