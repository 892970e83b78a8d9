"""Audits the servers that are there: ``python -m tools.servers.audits FOLDER --out OUT``. FOLDER holds what get.sh has put into
FOLDER/vllm, FOLDER/llama.cpp and FOLDER/transformers. For each server, drafting and prompt one ``specviz audit`` against the shipped weights;
its report stands in OUT, and a line of the table is printed. Minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import SpecvizError
from specviz.statistics.finding import p_in_words
from tools.servers import kinds
from tools.servers.kinds import Started

PROMPTS = (
    "Once upon a time",
    "The old king said",
    "In the middle of the forest",
    '"Where are you going?" asked',
    "She opened the door and",
)
GAMMAS = (0, 1, 3, 5)
LENGTH = 4
NEXT = "next tokens given their prefix"  # the conditional chi-square test over all positions
HEAD = (
    *("server", "prompt", "samples", "drafting", "verdict", "next tokens, chi-square / df", "smallest p, corrected", "TV"),
    "parts at, looks like",
)
REPORT = Path("certificate") / "report.json"
SAMPLES, TV = 2400, 0.1
GENERATIONS: tuple[dict[str, object], ...] = ({}, {"prompt_lookup_num_tokens": 3}, {"assistant_early_exit": 4})


@dataclass(frozen=True, slots=True)
class Planned:
    """One start of a server. folder: its own, below the given one; tag: its name in file names."""

    folder: str
    tag: str
    start: Callable[[Path, Path], AbstractContextManager[Started]]


def _gamma(start: Callable[[Path, Path, int], AbstractContextManager[Started]], folder: str, gamma: int) -> Planned:
    return Planned(folder, f"{folder}-{gamma}", lambda place, log: start(place, log, gamma))


def _generation(fields: dict[str, object]) -> Planned:
    tag = next(iter(fields), "plain").partition("_num")[0].replace("_", "-")
    return Planned("transformers", f"transformers-{tag}", lambda place, log: kinds.transformers(place, log, fields))


PLANS = (
    *(_gamma(kinds.vllm, "vllm", gamma) for gamma in GAMMAS),
    *(_gamma(kinds.llama_cpp, "llama.cpp", gamma) for gamma in GAMMAS),
    *(_generation(fields) for fields in GENERATIONS),
)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder that holds what get.sh put into its subfolders")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for reports, samples and logs")
    parser.add_argument("--only", nargs="+", metavar="TAG", help="beginnings of tags, such as vllm or llama.cpp-3")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), metavar="N", help="how many of the five prompts")
    parser.add_argument("--samples", type=int, default=SAMPLES, metavar="N")
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T")
    parser.add_argument("--label", default="", help="put before each tag, such as cured-")
    options = parser.parse_args(given)
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    try:
        for plan in PLANS:
            if (options.folder / plan.folder).is_dir() and plan.tag.startswith(tuple(options.only or ("",))):
                for line in audited(plan, options):
                    print(line, flush=True)
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def audited(plan: Planned, options: argparse.Namespace) -> Iterator[str]:
    """A line of the table for each prompt. Raises SpecvizError where the server does not start."""
    tag = options.label + plan.tag
    with plan.start(options.folder / plan.folder, options.out / f"{tag}.log") as server:
        for number, prompt in enumerate(PROMPTS[: options.prompts]):
            out = options.out / f"{tag}-{number}"
            if not (out / REPORT).exists():
                _audit(server, prompt, out, options)
            yield line(server.title, prompt, json.loads((out / REPORT).read_text()))


def _audit(server: Started, prompt: str, out: Path, options: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "specviz", "audit", server.address, "--model", server.model, "--prompt", prompt]
    command += [
        "--length",
        str(LENGTH),
        "--samples",
        str(options.samples),
        "--tv",
        str(TV),
        "--temperature",
        str(options.temperature),
    ]
    command += ["--target", str(kinds.MODELS / "target"), "--draft", str(kinds.MODELS / "draft"), "--dtype", "float32"]
    command += ["--out", str(out), "--body", json.dumps(server.body)] if server.body else ["--out", str(out)]
    done = subprocess.run(command, cwd=kinds.ROOT, capture_output=True, text=True, check=False)
    (out.parent / f"{out.name}.txt").write_text(done.stdout + done.stderr)
    if not (out / REPORT).exists():
        raise SpecvizError(f"The audit of {server.title} ended with code {done.returncode}: {done.stderr[-500:].strip()}")


def line(title: str, prompt: str, report: dict[str, Any]) -> str:
    """A report as a line of the table."""
    one, audit = report["answers"][0], report["audit"]
    test = next(test for test in one["tests"] if test["name"] == NEXT)
    smallest = min(test["adjusted_p"] for test in one["tests"])
    cells = [title, prompt, f"{one['n']:,}", audit["speculation"]["verdict"].removeprefix("speculation was "), one["verdict"]]
    cells += [f"{test['statistic']:,.0f} / {test['df']}", p_in_words(smallest), f"{one['tv']:.3f}", looks(audit["diagnosis"])]
    return f"| {' | '.join(cells)} |"


def looks(found: dict[str, Any] | None) -> str:
    """Where rejected samples part, and the mistake that predicts them best."""
    if not found:
        return ""
    place, best = found["parting"], found["matches"][0]
    said = f"{best['mistake']}, 10^{best['log10_ratio']:.0f}, explains {best['explained']:.0%}"
    said += "" if best["mistake"] in found["named"] else ", not named"
    return said if place is None else f"token {place['position']}; {said}"


if __name__ == "__main__":
    sys.exit(main())
