"""Audit the servers that are there: ``python -m tools.servers.audits FOLDER --out OUT``.

FOLDER holds what get.sh has put into FOLDER/vllm, FOLDER/llama.cpp and FOLDER/transformers; the project's own wrong server comes last. For each
server, drafting and prompt one ``specviz audit`` against the shipped weights: samples and certificate stand in OUT, and ``--publish DIR`` copies
the reports there. The table of table.py is printed. An hour.
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

from specviz.errors import SpecvizError
from tools.servers import copy_back, kinds
from tools.servers.kinds import StartedServer
from tools.servers.table import build_table

PROMPTS = (
    "Once upon a time",
    "The old king said",
    "In the middle of the forest",
    '"Where are you going?" asked',
    "She opened the door and",
)
ECHO_PROMPT = "The old king said to the queen, and the old king said"  # its last words stand before, so prompt lookup drafts
GAMMAS = (0, 1, 3, 5)
LENGTH, SAMPLES, TV = 4, 2400, 0.1
REPORT = Path("report.json")
GENERATIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "prompt-lookup": {"prompt_lookup_num_tokens": 3},
    "early-exit": {"assistant_early_exit": 4},
}


@dataclass(frozen=True, slots=True)
class PlannedAudit:
    """One start of a server. folder: its own, below the given one; tag: its name in file names; cure: of copy_back.py, None: as shipped."""

    folder: str
    tag: str
    start: Callable[[Path, Path], AbstractContextManager[StartedServer]]
    temperature: float = 1.0
    prompts: tuple[str, ...] = PROMPTS
    cure: str | None = None


def _plan_vllm(gamma: int, tag: str = "vllm", **other: object) -> PlannedAudit:
    return PlannedAudit("vllm", f"{tag}-{gamma}", lambda place, log: kinds.start_vllm(place, log, gamma), **other)  # type: ignore[arg-type]


def _plan_llama_cpp(gamma: int) -> PlannedAudit:
    return PlannedAudit("llama.cpp", f"llama.cpp-{gamma}", lambda place, log: kinds.start_llama_cpp(place, log, gamma))


def _plan_transformers(name: str) -> PlannedAudit:
    return PlannedAudit(
        "transformers",
        f"transformers-{name}",
        lambda place, log: kinds.start_transformers(place, log, GENERATIONS[name]),
        prompts=(PROMPTS[0], ECHO_PROMPT),
    )


def _plan_own(mistake: str) -> PlannedAudit:
    return PlannedAudit(".", f"own-{mistake}", lambda place, log: kinds.start_own(log, mistake), prompts=PROMPTS[:1])


PLANS = (
    *map(_plan_vllm, GAMMAS),
    *(_plan_vllm(gamma, "vllm-cured", cure="exact") for gamma in GAMMAS[1:]),
    _plan_vllm(3, "vllm-cured-T0.7", cure="exact", temperature=0.7, prompts=PROMPTS[:1]),
    _plan_vllm(3, "vllm-copied", cure="copy", prompts=PROMPTS[:1]),
    _plan_vllm(3, "vllm-copied-T0.7", cure="copy", temperature=0.7, prompts=PROMPTS[:1]),
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
    parser.add_argument("--samples", type=int, default=SAMPLES, metavar="N")
    options = parser.parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        for plan in PLANS:
            if (options.folder / plan.folder).is_dir() and plan.tag.startswith(tuple(options.only)):
                run_audits(plan, options)
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        found = options.publish or Path(folder)
        found.mkdir(parents=True, exist_ok=True)
        for report in options.out.glob(f"*/{REPORT}"):
            shutil.copyfile(report, found / f"{report.parent.name}.json")
        print(build_table(found))
    return 0


def run_audits(plan: PlannedAudit, options: argparse.Namespace) -> None:
    """An audit for each prompt, unless its report is there already. Raises SpecvizError where the server does not start."""
    outs = [options.out / f"{plan.tag}-{number}" for number in range(len(plan.prompts))]
    if all((out / REPORT).exists() for out in outs):
        return
    place = options.folder / plan.folder
    if plan.folder == "vllm":
        copy_back.apply_cure(place / "venv", plan.cure)
    try:
        with plan.start(place, options.out / f"{plan.tag}.log") as server:
            for out, prompt in zip(outs, plan.prompts, strict=True):
                if not (out / REPORT).exists():
                    verdict = _run_audit(server, prompt, out, plan, options.samples)
                    print(f"{plan.tag}, \u201c{prompt}\u201d: {verdict}", file=sys.stderr, flush=True)
    finally:
        if plan.cure:
            copy_back.apply_cure(place / "venv", None)


def _run_audit(server: StartedServer, prompt: str, out: Path, plan: PlannedAudit, samples: int) -> str:
    """Run it and return its verdict."""
    command = [sys.executable, "-m", "specviz", "audit", server.address, "--model", server.model, "--prompt", prompt]
    command += [
        "--max-new-tokens",
        str(LENGTH),
        "--samples",
        str(samples),
        "--min-tv",
        str(TV),
        "--temperature",
        str(plan.temperature),
    ]
    command += ["--pair", kinds.NAME, "--dtype", "float32", "--out", str(out)]
    command += ["--body", json.dumps(server.body)] if server.body else []
    done = subprocess.run(command, cwd=kinds.ROOT, capture_output=True, text=True, check=False)
    (out.parent / f"{out.name}.txt").write_text(done.stdout + done.stderr)
    if not (out / REPORT).exists():
        raise SpecvizError(f"The audit of {plan.tag} ended with code {done.returncode}: {done.stderr[-500:].strip()}")
    return json.loads((out / REPORT).read_text())["verdict"]


if __name__ == "__main__":
    sys.exit(main())
