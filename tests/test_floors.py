"""Anyone may draft, one rule decides, and only the engine joins them: the folders say so, and here the imports are read.

Every folder stands on a floor and imports only from its own floor or below; each outside package crosses one border only.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FLOORS = (  # from the ground up
    {"errors", "trace", "records", "randomness", "settings", "options", "process", "progress", "registry", "glyphs", "threads"},
    {"theory", "statistics", "verification"},
    {"models"},
    {"proposers"},
    {"decoding"},
    {"jobs"},
    {"audit", "speed", "evidence", "training"},
    {"figures", "export", "classroom"},
    {"web", "static_site", "interface"},
    {"cli", "pages", "app", "__main__"},
)
LOOSE = {
    "__init__",
    "__main__",
    "errors",
    "glyphs",
    "trace",
    "records",
    "randomness",
    "settings",
    "options",
    "process",
    "progress",
    "registry",
    "threads",
    "theory",
    "interface",
}  # files of specviz/ outside a folder
CLOSED = {"training": {"cli"}, "web": {"pages", "app", "static_site", "cli"}}  # who else may import these

BORDERS = {
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
    "sqlite3": {"classroom"},
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


def folder(path: Path) -> str:
    """specviz/models/cache/decoder.py -> models; specviz/trace.py -> trace; pages/speed.py -> pages."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "specviz" else parts[0]


def floor(name: str) -> int:
    return next(height for height, names in enumerate(FLOORS) if name in names)


def imported(source: str) -> list[str]:
    """Every module that a source imports, inside functions too; ``from a import b`` gives a and a.b."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def crossings(name: str, source: str) -> list[str]:
    """What a file of the folder ``name`` imports that it must not, each with the border it crosses."""
    found = set()
    for module in imported(source):
        package, _, rest = module.partition(".")
        other = rest.split(".")[0]
        if package == "specviz" and other and not other.startswith("__"):
            if floor(other) > floor(name):
                found.add(f"{name} (floor {floor(name)}) imports {other} (floor {floor(other)}): upwards")
            if other in CLOSED and name not in {other, *CLOSED[other]}:
                found.add(f"{name} imports {other}: {other} is for {', '.join(sorted(CLOSED[other]))} alone")
        if package in BORDERS and name not in BORDERS[package]:
            found.add(f"{name} imports {module}: {package} belongs to {', '.join(sorted(BORDERS[package]))}")
    return sorted(found)


def test_every_folder_has_a_floor_and_no_file_stands_outside_one():
    assert {folder(path) for path in FILES if path.stat().st_size} - {"__init__"} == set.union(*FLOORS)
    assert {path.stem for path in ROOT.glob("specviz/*.py")} == LOOSE


def test_every_import_goes_down_and_stays_within_its_border():
    found = {
        str(path.relative_to(ROOT)): crossings(folder(path), path.read_text()) for path in FILES if folder(path) != "__init__"
    }
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    ("name", "line", "border"),
    (
        ("verification", "from specviz.proposers.draft import DraftModel", "upwards"),
        ("proposers", "from specviz.decoding.engine import step", "upwards"),
        ("decoding", "from specviz import evidence", "upwards"),
        ("trace", "import torch", "torch belongs"),
        ("theory", "def f():\n    import torch.nn", "torch belongs"),
        ("decoding", "from transformers import AutoModel", "transformers belongs"),
        ("export", "import plotly.graph_objects as go", "plotly belongs"),
        ("figures", "import streamlit as st", "streamlit belongs"),
        ("models", "from scipy import stats", "scipy belongs"),
        ("evidence", "def f():\n    import ray", "ray belongs"),
        ("jobs", "from specviz.web.common import cache", "upwards"),
        ("web", "import httpx2", "httpx2 belongs"),
        ("interface", "from specviz.web.common import cache", "web is for"),
    ),
)
def test_a_crossed_border_is_named(name, line, border):
    """The test itself can fail: each line would be a mistake, and is called one."""
    assert any(border in sentence for sentence in crossings(name, line))


def test_a_proposer_cannot_reach_the_rule():
    """'A bad proposer costs speed, never correctness': proposers know trees and draws, not rules."""
    for path in ROOT.glob("specviz/proposers/**/*.py"):
        assert "specviz.verification.token" not in imported(path.read_text()), path.name


PAGE_FOLDERS = sorted(path.parent for path in ROOT.glob("specviz/web/*/view.py"))
SERVING = {"view", "work"}  # files of a page that meet the session and the queue
ROOM = {"host", "routes", "state", "payload", "export"}  # of the classroom, whose rooms are kept by the server


def module_files() -> dict[str, Path]:
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
    found = {path for folder in PAGE_FOLDERS for path in folder.glob("*.py") if "streamlit" in imported(path.read_text())}
    assert found == {folder / "view.py" for folder in PAGE_FOLDERS}


def test_files_of_a_page_that_draw_reach_no_streamlit_through_others():
    imports = {name: imported(path.read_text()) for name, path in module_files().items()}
    for folder in PAGE_FOLDERS:
        names = {path.stem for path in folder.glob("*.py")} - SERVING - (ROOM if folder.name == "classroom" else set())
        reached = [
            name for name in sorted(names - {"__init__"}) if reaches(f"specviz.web.{folder.name}.{name}", "streamlit", imports)
        ]
        assert reached == [], folder.name


def test_no_file_imports_itself_through_others():
    """No circle of imports, those inside functions included."""
    names = module_files()
    after = {
        name: {module for module in imported(path.read_text()) if module in names and names[module].name != "__init__.py"}
        - {name}
        for name, path in names.items()
    }
    open_ = dict(after)
    while ends := {name for name, others in open_.items() if not others & open_.keys()}:
        open_ = {name: others for name, others in open_.items() if name not in ends}
    in_circles = {name for name in open_ if any(name in after[other] for other in open_)}
    assert in_circles == set(), "these import each other in a circle, or stand between two that do"
