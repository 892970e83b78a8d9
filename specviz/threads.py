"""How many threads PyTorch uses for a forward pass on a CPU, chosen by measuring it.

A second thread nearly halves the time of a pass over many tokens on a quiet machine. Beside another busy process it can make a
pass over few tokens 50 times slower, because PyTorch's threads spin after every operation. So each model's passes are timed with
1, 2, 4, ... threads, separately for few tokens (a round) and for many (shared distributions), and again when passes have become
much slower. See "Threads" in docs/explanation/architecture.md. A number that the user has set is never changed:
``OMP_NUM_THREADS``, ``MKL_NUM_THREADS``, or ``torch.set_num_threads`` called before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch

from specviz.process import count_usable_cores

SET_BY_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
FEW = 16  # tokens, over all rows, up to which a pass is of the kind that a round makes
PROBE_TOKENS = 64  # tokens of a probe's pass over many
REPEATS_FEW, REPEATS_MANY = 4, 2  # timed passes of a probe with each number of threads, after one that is not timed
ENOUGH = 0.5  # seconds of timed passes after which no more are made: a slow pass varies little
GAIN = 0.87  # share of the time that twice the threads may take; else they are not worth what they cost beside other processes
HOPELESS = 1.5  # times as long as with fewer threads: a single pass that long ends the probe
SLOW, STRIKES = 3.0, 2  # a pass is slow at so many times the usual time; so many in a row call for a new probe
SLOW_INTERVAL, SLOW_COSTS = 1.0, 20  # least seconds between two probes after slow passes, and as a multiple of a probe's duration
IDLE_INTERVAL, IDLE_COSTS = 60.0, 200  # the same while fewer threads are used than there are: the machine may be quiet again
FIXED_COST = 16  # the time of a pass grows about as its tokens plus so many

T = TypeVar("T")

_lock = threading.Lock()
_default: int | None = None  # threads that PyTorch started with; 0: the user has chosen their number; None: not known yet
_limit: int | None = None  # most threads of a pass in this process; None: no limit but the default
_preserving = 0  # calls of ``preserve_thread_count`` under way
_held = threading.local()  # now: whether choices are held
_threads_of: WeakKeyDictionary[Any, dict[Hashable, PassThreads]] = WeakKeyDictionary()


def count_max_threads() -> int:
    """Most threads that a pass may use in this process, at least 1; 0 if their number is the user's."""
    global _default
    if _default is None:
        _default = _find_default()
    return min(_default, _limit or _default)


def limit_threads(count: int) -> None:
    """Let passes in this process use at most ``count`` threads, and set it for the calling thread.

    Call it in every thread that computes: PyTorch keeps the number per thread, and oneDNN reads it before PyTorch has passed it
    on to a new thread.
    """
    global _limit
    _limit = count
    if most := count_max_threads():
        _use(most)


@contextmanager
def preserve_thread_count() -> Iterator[None]:
    """Put PyTorch's number of threads back afterward. For calls from a program that may use PyTorch for other work too."""
    global _default, _preserving
    with _lock:
        if not _preserving:
            _default = _find_default()  # the caller may have set another number since
        _preserving += 1
        default = _default
    try:
        yield
    finally:
        with _lock:
            _preserving -= 1
        if default:
            _use(default)


@contextmanager
def hold_choices() -> Iterator[None]:
    """Measure no choice again in passes of this thread, so that what is timed contains no probe. A first choice is still measured."""
    _held.now = True
    try:
        yield
    finally:
        _held.now = False


class PassThreads:
    """The number of threads for passes through one model, for a few tokens and for many. Shared by all threads that use the model."""

    def __init__(self, on_cpu: bool):
        self.on_cpu = on_cpu
        self.few, self.many = ThreadChoice(REPEATS_FEW), ThreadChoice(REPEATS_MANY)

    @classmethod
    def for_model(cls, model: Any, part: Hashable = None) -> PassThreads:
        """The choice for a transformers model, created on first use. part: which of its layers, if not all."""
        with _lock:
            parts = _threads_of.setdefault(model, {})
            if part not in parts:
                parts[part] = cls(model.device.type == "cpu")
            return parts[part]

    def run(self, tokens: int, forward: Callable[[], T], probe: Callable[[], object]) -> T:
        """Make a pass over ``tokens`` tokens with the number of threads that is fastest for it, and return its result.

        ``probe`` makes a pass like it without side effects, over at most ``PROBE_TOKENS`` tokens.
        """
        choice = self.prepare(tokens, probe)
        if choice is None or choice.count == 1:
            return forward()
        began = time.perf_counter()
        result = forward()
        choice.note((time.perf_counter() - began) / (tokens + FIXED_COST))
        return result

    def prepare(self, tokens: int, probe: Callable[[], object]) -> ThreadChoice | None:
        """Choose the number of threads for passes of so many tokens, and set it for the calling thread. Arguments as for ``run``.

        Returns the choice, or None if there is nothing to choose.
        """
        most = count_max_threads() if self.on_cpu else 0
        if not most:
            return None
        if most == 1:
            _use(1)
            return None
        choice = self.few if tokens <= FEW else self.many
        if choice.is_due(most) and not (choice.measured_at is not None and getattr(_held, "now", False)):
            choice.measure(probe, most)
        _use(min(choice.count, most))
        return choice

    @property
    def count_in_rounds(self) -> int:
        """Threads of a pass over a few tokens: the chosen number, or PyTorch's own before the first such pass."""
        most = count_max_threads() if self.on_cpu else 0
        return min(self.few.count, most) if most and self.few.measured_at is not None else torch.get_num_threads()


class ThreadChoice:
    """The number of threads for one kind of pass, ``count``; 1 until it has been measured by ``repeats`` passes each."""

    def __init__(self, repeats: int):
        self.repeats, self.count = repeats, 1
        self.measured_at: float | None = None
        self._cost = 0.0  # seconds of the last probe
        self._usual: float | None = None  # seconds per token, as ``note`` has them
        self._slow = 0  # slow passes in a row
        self._measuring = threading.Lock()

    def is_due(self, most: int) -> bool:
        """Whether a probe should be made before the next pass."""
        if self.measured_at is None:
            return True
        since = time.monotonic() - self.measured_at
        if self._slow >= STRIKES:
            return since > max(SLOW_INTERVAL, SLOW_COSTS * self._cost)
        return self.count < most and since > max(IDLE_INTERVAL, IDLE_COSTS * self._cost)

    def measure(self, probe: Callable[[], object], most: int) -> None:
        """Double the number of threads as long as that is worth it. Does nothing while another thread measures."""
        if not self._measuring.acquire(blocking=False):
            return
        try:
            began, count = time.monotonic(), 1
            seconds = median(_time(probe, count, self.repeats))
            while count < most:
                more = min(2 * count, most)
                times = _time(probe, more, self.repeats, HOPELESS * seconds)
                if fmean(times) > GAIN * seconds:  # the mean, because a pass that had to wait for a core counts
                    break
                count, seconds = more, median(times)
            self.count, self.measured_at, self._usual, self._slow = count, time.monotonic(), None, 0
            self._cost = self.measured_at - began
        finally:
            self._measuring.release()

    def note(self, pace: float) -> None:
        """Compare a pass with those before it. pace: its seconds divided by its tokens plus ``FIXED_COST``."""
        if self._usual is not None and pace > SLOW * self._usual:
            self._slow += 1
            return
        self._slow = 0
        self._usual = pace if self._usual is None else 0.9 * self._usual + 0.1 * pace


def _time(probe: Callable[[], object], count: int, repeats: int, too_long: float = float("inf")) -> list[float]:
    """Seconds of passes with ``count`` threads, up to ``ENOUGH``. The first one warms up; one that takes too long is the last."""
    _use(count)
    times: list[float] = []
    for number in range(repeats + 1):
        began = time.perf_counter()
        probe()
        seconds = time.perf_counter() - began
        if number or seconds > 10 * too_long:
            times.append(seconds)
        if times and (times[-1] > too_long or sum(times) > ENOUGH):
            break
    return times


def _use(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def _find_default() -> int:
    """PyTorch's number of threads, or 0 if the user has chosen it."""
    if any(os.environ.get(name) for name in SET_BY_USER):
        return 0
    count = torch.get_num_threads()
    return count if count in _list_default_counts() else 0


def _list_default_counts() -> set[int]:
    """Numbers of threads with which PyTorch starts by itself: of usable cores, of all, and of those that are not hyperthreads."""
    counts = {count_usable_cores(), os.cpu_count() or 1}
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        if sys.platform == "linux":
            if Path("/sys/devices/system/cpu/smt/active").read_text().strip() == "1":
                counts |= {count // 2 for count in counts}
        elif sys.platform == "darwin":
            for name in ("hw.physicalcpu", "hw.perflevel0.physicalcpu"):  # PyTorch leaves out efficiency cores
                answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=10, check=False)
                counts.add(int(answer.stdout))
        else:
            counts |= {count // 2 for count in counts}
    return counts
