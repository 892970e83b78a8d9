"""What is set once for a process that works for many visitors, so that they neither slow each other down nor leave memory behind.

A pass of PyTorch gives Python's lock away at each operation, and gets it back after up to one switch interval while pages are
drawn. glibc gives many threads an arena of their own, and keeps in each what was freed there. oneDNN keeps what it compiled for
each of the last 1,024 shapes of a product, and the number of tokens in a pass changes all the time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from contextlib import suppress
from functools import lru_cache

SWITCH = 0.0005  # seconds that a thread may keep Python's lock while another waits for it; Python's own choice is 0.005
ARENAS, LARGE = 2, 32 * 2**20  # of glibc: arenas; bytes from which a block is the system's, so that it is gone when it is freed
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
SHAPES = 64  # of products for which oneDNN keeps what it compiled
REST = 10.0  # seconds between two times that memory is handed back

_handing = threading.Lock()
_handed_back = 0.0


@lru_cache(maxsize=1)
def glibc() -> ctypes.CDLL | None:
    """The C library, where it is GNU's."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  only GNU's has it
        return library
    return None


def settle() -> None:
    """Settings of the interpreter, of oneDNN, and of glibc where it is the one that allocates. Before PyTorch is imported."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(SHAPES))
    sys.setswitchinterval(SWITCH)
    if library := glibc():
        for option, value in ((M_ARENA_MAX, ARENAS), (M_MMAP_THRESHOLD, LARGE), (M_TRIM_THRESHOLD, LARGE)):
            library.mallopt(option, value)


def hand_back() -> None:
    """Give freed memory back to the system, at most every REST seconds. Called where work has ended: it takes some ms."""
    global _handed_back
    library = glibc()
    if library is None or not _handing.acquire(blocking=False):
        return
    try:
        if time.monotonic() - _handed_back > REST:
            library.malloc_trim(0)
            _handed_back = time.monotonic()
    finally:
        _handing.release()
