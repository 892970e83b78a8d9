"""A progress line on stderr: how much of a long task is done, and how long the rest will take."""

from __future__ import annotations

import sys
import time

EVERY = 0.5  # seconds between two updates on a terminal
EVERY_IN_A_FILE = 15.0  # seconds between two lines elsewhere


class Progress:
    """Call it with the fraction done, in [0, 1]. On a terminal the line is overwritten; elsewhere a line is printed now and then."""

    def __init__(self, label: str):
        self.label, self.began, self.terminal = label, time.monotonic(), sys.stderr.isatty()
        self.said = self.began

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        done = share >= 1.0
        if now - self.said < (EVERY if self.terminal else EVERY_IN_A_FILE) and not (done and self.terminal):
            return
        self.said = now
        spent = now - self.began
        left = f", about {spent * (1.0 - share) / share:.0f} s left" if 0.0 < share < 1.0 else ""
        line = f"{self.label}: {share:.0%}{left}"
        print(
            f"\r{line:<70}" if self.terminal else line, end="\n" if done or not self.terminal else "", file=sys.stderr, flush=True
        )
