"""Work that a page begins on a fresh server waits for the import of torch: beside it, transformers is half initialized and fails."""

from __future__ import annotations

import json

from tests.helpers.fresh_process import REFUSE_TORCH, run_fresh

# Each piece of work of each page, in a process where torch cannot be imported and its import has not ended.
CODE = """
import importlib, inspect, json, sys
from pathlib import Path
from unittest.mock import MagicMock

from specviz.settings import Settings
from specviz.web.hosting import cache, warmup


class Waits(BaseException):  # no page's work catches it
    pass

def refuse_to_wait(seconds):
    raise Waits

warmup.start, warmup.wait = lambda: None, refuse_to_wait
found = {}
for file in sorted(Path("specviz/web").glob("*/work.py")):
    if file.parent.name == "sampling":
        continue  # no page: its functions take a loaded pair
    module = importlib.import_module(".".join(file.with_suffix("").parts))
    for name, function in vars(module).items():
        if not inspect.isfunction(function) or function.__module__ != module.__name__ or name.startswith("_"):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        if "ticket" not in [one.name for one in parameters[:2]]:  # what takes a pair comes after the wait for it
            continue
        given = [MagicMock(bench=None, seed=1, settings=Settings(), question=MagicMock(settings=Settings())) for one in parameters if one.default is one.empty]
        try:
            function(*given)
            found[f"{file.parent.name}.{name}"] = "ends"
        except Waits:
            found[f"{file.parent.name}.{name}"] = "waits"
        except Exception as error:
            found[f"{file.parent.name}.{name}"] = repr(error)
try:
    cache.describe_pair("storybook", "cpu", "float32")
except Waits:
    found["describe_pair"] = "waits"
print(json.dumps(found))
"""


def test_no_work_of_a_page_imports_the_models_libraries_before_they_are_there():
    done = run_fresh(REFUSE_TORCH + CODE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) >= 18
    assert {name: how for name, how in found.items() if how != "waits"} == {}
