"""What is set once for the server's process, so that many visitors at a time neither slow each other down nor leave memory behind.

Both were measured with the tools of ``make crowd``. A pass of PyTorch gives Python's lock away at each operation and waits for it
again, up to one switch interval each time, while pages are drawn. glibc gives each thread an arena of its own, and keeps blocks
of up to 32 MB in it after they were freed.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

SWITCH = 0.0005  # seconds that a thread may keep Python's lock while another waits for it; Python's own choice is 0.005
ARENAS, FROM_THE_SYSTEM = 2, 2**20  # of glibc: arenas; bytes from which a block is handed back to the system when it is freed
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h


def settle() -> None:
    """Settings of the interpreter, and of glibc where it is the one that allocates."""
    sys.setswitchinterval(SWITCH)
    with suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version()
        for option, value in ((M_ARENA_MAX, ARENAS), (M_MMAP_THRESHOLD, FROM_THE_SYSTEM), (M_TRIM_THRESHOLD, FROM_THE_SYSTEM)):
            libc.mallopt(option, value)
