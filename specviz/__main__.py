"""``specviz COMMAND``, or ``python -m specviz COMMAND``: the decoder and its tests on the command line.

Exit codes: those of a command are in assets/commands.toml; 2 bad arguments or input, with one sentence on stderr; 70 a bug in this
program; 130 interrupted; 143 ended by SIGTERM. A reader of the output that goes away changes none of them.
"""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import signal
import sys
import threading
import time
import traceback
from difflib import get_close_matches
from types import FrameType
from typing import Any

try:
    from specviz import __version__
    from specviz.cli.common.parser import COMMANDS, CommandParser, UsageError
    from specviz.cli.common.progress import set_quiet
    from specviz.errors import SpecvizError, is_out_of_memory
    from specviz.process import bound_spin, keep_freed_memory, request_large_pages
except KeyboardInterrupt:  # libraries are still being imported
    print("\ninterrupted", file=sys.stderr)
    sys.exit(130)

DISK_ERRORS = {
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENAMETOOLONG")
}
REPEAT_SECONDS = 1.0  # an interrupt so soon after another is the same one
LIBRARY_EXTRAS = {  # a library that an error names as missing -> the extra that installs it; "": the package alone does
    **dict.fromkeys(("huggingface_hub", "numpy", "safetensors", "scipy", "torch", "transformers"), ""),
    **dict.fromkeys(("matplotlib", "plotly", "pydantic_settings", "segno", "streamlit"), "[app]"),
    **dict.fromkeys(("httpx2", "prometheus_client"), "[audit]"),
}
USAGE = "usage: specviz COMMAND [options]\n\nExact speculative decoding on real models.\n\ncommands:\n"
EXAMPLES = """
examples:
  specviz decode --prompt "Once upon a time"
  specviz verify --decoder R5
  specviz COMMAND --help
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    prepare_streams()
    bound_spin()
    request_large_pages()
    interrupts = InterruptHandler()
    if arguments is None:  # a process of its own
        keep_freed_memory()
        outlive_readers()
        interrupts.install()
    words = sys.argv[1:] if arguments is None else arguments
    name, parser = "", None
    try:
        name, words = split_command(words)
        if not name:
            return _answer_without_command(words)
        module = importlib.import_module(f"specviz.cli.{name.replace(' ', '.')}")
        parser = build_parser(name)
        try:
            options = parser.parse(words)
        except SystemExit as left:  # after --help and --version
            return int(left.code or 0)
        set_quiet(options.quiet)
        if options.verbose:
            logging.basicConfig(level=logging.INFO)
        code = module.run(options) or 0
        sys.stdout.flush()  # here, where a full disk behind it becomes a sentence
        return code
    except SpecvizError as error:
        if "-v" in words or "--verbose" in words:
            traceback.print_exc()
        return _print_refusal(name, parser.explain_error(error) if parser else str(error), error.exit_code)
    except KeyboardInterrupt as stop:
        ended = "interrupted" if interrupts.number == signal.SIGINT else f"ended by {signal.Signals(interrupts.number).name}"
        print(f"\n{ended}{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return 128 + interrupts.number
    except Exception as error:  # a bug must not look like verify's answer "rejected", which is exit code 1
        if sentence := _explain_machine_error(error):
            return _print_refusal(name, sentence)
        traceback.print_exc()
        return 70


def prepare_streams() -> None:
    """Let any text be printed: an encoding without a character gets its escape, and a stream that is closed takes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open as long as the process
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


class OutlivingFile(io.FileIO):
    """The file of a standard stream. Where its reader goes away, as ``head`` does, it writes to nowhere: the command goes on to its verdict."""

    def __init__(self, stream: io.TextIOWrapper):
        super().__init__(stream.fileno(), "w", closefd=False)
        self.stream = stream  # without a reference it would close the descriptor

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # so that libraries and child processes write there too
            os.close(nowhere)
            return super().write(content)


def outlive_readers() -> None:
    """Let standard output and standard error go on without a reader."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper and not stream.isatty():  # a file, not what replaces one in this process
            file = OutlivingFile(stream)
            buffer: Any = file if stream.write_through else io.BufferedWriter(file)
            kept = {key: getattr(stream, key) for key in ("encoding", "errors", "line_buffering", "write_through")}
            setattr(sys, name, io.TextIOWrapper(buffer, **kept))


class InterruptHandler:
    """Turns Ctrl-C and SIGTERM into KeyboardInterrupt, so that a command keeps what it has. CI servers and containers send SIGTERM.

    Signals within a second are one: `timeout -s INT` sends two, and the second would cut off what the first one makes a command say.

    Attributes:
        number: Of the signal that ended the command; the exit code is 128 more.
    """

    def __init__(self) -> None:
        self.number, self._last = int(signal.SIGINT), -REPEAT_SECONDS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        before, self._last = self._last, time.monotonic()
        if self._last - before > REPEAT_SECONDS:
            self.number = number
            signal.default_int_handler(number, frame)

    def install(self) -> None:
        """Take both signals, but those that this process ignores or handles in another way."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) == usual:
                signal.signal(number, self)


def build_parser(name: str) -> CommandParser:
    """The parser of a command."""
    module = importlib.import_module(f"specviz.cli.{name.replace(' ', '.')}")
    return CommandParser(name, module.add_arguments)


def split_command(words: list[str]) -> tuple[str, list[str]]:
    """The command that a command line names, "" for none, and its other words. Raises UsageError for an unknown command."""
    place = next((place for place, word in enumerate(words) if word not in ("-v", "--verbose", "-q", "--quiet")), len(words))
    if place == len(words) or words[place].startswith("-"):
        return "", words
    for size in (2, 1):
        if (name := " ".join(words[place : place + size])) in COMMANDS:
            return name, [*words[:place], *words[place + size :]]
    near = get_close_matches(words[place], [name for name in COMMANDS if " " not in name], n=1)
    raise UsageError(
        f"There is no command {words[place]!r}{f'; did you mean {near[0]}?' if near else ';'} --help lists the commands."
    )


def _answer_without_command(words: list[str]) -> int:
    if "--version" in words:
        print(f"specviz {__version__}")
        return 0
    if words and {*words} <= {"-h", "--help", "-v", "--verbose", "-q", "--quiet"} and {"-h", "--help"} & {*words}:
        wide = max(map(len, COMMANDS)) + 2
        print(USAGE + "".join(f"  {name:<{wide}}{one['summary']}\n" for name, one in COMMANDS.items()) + EXAMPLES, end="")
        return 0
    raise UsageError("A command is missing; --help lists the commands.")


def _print_refusal(command: str, sentence: str, code: int = SpecvizError.exit_code) -> int:
    print(f"specviz{' ' * bool(command)}{command}: {sentence}", file=sys.stderr)
    return code


def _explain_machine_error(error: Exception) -> str:
    """A sentence where the machine is what failed: its disk, its memory, or its set of libraries. Empty for anything else."""
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        where = f"'{error.filename}'" if error.filename else "The output"
        return f"{where} could not be written or read ({error.strerror})."
    if is_out_of_memory(error):
        return "There was not enough memory. A smaller pair, fewer samples or a shorter text need less."
    if isinstance(error, ModuleNotFoundError) and (name := (error.name or "").partition(".")[0]) in LIBRARY_EXTRAS:
        return f'{name} is not installed. `pip install ".{LIBRARY_EXTRAS[name]}"` in the project\'s folder installs it.'
    return ""


if __name__ == "__main__":
    sys.exit(main())
