"""Anything may guess, one rule decides, and only the engine joins them: the folders say so, and here the imports are read.

Every file stands on a floor and imports only from its own floor or below; each outside package crosses one border only.
A new file needs a line here before it can be imported by anything.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = (  # from the ground up; a name ending in / stands for every file of that folder
    ("errors", "trace", "samples", "coins", "versions", "ranges", "chosen", "recorded"),
    ("settings",),
    (
        "theory",
        "planning/kept_guess",
        "planning/reported",
        "planning/plan",
        "planning/forecast",
        "planning/plans",
        "planning/study",
        "planning/calibration",
        "planning/batches",
        "surroundings/laboratory",
        "surroundings/near_ties",
        "verification/",
        "statistics/",
        "words",
    ),
    ("models/",),
    ("proposers/",),
    ("engine", "sampler", "edges"),
    ("runs", "costs", "planning/cost_curve", "planning/predict"),
    (
        "evidence/",
        "bench",
        "rates",
        "policies",
        "curves",
        "lineup",
        "lineup_run",
        "branching",
        "passage",
        "passage_run",
        "planning/plan_run",
        "planning/study_run",
        "planning/study_kept",
        "planning/batches_run",
        "surroundings/served",
        "surroundings/timing",
        "surroundings/laboratory_run",
        "surroundings/near_ties_run",
    ),
    ("training/",),
    ("figures/", "export/"),
    ("web/",),
    ("commands/", "__main__"),
)
APART = {"training/": {"training/", "commands/", "__main__"}, "web/": {"web/"}}  # who may import these, beside pages and app

BORDERS = {
    "streamlit": ("web/", "pages/", "app"),
    "plotly": ("figures/",),
    "matplotlib": (
        "export/printed",
        "export/printed_pages",
        "export/printed_lineup",
        "export/printed_passage",
        "export/printed_fast",
        "export/printed_study",
        "export/printed_costs",
        "export/printed_around",
    ),
    "transformers": ("models/", "training/", "evidence/", "bench", "costs", "surroundings/served"),
    "tokenizers": ("models/", "training/"),
    "scipy": ("statistics/",),
    "torch": (
        *(
            "verification/",
            "models/",
            "proposers/",
            "engine",
            "sampler",
            "edges",
            "runs",
            "bench",
            "costs",
            "planning/cost_curve",
            "planning/predict",
            "rates",
            "policies",
            "curves",
            "lineup_run",
            "passage_run",
            "planning/study_run",
            "surroundings/served",
            "surroundings/laboratory_run",
            "surroundings/near_ties_run",
        ),
        *("evidence/", "training/", "web/", "commands/"),
    ),
}

FILES = sorted(
    path.relative_to(ROOT)
    for path in [*ROOT.glob("specviz/**/*.py"), *ROOT.glob("pages/**/*.py"), *ROOT.glob("app.py")]
    if path.name != "__init__.py" or path.stat().st_size > 200
)


def place(path: Path) -> str:
    """specviz/models/cached.py -> models/cached; pages/step.py -> pages/step."""
    return path.with_suffix("").as_posix().removeprefix("specviz/").removesuffix("/__init__")


def within(name: str, places) -> bool:
    return any(name == one or (one.endswith("/") and f"{name}/".startswith(one)) for one in places)


def floor(name: str) -> int | None:
    """Height of a file's floor; pages and app stand on top of all."""
    if within(name, ("pages/", "app")):
        return len(FLOORS)
    return next((height for height, places in enumerate(FLOORS) if within(name, places)), None)


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


def inside(module: str) -> str | None:
    """specviz.models.cached -> models/cached, where there is such a file or folder."""
    if not module.startswith("specviz."):
        return None
    path = module.removeprefix("specviz.").replace(".", "/")
    known = (ROOT / "specviz" / f"{path}.py").exists() or (ROOT / "specviz" / path).is_dir()
    return path if known else None


def crossings(name: str, source: str) -> list[str]:
    """What a file imports that it must not, each with the border it crosses."""
    found = []
    for module in imported(source):
        if (other := inside(module)) is not None:
            if floor(other) is None or floor(other) > floor(name):
                found.append(f"{name} (floor {floor(name)}) imports {other} (floor {floor(other)}): upwards")
            for closed, who in APART.items():
                if within(other, (closed,)) and not within(name, {*who, "pages/", "app"}):
                    found.append(f"{name} imports {other}: {closed} is for {', '.join(sorted(who))} alone")
        package = module.split(".")[0]
        if package in BORDERS and not within(name, BORDERS[package]):
            found.append(f"{name} imports {module}: {package} belongs to {', '.join(BORDERS[package])}")
    return sorted(set(found))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_file_has_a_floor(path):
    assert floor(place(path)) is not None, f"{path} has no floor: give it one in FLOORS"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_import_goes_down_and_stays_within_its_border(path):
    assert crossings(place(path), (ROOT / path).read_text()) == []


@pytest.mark.parametrize(
    ("name", "line", "border"),
    (
        ("verification/rules", "from specviz.proposers.draft import DraftModel", "upwards"),
        ("proposers/draft", "from specviz.engine import step", "upwards"),
        ("engine", "from specviz import runs", "upwards"),
        ("trace", "import torch", "torch belongs"),
        ("theory", "def f():\n    import torch.nn", "torch belongs"),
        ("engine", "from transformers import AutoModel", "transformers belongs"),
        ("web/cache", "import plotly.graph_objects as go", "plotly belongs"),
        ("figures/stage", "import streamlit as st", "streamlit belongs"),
        ("models/cached", "from scipy import stats", "scipy belongs"),
        ("web/cache", "from specviz.training import loop", "training/ is for"),
        ("commands/decode", "from specviz.web import cache", "web/ is for"),
    ),
)
def test_a_crossed_border_is_named(name, line, border):
    """The test itself can fail: each line would be a mistake, and is called one."""
    assert any(border in sentence for sentence in crossings(name, line))


def test_a_proposer_cannot_reach_the_rule():
    """'A bad proposer costs speed, never correctness': proposers know blocks and draws, not rules."""
    for path in ROOT.glob("specviz/proposers/*.py"):
        assert "specviz.verification.rules" not in imported(path.read_text()), path.name
