"""Parsers of the commands: every refusal is a sentence, and a misspelled or renamed option is answered with the right one."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from specviz import __version__
from specviz.errors import SettingsError, SpecvizError, TooLongError
from specviz.records import load_toml
from specviz.settings import FOREIGN_NAMES, RENAMED, write_option

COMMANDS = load_toml("commands")  # name -> summary, examples, notes, exit codes
NOTES_WIDTH = 100  # columns of the notes below the options
RENAMED_OPTIONS = {write_option(old): write_option(name) for old, name in RENAMED.items()}
FOREIGN_OPTIONS = {write_option(name): write_option(own) for name, own in FOREIGN_NAMES.items()}
MOVED_OPTIONS = {  # (command, option) -> the command that took its place
    ("verify", "--all"): "specviz matrix",
    ("verify", "--only"): "specviz matrix --only NAME",
    ("verify", "--against"): "specviz compare FILE FILE2",
    ("bench", "--curve"): "specviz bench curves",
    ("bench", "--policies"): "specviz bench policies",
    ("bench", "--samples"): "specviz bench samples N",
    ("bench", "--shapes"): "specviz bench shapes LxW,...",
    ("pairs", "--check"): "specviz pairs check TARGET DRAFT",
    ("pairs", "--download"): "specviz pairs download TARGET DRAFT",
    ("pairs", "--no-probe"): "specviz pairs check TARGET DRAFT --no-probe",
}


OUTCOME_OPTION = "--junit"  # the file that tells a CI server how a run ended
OUTCOME_MARK = b"<testsuite"
MISSING = "the following arguments are required: "  # how argparse begins this sentence


class UsageError(SpecvizError):
    """A command line that cannot be read."""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Breaks lines between words alone, so that a name with a hyphen, such as early-exit, can be found."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class CommandParser(argparse.ArgumentParser):
    """The parser of one command. It raises UsageError or SettingsError instead of printing the usage.

    Args:
        name: Of the command, one or two words.
        add_arguments: Adds its options.
    """

    def __init__(self, name: str, add_arguments: Callable[[argparse.ArgumentParser], None]):
        texts = COMMANDS[name]
        below = ["examples:", *(f"  {line}" for line in texts["examples"])]
        if codes := texts.get("exit_codes"):
            below += ["", "exit codes:", *(f"  {code:<2} {meaning}" for code, meaning in codes.items())]
        below += ["", *textwrap.wrap(texts["notes"], NOTES_WIDTH)] if "notes" in texts else []
        super().__init__(
            prog=f"specviz {name}",
            description=f"{texts['summary'][0].upper()}{texts['summary'][1:]}.",
            epilog="\n".join(below),
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        self.name = name
        add_arguments(self)
        add_general_options(self)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options of a command line. Raises UsageError, or SettingsError for a value that an option cannot have.

        An earlier run's file of ``OUTCOME_OPTION`` is removed where the line is refused: it must not pass for this run's.
        """
        try:
            return self._read_options(words)
        except SpecvizError:
            if OUTCOME_OPTION in self._option_string_actions:
                _remove_outcome(words)
            raise

    def _read_options(self, words: Sequence[str]) -> argparse.Namespace:
        for word in words:
            if word == "--":
                break
            if word.startswith("--") and (option := word.partition("=")[0]) not in self._option_string_actions:
                raise UsageError(self.explain_unknown(option))
        options, unknown = self.parse_known_args(words)
        if unknown:
            raise UsageError(self.explain_unknown(unknown[0]))
        return options

    def explain_error(self, error: SpecvizError) -> str:
        """The sentence of an error: of a setting with its option or "the", of any other as it is."""
        if not isinstance(error, SettingsError) or isinstance(error, TooLongError):
            return str(error)
        option = write_option(error.name)
        return error.explain(option if option in self._option_string_actions else f"The {error.name}")

    def explain_unknown(self, word: str) -> str:
        """A sentence on a word that is no option of this command."""
        if not word.startswith("-"):
            return f"{word!r} is one argument too many; --help lists the options."
        if place := MOVED_OPTIONS.get((self.name, word)):
            return f"{word} of {self.name} is a command now: {place}."
        if (present := RENAMED_OPTIONS.get(word)) in self._option_string_actions:
            return f"{word} is called {present} now."
        usual = word.replace("_", "-")
        if (present := FOREIGN_OPTIONS.get(usual)) in self._option_string_actions:
            return f"There is no option {word}; here it is {present}. --help lists the options."
        near = get_close_matches(usual, self._option_string_actions, n=1, cutoff=0.7)
        return f"There is no option {word}{f'; did you mean {near[0]}?' if near else ';'} --help lists the options."

    def error(self, message: str) -> NoReturn:
        lacking, message = message.partition(MISSING), message.removeprefix("argument ")
        if lacking[1]:
            message = f"{lacking[2].replace(', ', ' and ')} {'are' if ',' in lacking[2] else 'is'} missing"
        raise UsageError(f"{message}; --help lists the options.")


def _remove_outcome(words: Sequence[str]) -> None:
    """Remove the file that a command line names as its outcome, where it holds an outcome."""
    pairs = [*pairwise(words), *(word.split("=", 1) for word in words if "=" in word)]
    for _, name in (pair for pair in pairs if pair[0] == OUTCOME_OPTION):
        with suppress(OSError, ValueError):
            path = Path(name)
            if OUTCOME_MARK in path.read_bytes()[:1000]:
                path.unlink()


def add_general_options(parser: argparse.ArgumentParser) -> None:
    """``--version``, ``-v`` and ``-q``, which every command has."""
    group = parser.add_argument_group("general")
    group.add_argument("--version", action="version", version=f"specviz {__version__}", help="print the version and exit")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument(
        "-v", "--verbose", action="store_true", help="print details on stderr: log lines, and where an error arose"
    )
    loudness.add_argument("-q", "--quiet", action="store_true", help="print nothing on stderr but errors")
