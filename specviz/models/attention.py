"""The attention kernels that torch may take for passes of ever new shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_users = 0
_was_enabled = True  # cuDNN's attention before the first of the users


@contextmanager
def avoid_shape_plans(device: torch.device) -> Iterator[None]:
    """Run passes on a GPU without cuDNN's attention, in the whole process.

    cuDNN builds a plan for every new number of queries or keys, which takes about 100 ms; torch prefers it in half precision on
    recent GPUs. Recorded passes have one shape, so it serves them well. Afterwards it is allowed or not as
    before. On other devices this does nothing.
    """
    global _users, _was_enabled
    if device.type != "cuda":
        yield
        return
    with _lock:
        if not _users:
            _was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
        _users += 1
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                torch.backends.cuda.enable_cudnn_sdp(_was_enabled)
