"""``specviz COMMAND``, or ``python -m specviz COMMAND``: the decoder and its tests on the command line.

Exit codes: 0 done; 1 rejected (verify, audit), altered (check) or not ready (pairs --check); 2 bad arguments or input, with one sentence
on stderr; 3 too few samples (verify, audit), or a machine too busy for a verdict (plan, bench); 4 not redrawn: a certificate was only
compared with itself (check); 5 nothing tested: no draft token was proposed (verify); 70 a bug in this program; 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
import traceback
from typing import NoReturn

from specviz.errors import SpecvizError, is_out_of_memory
from specviz.process import bound_spin

DISK = {
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENAMETOOLONG")
}
LIBRARIES = ("numpy", "scipy", "torch", "transformers", "streamlit", "plotly", "matplotlib")
COMMANDS = {
    "app": "serve the pages in the browser",
    "decode": "decode one text and show where each token came from",
    "verify": "draw many short samples and test them against the target's exact distribution",
    "audit": "collect samples of a running server and test whether what it does is exact",
    "check": "check a certificate: recompute what follows from its counts, and draw its samples again if the models are available",
    "bench": "measure speed side by side: target-only, speculative, transformers' assisted generation",
    "plan": "predict tokens per target pass, speed-up and the best gamma on a text of yours",
    "study": "find which simple statistic of two models predicts the acceptance rate",
    "pairs": "list pairs of public models and which fit this machine; check a pair of your own before its weights are there",
    "train": "train the storybook pair on a text file",
    "worksheet": "write a worksheet for a class, one round by hand, and its key, as PDF",
    "site": "write the static edition: pages of recorded runs as plain files, without a server",
    "record": "record what the pages show first: a finished round, the drafting methods, a passage both ways, or plans",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports bad arguments in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help lists the options.\n")


def main(arguments: list[str] | None = None) -> int:
    bound_spin()
    parser = _Parser(prog="specviz", description="Exact speculative decoding on real models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"specviz.cli.{name}")
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    try:
        chosen, unknown = parser.parse_known_args(arguments)
        if unknown:
            commands.choices[chosen.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as left:  # after --help, or bad arguments
        return int(left.code or 0)
    try:
        code = chosen.run(chosen) or 0
        sys.stdout.flush()  # here, where a full disk behind it becomes a sentence
        return code
    except SpecvizError as error:
        return _refused(chosen.command, str(error))
    except KeyboardInterrupt as stop:
        print(f"\ninterrupted{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:  # a bug must not look like verify's answer "rejected", which is exit code 1
        if sentence := _of_the_machine(error):
            return _refused(chosen.command, sentence)
        traceback.print_exc()
        return 70


def _refused(command: str, sentence: str) -> int:
    print(f"specviz {command}: {sentence}", file=sys.stderr)
    return 2


def _of_the_machine(error: Exception) -> str:
    """A sentence where the machine is what failed: its disk, its memory, or its set of libraries. Empty for anything else."""
    if isinstance(error, OSError) and error.errno in DISK:
        where = f"'{error.filename}'" if error.filename else "The output"
        return f"{where} could not be written or read ({error.strerror})."
    if is_out_of_memory(error):
        return "There was not enough memory. A smaller pair, fewer samples or a shorter text need less."
    if isinstance(error, ModuleNotFoundError) and (name := (error.name or "").partition(".")[0]) in LIBRARIES:
        return f"{name} is not installed. `make run` or `pip install .` in the project's folder installs it."
    return ""


if __name__ == "__main__":
    sys.exit(main())
