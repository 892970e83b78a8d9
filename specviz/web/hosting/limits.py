"""Limits of one visitor: length of a text, samples per minute, and actions per second.

Open pages and memory are limited in admission.py, jobs in the queue (jobs/queue.py). A proxy in front limits addresses: a browser
without cookies is a new visitor each time.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from specviz.errors import SpecvizError, TooLongError
from specviz.process import SharedInstance
from specviz.web.hosting.server_options import load_options

REMEMBERED = 5000  # visitors whose samples are counted; the one who asked longest ago is forgotten first
BURST = 6.0  # seconds' worth of actions that need not wait
LEAST = 20  # a grant is at least this part of a minute's samples, or whatever is asked: no crumbs


def check_text(name: str, text: str) -> str:
    """Return a text for the setting ``name``. Raises TooLongError if it has more bytes than this server takes."""
    most, size = load_options().prompt_bytes, len(text.encode("utf-8", "surrogatepass"))
    if most and size > most:
        raise TooLongError(name, size, most, "bytes", "the limit of this server")
    return text


class SampleAllowance:
    """Samples per minute of each visitor: a token bucket that holds one minute's samples. ``per_minute`` 0: no limit."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic):
        self.per_minute, self.clock = per_minute, clock
        self._lock = threading.Lock()
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()  # visitor -> (samples, at this second)

    def grant(self, visitor: object, count: int) -> int:
        """How many of ``count`` samples may be drawn now, at least one. They count as drawn.

        Raises SpecvizError with the number of seconds to wait.
        """
        if not self.per_minute:
            return count
        with self._lock:
            now = self.clock()
            left, since = self._left.pop(visitor, (float(self.per_minute), now))
            left = min(self.per_minute, left + max(0.0, now - since) * self.per_minute / 60.0)
            least = min(count, max(1, self.per_minute // LEAST))
            granted = min(count, int(left)) if left >= least else 0
            self._left[visitor] = left - granted, now
            while len(self._left) > REMEMBERED:
                self._left.popitem(last=False)
        if granted:
            return granted
        seconds = math.ceil((least - left) * 60.0 / self.per_minute)
        raise SpecvizError(
            f"This server draws {self.per_minute:,} samples a minute for each visitor. Samples drawn so far are kept; go on in {seconds} s."
        )


@SharedInstance
def get_sample_allowance() -> SampleAllowance:
    """The allowance of this server."""
    return SampleAllowance(load_options().samples_per_minute)


class ActionRateLimiter:
    """Actions per second, after a burst. ``per_second`` 0: no limit."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic):
        self.per_second, self.clock = per_second, clock
        self._due = float("-inf")

    def wait(self, actions: float = 1.0) -> float:
        """Seconds to wait before these actions; they count as done."""
        if not self.per_second:
            return 0.0
        now = self.clock()
        before = max(self._due, now - BURST)
        self._due = before + actions / self.per_second
        return max(0.0, before - now)

    @property
    def left(self) -> float:
        """Seconds until the next action need not wait. Reading it does not count as an action."""
        return max(0.0, self._due - self.clock()) if self.per_second else 0.0
