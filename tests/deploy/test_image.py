"""The image: which torch a build takes, and what is left out of it."""

from __future__ import annotations

import re
import site
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(next(iter(site.getsitepackages())))


def list_steps() -> list[str]:
    """What the Dockerfile runs, each as one line."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.removeprefix("RUN ") for line in text.splitlines() if line.startswith("RUN ")]


def find_step(named: str) -> str:
    [found] = [one for one in list_steps() if named in one]
    return found


def run_command(command: str, **values: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": "/usr/bin:/bin"} | values,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    "torch, index, says",
    [
        ("cpu", "", "TORCH_INDEX must be the index that torch's installation page names for CPUs, got none"),
        ("gpu", "an index", "TORCH must be cpu or cuda, got gpu."),
        ("", "an index", "TORCH must be cpu or cuda, got ."),
    ],
)
def test_a_build_that_would_take_an_unasked_torch_stops_with_a_sentence(torch, index, says):
    ended = run_command(find_step("case"), TORCH=torch, TORCH_INDEX=index)
    assert ended.returncode == 1
    assert says in ended.stderr


@pytest.mark.parametrize("torch, index", [("cpu", "an index"), ("cuda", ""), ("cuda", "an index")])
def test_a_build_that_says_which_torch_goes_on(torch, index):
    assert run_command(find_step("case"), TORCH=torch, TORCH_INDEX=index).returncode == 0


@pytest.mark.parametrize(
    "torch, cuda, code",
    [
        ("cpu", "cuda: Optional[str] = None", 0),
        ("cpu", "cuda: Optional[str] = '13.0'", 1),
        ("cuda", "cuda: Optional[str] = '13.0'", 0),
    ],
)
def test_an_index_whose_torch_is_for_gpus_does_not_pass_for_one_for_cpus(torch, cuda, code, tmp_path):
    version = tmp_path / "version.py"
    version.write_text(f"__version__ = '2.13.0'\n{cuda}\nhip: Optional[str] = None\n", encoding="utf-8")
    command = find_step("torch/version.py").replace("/venv/lib/python3.11/site-packages/torch/version.py", str(version))
    assert str(version) in command
    ended = run_command(command, TORCH=torch, TORCH_INDEX="an index")
    assert ended.returncode == code
    assert ("TORCH_INDEX must be an index of torch for CPUs, got an index" in ended.stderr) == bool(code)


def test_what_the_image_leaves_out_is_in_the_libraries():
    for pattern in list_removed_patterns():
        assert list(PACKAGES.glob(pattern)), pattern


def test_nothing_of_this_project_imports_what_the_image_leaves_out():
    modules = {pattern.split(".")[0].replace("/", ".") for pattern in list_removed_patterns()}
    sources = [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "specviz").rglob("*.py")]
    found = re.compile("|".join(rf"\b{re.escape(module)}\b" for module in modules))
    assert [str(path) for path in sources if found.search(path.read_text(encoding="utf-8"))] == []


def list_removed_patterns() -> list[str]:
    """The patterns that are removed from site-packages by name."""
    removals = [one.split()[1:] for one in find_step("pyarrow/_flight").split("&&") if one.split()[0] == "rm"]
    patterns = [word for words in removals for word in words if word[0] not in "-/"]
    assert "torch/test" in patterns
    return patterns
