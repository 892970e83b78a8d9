"""Settings of a process that works for many visitors: latency beside other Python threads, and memory.

PyTorch releases the GIL at each operation and may wait a whole switch interval to get it back. glibc gives each thread its own
arena and keeps freed memory there. oneDNN keeps compiled code for each of the last 1,024 shapes of a product.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Generic, TypeVar

SWITCH_INTERVAL = 0.0005  # seconds for which a thread may hold the GIL while another waits; Python's default is 0.005
MAX_ARENAS = 2  # of glibc
LARGE_BLOCK = 32 * 2**20  # bytes from which glibc maps a block, so that freeing it returns it to the system
KEPT_BYTES = 2**30  # freed bytes at the end of its heap that a command keeps
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -3, -4, -8  # malloc.h
CACHED_SHAPES = 64  # of products for which oneDNN keeps compiled code
SPIN_COUNT = 10_000  # turns for which a thread of libgomp waits before it sleeps; its own choice is 300,000, a millisecond
BUSY_LOAD = 0.75  # load per core above which measured times are said to be those of a busy machine
TRIM_INTERVAL = 10.0  # seconds between two calls of malloc_trim

T = TypeVar("T")

_trim_lock = threading.Lock()
_trimmed_at = 0.0


class SharedInstance(Generic[T]):
    """Decorator for a function without arguments that makes an object with state, one per process.

    ``functools.lru_cache`` holds no lock: threads that call such a function at the same moment each get an object of their own.
    """

    def __init__(self, make: Callable[[], T]):
        self._make, self._made = make, list[T]()
        self._lock = threading.RLock()  # a signal handler may run in the thread that holds it
        self.__doc__ = make.__doc__

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    @property
    def is_made(self) -> bool:
        """Whether the object exists."""
        return bool(self._made)

    def forget(self) -> None:
        """The next call makes a new object."""
        with self._lock:
            self._made.clear()


@lru_cache(maxsize=1)
def find_glibc() -> ctypes.CDLL | None:
    """The C library if it is glibc, else None."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  only glibc has it
        return library
    return None


def count_usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bound_spin() -> None:
    """Let PyTorch's threads sleep sooner while they wait for each other. Call it before PyTorch is imported.

    libgomp reads the environment once. The OpenMP libraries of PyTorch for macOS and Windows give way to other processes by
    themselves.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))


def request_large_pages() -> None:
    """Let PyTorch ask Linux for pages of 2 MB for large tensors. Call it before PyTorch is imported, which reads the environment once.

    At a vocabulary of 262,144 a pass returns tens of megabytes of distributions, and a page of 4 KB is cleared at its first use.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of any size for the next ones, for a process that does one piece of work and ends.

    By default it maps every block above 32 MB anew, and each of its pages is cleared at its first use: a quarter of the time of rounds
    of many rows at a vocabulary of 262,144. ``trim_memory`` still returns the freed memory.
    """
    if library := find_glibc():
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def configure_process() -> None:
    """Configure the interpreter, oneDNN and glibc. Call it before PyTorch is imported, which reads the environment once."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(CACHED_SHAPES))
    bound_spin()
    sys.setswitchinterval(SWITCH_INTERVAL)
    if library := find_glibc():
        for option, value in ((M_ARENA_MAX, MAX_ARENAS), (M_MMAP_THRESHOLD, LARGE_BLOCK), (M_TRIM_THRESHOLD, LARGE_BLOCK)):
            library.mallopt(option, value)


def trim_memory() -> None:
    """Return freed memory to the system, at most every ``TRIM_INTERVAL`` seconds. It takes some ms, so call it after work has ended."""
    global _trimmed_at
    library = find_glibc()
    if library is None or not _trim_lock.acquire(blocking=False):
        return
    try:
        if time.monotonic() - _trimmed_at > TRIM_INTERVAL:
            library.malloc_trim(0)
            _trimmed_at = time.monotonic()
    finally:
        _trim_lock.release()
