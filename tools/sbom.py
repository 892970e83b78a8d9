"""What a release runs on, as a CycloneDX file: ``python tools/sbom.py OUT`` (make sbom).

cyclonedx-py describes every library that is installed beside it. Of these the file keeps what the project's requirements need, directly
or not: neither the tools for tests and audits nor where anything lies on this machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specviz import __version__, records

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ["cyclonedx_py", "environment", sys.executable, "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
LOCAL = re.compile(r"file:|(^|[\s'\"(])(/|[A-Za-z]:\\)\w")  # a place on this machine


def parse_requirements(text: str) -> list[Requirement]:
    """The libraries in a file of requirements."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line]


def normalize_name(name: str) -> str:
    """The name by which packages are told apart."""
    return re.sub(r"[-_.]+", "-", name).lower()


def collect_needed(direct: Iterable[Requirement], asks: Callable[[str], Iterable[Requirement]]) -> dict[str, set[str]]:
    """Each library that these need, directly or not -> what it needs by itself. An extra counts where it is asked for.

    asks: name -> requirements of the library of that name
    """
    found: dict[str, set[str]] = {}
    ahead = [(normalize_name(one.name), frozenset(one.extras)) for one in direct]
    seen = set()
    while ahead:
        if (one := ahead.pop()) in seen:
            continue
        seen.add(one)
        name, extras = one
        for need in asks(name):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                found.setdefault(name, set()).add(normalize_name(need.name))
                ahead.append((normalize_name(need.name), frozenset(need.extras)))
        found.setdefault(name, set())
    return found


def list_installed_requirements(name: str) -> list[Requirement]:
    """What an installed library says that it needs. Raises PackageNotFoundError."""
    return [Requirement(one) for one in metadata.requires(name) or ()]


def filter_runtime(bom: dict[str, Any], direct: list[str], needs: dict[str, set[str]], version: str) -> dict[str, Any]:
    """What a described environment holds of the libraries in ``needs``, under the project's version."""
    components = {
        normalize_name(one["name"]): remove_local_paths(one) for one in bom["components"] if normalize_name(one["name"]) in needs
    }
    refs = {name: one["bom-ref"] for name, one in components.items()}
    root = bom["metadata"]["component"] | {"version": version}
    edges = {root["bom-ref"]: direct} | {refs[name]: one for name, one in needs.items()}
    return bom | {
        "metadata": bom["metadata"] | {"component": root},
        "components": list(components.values()),
        "dependencies": [{"ref": ref, "dependsOn": sorted(refs[name] for name in names)} for ref, names in sorted(edges.items())],
    }


def remove_local_paths(component: dict[str, Any]) -> dict[str, Any]:
    """Without links to files of this machine, which a library that was installed from a file has."""
    links = [one for one in component.get("externalReferences", []) if not LOCAL.search(one["url"])]
    return {name: value for name, value in component.items() if name != "externalReferences"} | (
        {"externalReferences": links} if links else {}
    )


if __name__ == "__main__":
    direct = parse_requirements((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    described = subprocess.run([sys.executable, "-W", "ignore", "-m", *COMMAND], stdout=subprocess.PIPE, check=True).stdout
    found = filter_runtime(
        json.loads(described),
        [normalize_name(one.name) for one in direct],
        collect_needed(direct, list_installed_requirements),
        __version__,
    )
    records.write(Path(sys.argv[1]), json.dumps(found, indent=1) + "\n", over=True)
    print(f"{len(found['components'])} libraries in {sys.argv[1]}")
