"""Audit the servers that are there: ``python -m tools.servers.audits FOLDER --out OUT``.

FOLDER holds what get.sh has put into FOLDER/vllm, FOLDER/llama.cpp and FOLDER/transformers; the project's own wrong server comes last. For each
server and drafting one ``specviz audit`` over several prompts against the shipped weights: samples and certificates stand in OUT, and
``--publish DIR`` copies the reports there. The table of table.py is printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from specviz.audit.many_prompts import RECORD
from specviz.audit.run import RECORD as PROMPT_RECORD
from specviz.errors import SpecvizError
from tools.servers import copy_back, kinds
from tools.servers.kinds import StartedServer
from tools.servers.table import build_table

PROMPTS = (
    "Once upon a time",
    "The old king said to the queen, and the old king said",  # its last words stand before, so prompt lookup drafts
)
GAMMAS = (0, 3, 5)
LENGTH, TV = 4, 0.1  # tokens of a sample, total variation to detect
WHOLE_LENGTH, WHOLE_TV = 12, 0.2  # where rounds are longer than the samples: tokens of whole texts, and of these fewer
GENERATIONS: dict[str, dict[str, object]] = {"plain": {}, "prompt-lookup": {"prompt_lookup_num_tokens": 3}}


@dataclass(frozen=True, slots=True)
class PlannedAudit:
    """One start of a server. folder: its own, below the given one; tag: its name in file names; cure: of copy_back.py, None: as shipped."""

    folder: str
    tag: str
    start: Callable[[Path, Path], AbstractContextManager[StartedServer]]
    whole_texts: bool = False
    cure: str | None = None


def _plan_vllm(gamma: int, tag: str = "vllm", **other: object) -> PlannedAudit:
    return PlannedAudit("vllm", f"{tag}-{gamma}", lambda place, log: kinds.start_vllm(place, log, gamma), **other)  # type: ignore[arg-type]


def _plan_llama_cpp(gamma: int) -> PlannedAudit:
    tag = f"llama.cpp-{gamma}"
    return PlannedAudit("llama.cpp", tag, lambda place, log: kinds.start_llama_cpp(place, log, gamma), gamma > LENGTH)


def _plan_transformers(name: str) -> PlannedAudit:
    tag = f"transformers-{name}"
    return PlannedAudit("transformers", tag, lambda place, log: kinds.start_transformers(place, log, GENERATIONS[name]))


def _plan_own(mistake: str) -> PlannedAudit:
    return PlannedAudit(".", f"own-{mistake}", lambda place, log: kinds.start_own(log, mistake))


PLANS = (
    *map(_plan_vllm, GAMMAS[:2]),
    _plan_vllm(3, "vllm-cured", cure="exact"),
    *map(_plan_llama_cpp, GAMMAS),
    *map(_plan_transformers, GENERATIONS),
    *map(_plan_own, ("none", "R1", "R5", "R18")),
)


def main(given: Sequence[str] | None = None) -> int:
    """Run the audits that are missing; return the exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder that holds what get.sh put into its subfolders")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for reports, samples and logs")
    parser.add_argument("--publish", type=Path, metavar="DIR", help="folder for a copy of each report")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TAG", help="beginnings of tags, such as vllm or llama.cpp-3")
    options = parser.parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in PROMPTS))
    try:
        for plan in PLANS:
            if (options.folder / plan.folder).is_dir() and plan.tag.startswith(tuple(options.only)):
                run_audit(plan, options)
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        found = options.publish or Path(folder)
        found.mkdir(parents=True, exist_ok=True)
        for record in options.out.glob(f"*/{RECORD}"):
            publish(record, found)
        print(build_table(found))
    return 0


def publish(record: Path, folder: Path) -> None:
    """Copy the record of an audit and those of its prompts into a folder of the audit's name."""
    place = folder / record.parent.name
    place.mkdir(exist_ok=True)
    shutil.copyfile(record, place / RECORD)
    for prompt in json.loads(record.read_text())["prompts"]:
        shutil.copyfile(record.parent / prompt["folder"] / PROMPT_RECORD, place / f"{prompt['folder']}.json")


def run_audit(plan: PlannedAudit, options: argparse.Namespace) -> None:
    """Run an audit unless its record is there already. Raises SpecvizError where the server does not start, or the audit ends without one."""
    out, place, said = options.out / plan.tag, options.folder / plan.folder, options.out / f"{plan.tag}.txt"
    if (out / RECORD).exists():
        return
    if plan.folder == "vllm":
        copy_back.apply_cure(place / "venv", plan.cure)
    try:
        with plan.start(place, options.out / f"{plan.tag}.log") as server:
            command = [sys.executable, "-m", "specviz", *build_arguments(plan, server, out, options)]
            with said.open("w") as file:
                code = subprocess.run(command, cwd=kinds.ROOT, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    finally:
        if plan.cure:
            copy_back.apply_cure(place / "venv", None)
    if not (out / RECORD).exists():
        raise SpecvizError(f"The audit of {plan.tag} ended with code {code}: {said.read_text()[-500:].strip()}")
    print(f"{plan.tag}: {json.loads((out / RECORD).read_text())['sentence']}", file=sys.stderr, flush=True)


def build_arguments(plan: PlannedAudit, server: StartedServer, out: Path, options: argparse.Namespace) -> list[str]:
    """The words of the command after ``specviz``."""
    words = ["audit", server.address, "--model", server.model, "--prompts", str((options.out / "prompts.txt").resolve())]
    words += [
        "--max-new-tokens",
        str(LENGTH),
        "--min-tv",
        str(WHOLE_TV if plan.whole_texts else TV),
        "--pair",
        server.pair,
        "--dtype",
        "float32",
    ]
    words += ["--request-tokens", str(WHOLE_LENGTH)] if plan.whole_texts else []
    words += ["--body", json.dumps(server.body)] if server.body else []
    return [*words, "--out", str(out.resolve())]


if __name__ == "__main__":
    sys.exit(main())
