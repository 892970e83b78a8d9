"""``specviz COMMAND``, or ``python -m specviz COMMAND``: the decoder and its tests on the command line.

Exit codes: 0 done; 1 rejected (verify) or altered (check); 2 bad arguments or input, with one sentence on stderr; 3 too few samples
(verify), or a machine too busy for a verdict (plan, bench); 4 not redrawn: a certificate was only compared with itself (check);
70 a bug in this program; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from typing import NoReturn

from specviz.errors import SpecvizError

COMMANDS = {
    "app": "serve the pages in the browser",
    "decode": "decode one text and show where each token came from",
    "verify": "draw many short samples and test them against the target's exact distribution",
    "check": "check a certificate: recompute what follows from its counts, and draw its samples again if the models are available",
    "bench": "measure speed side by side: target-only, speculative, transformers' assisted generation",
    "plan": "predict tokens per target pass, speed-up and the best gamma on a text of yours",
    "study": "find which simple statistic of two models predicts the acceptance rate",
    "pairs": "list pairs of public models, the memory they need, and which fit this machine",
    "train": "train the storybook pair on a text file",
    "site": "write the static edition: pages of recorded runs as plain files, without a server",
    "record": "record what the pages show first: a finished round, the drafting methods, a passage both ways, or plans",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports bad arguments in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help lists the options.\n")


def main(arguments: list[str] | None = None) -> int:
    parser = _Parser(prog="specviz", description="Exact speculative decoding on real models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"specviz.commands.{name}")
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        module.arguments(command)
        command.set_defaults(run=module.run)
    try:
        chosen, unknown = parser.parse_known_args(arguments)
        if unknown:
            commands.choices[chosen.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as left:  # after --help, or bad arguments
        return int(left.code or 0)
    try:
        return chosen.run(chosen) or 0
    except SpecvizError as error:
        print(f"specviz {chosen.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"\ninterrupted{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:  # a bug must not look like verify's answer "rejected", which is exit code 1
        traceback.print_exc()
        return 70


if __name__ == "__main__":
    sys.exit(main())
