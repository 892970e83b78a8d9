"""The library without the extra ``app``: no Streamlit, no Plotly, no matplotlib."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import SESSION_FILES, list_module_files

ROOT = Path(__file__).resolve().parents[1]
APP = ("specviz.web.common.", "specviz.web.hosting.", "specviz.web.jobs.", "specviz.web.pair_picker.")  # what serves the pages
DRAWN = {"matplotlib_adapter", "slides", "worksheet_pdf"}  # figures for print; imported when one is asked for
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("streamlit", "plotly", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def needs_app(name: str) -> bool:
    """Whether a module serves pages, or is imported only when a figure is drawn for print."""
    file = name.rpartition(".")[2]
    return (name.startswith("specviz.web.") and file in SESSION_FILES) or file in DRAWN or name.startswith(APP)


USE = """
import contextlib, importlib, io, json, warnings, specviz
target, draft, folder, *names = sys.argv[1:]
pair = specviz.Pair.from_pretrained(target, draft, device="cpu")
found = {
    "text": pair.decode("the river", max_new_tokens=8).text,
    "rounds": len(pair.trace("the river", max_new_tokens=8).rounds),
    "best": pair.plan("the river ran by the house of the old woman. " * 40, gammas=[1, 2], continuations=2, opening=4, probes=0,
                      max_new_tokens=8).rows[0].gamma,
}
report = pair.verify("the river", samples=1000, mode="shared-distributions", max_new_tokens=2, min_tv=0.5)
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always")
    report.save(folder)
found |= {"verdict": report.verdict, "warnings": [str(one.message) for one in raised if one.category is UserWarning]}
from specviz.__main__ import main
with contextlib.redirect_stdout(io.StringIO()):
    found["check"] = main(["check", folder + "/report.json"])
found["refused"] = []
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] in ("streamlit", "plotly", "matplotlib"):
            found["refused"].append(f"{name} imports {error.name}")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def used(pair_folders, tmp_path_factory):
    """What one program gets of the library, and the folder of its certificate."""
    names = sorted(name for name in list_module_files() if name.startswith("specviz") and not needs_app(name))
    assert {"specviz.interface", "specviz.export.report", "specviz.figures.charts", "specviz.web.speed.plan_figures"} <= {*names}
    folder = tmp_path_factory.mktemp("without") / "certificate"
    command = [sys.executable, "-c", BLOCKED + USE, *map(str, pair_folders), str(folder), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), folder


def test_a_pair_decodes_traces_plans_and_verifies(used):
    found, _ = used
    assert found["rounds"] >= 1 and found["best"] == 1 and found["verdict"] in ("consistent", "rejected", "too few samples")


def test_a_certificate_has_its_report_and_tables_and_one_sentence_says_what_adds_the_figures(used):
    found, folder = used
    files = {path.name for path in folder.iterdir()}
    assert {"report.json", "cells.csv", "tests.csv", "caption.txt", "manifest.json", "evidence.zip"} == files
    assert {*json.loads((folder / "manifest.json").read_text())["files"]} == files - {"manifest.json", "evidence.zip"}
    assert found["warnings"] == [
        'The figures were left out because Plotly or matplotlib is missing: pip install "specviz[app]" adds them.'
    ]


def test_the_command_checks_such_a_certificate(used):
    assert used[0]["check"] in (0, 4)


def test_every_module_that_serves_no_page_is_imported(used):
    assert used[0]["refused"] == []
