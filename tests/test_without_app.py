"""The library in a process of its own, without the extra ``app``: no Streamlit, no Plotly, no matplotlib."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specviz.process import SPIN_COUNT
from specviz.threads import SET_BY_USER
from tests.test_layers import SESSION_FILES, list_module_files

ROOT = Path(__file__).resolve().parents[1]
APP = ("specviz.web.common.", "specviz.web.hosting.", "specviz.web.pair_picker.")  # what serves the pages
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
import contextlib, importlib, io, json, os, torch, warnings
from specviz import threads
from specviz.__main__ import main
target, draft, folder, *names = sys.argv[1:]
measure, probes, default = threads.ThreadChoice.measure, [], torch.get_num_threads()
threads.ThreadChoice.measure = lambda *given: (probes.append(1), measure(*given))
with contextlib.redirect_stdout(io.StringIO()):
    code = main(["decode", "--prompt", "the river", "--pair", f"{target}|{draft}", "--max-new-tokens", "8", "--device", "cpu"])
command = {"code": code, "spin": os.environ["GOMP_SPINCOUNT"], "default": default, "most": threads.count_max_threads(), "probes": len(probes)}
torch.set_num_threads(1)

import specviz
from specviz.evidence.testing import results

results.REFERENCE_SAMPLES, results.ANALYTIC_PREFIXES = 200, 6
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
found |= {"command": command, "verdict": report.verdict, "warnings": [str(one.message) for one in raised if one.category is UserWarning]}
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
def library_run(pair_folders, tmp_path_factory):
    """What one program gets of the library, and the folder of its certificate."""
    names = sorted(name for name in list_module_files() if name.startswith("specviz") and not needs_app(name))
    assert {"specviz.interface", "specviz.export.report", "specviz.figures.charts", "specviz.web.speed.plan_figures"} <= {*names}
    folder = tmp_path_factory.mktemp("without") / "certificate"
    command = [sys.executable, "-c", BLOCKED + USE, *map(str, pair_folders), str(folder), *names]
    environment = {name: value for name, value in os.environ.items() if name not in (*SET_BY_USER, "GOMP_SPINCOUNT")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), folder


def test_a_command_measures_threads_and_bounds_the_spin(library_run):
    """The number that PyTorch starts with is not taken for the user's choice."""
    command = library_run[0]["command"]
    assert (command["code"], command["spin"], command["most"]) == (0, str(SPIN_COUNT), command["default"])
    assert command["default"] == 1 or command["probes"] > 0


def test_a_pair_decodes_traces_plans_and_verifies(library_run):
    found, _ = library_run
    assert found["rounds"] >= 1 and found["best"] == 1 and found["verdict"] in ("consistent", "rejected", "too few samples")


def test_a_certificate_has_its_report_and_tables_and_one_sentence_says_what_adds_the_figures(library_run):
    found, folder = library_run
    files = {path.name for path in folder.iterdir()}
    assert {"report.json", "cells.csv", "tests.csv", "caption.txt", "manifest.json", "evidence.zip"} == files
    assert {*json.loads((folder / "manifest.json").read_text())["files"]} == files - {"manifest.json", "evidence.zip"}
    assert found["warnings"] == [
        'The figures were left out because Plotly or matplotlib is missing: pip install "specviz[app]" adds them.'
    ]


def test_the_command_checks_such_a_certificate(library_run):
    assert library_run[0]["check"] in (0, 4)


def test_every_module_that_serves_no_page_is_imported(library_run):
    assert library_run[0]["refused"] == []
