"""Settings of a process: which memory it keeps."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specviz.process import find_glibc

COUNT_FAULTS = """
import resource
import numpy as np
from specviz.process import keep_freed_memory

if {is_kept}:
    keep_freed_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.full(64 * 2**20, 1, dtype=np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(find_glibc() is None, reason="only glibc has these settings")
def test_a_command_uses_freed_memory_again():
    def count_faults(is_kept: bool) -> int:
        """Page faults of the third block of 64 MB, after two others were freed."""
        code = COUNT_FAULTS.format(is_kept=is_kept)
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    assert count_faults(True) == 0 < count_faults(False)
