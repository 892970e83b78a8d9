"""``python -m specviz COMMAND``: the same engine without a browser.

Exit codes: 0 done, 2 bad arguments or input (one sentence on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from specviz.errors import SpecvizError

COMMANDS = {
    "decode": "decode one text and show where each token came from",
    "bench": "measure speed side by side: target only, speculative, transformers' assisted generation",
    "train": "train the storybook pair on a text file",
    "record": "record the finished round that the page opens with",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m specviz", description="Exact speculative decoding on real models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"specviz.commands.{name}")
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        module.arguments(command)
        command.set_defaults(run=module.run)
    chosen = parser.parse_args(arguments)
    try:
        return chosen.run(chosen) or 0
    except SpecvizError as error:
        print(f"specviz {chosen.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
