"""A line on stderr that says how far a long piece of work is, and how long it will still take."""

from __future__ import annotations

import sys
import time

EVERY = 0.5  # seconds between two lines on a terminal
EVERY_IN_A_FILE = 15.0


class Progress:
    """Call it with the share that is done, in [0, 1]. On a terminal the line is written over, elsewhere now and then."""

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
