"""Progress of long tasks on stderr: how much is done, how long the rest will take, and single lines. ``--quiet`` leaves it out."""

from __future__ import annotations

import sys
import time

from specviz.progress import ProgressCallback, scale_progress

TERMINAL_SECONDS = 0.5  # seconds between two updates on a terminal
FILE_SECONDS = 15.0  # seconds between two lines elsewhere
TELLING_SHARE = 0.1  # before it, loading and warming up are most of what passed
LINE_WIDTH = 78  # columns of a line that is overwritten
_quiet = False


def set_quiet(quiet: bool) -> None:
    """Whether this process prints nothing but errors on stderr."""
    global _quiet
    _quiet = quiet


class Progress:
    """A line on stderr: what is being done, the share done in [0, 1], and how long the rest will take.

    On a terminal the line is overwritten; elsewhere a line is printed now and then.
    """

    def __init__(self, label: str):
        self.label, self.began, self.terminal = label, time.monotonic(), sys.stderr.isatty()
        self.printed_at = self.began

    def __call__(self, share: float, doing: str = "", /) -> None:
        now = time.monotonic()
        done = share >= 1.0
        if _quiet or (
            now - self.printed_at < (TERMINAL_SECONDS if self.terminal else FILE_SECONDS) and not (done and self.terminal)
        ):
            return
        self.printed_at = now
        spent = now - self.began
        left = f", about {spent * (1.0 - share) / share:.0f} s left" if TELLING_SHARE <= share < 1.0 else ""
        line = f"{self.label}{doing and f', {doing}'}: {share:.0%}{left}"
        padded = f"\r{line[:LINE_WIDTH]:<{LINE_WIDTH}}" if self.terminal else line
        print(padded, end="\n" if done or not self.terminal else "", file=sys.stderr, flush=True)

    def make_part(self, number: int, parts: int) -> ProgressCallback:
        """The progress of one of several equal parts, counted from 0."""
        return scale_progress(self, number / parts, (number + 1) / parts)


def log_line(line: str) -> None:
    """Print a line on stderr, over a progress line on a terminal."""
    if not _quiet:
        print(f"\r{line:<{LINE_WIDTH}}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
