"""Does it fit this machine? Memory that is free, and what a model's configuration says it needs, before any weight is read."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import PretrainedConfig

from specviz.errors import ModelError
from specviz.models.pairs.families import library_class
from specviz.models.pairs.public import ROOM


def free_bytes(device: torch.device) -> int:
    """Memory that a model may take now: the accelerator's own, or what the system can still give."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # no such list: half of what is built in


def parameters(config: PretrainedConfig) -> int:
    """Parameters of a model of this configuration, counted without making one."""
    with torch.device("meta"):
        return library_class(config).from_config(config).num_parameters()


def refuse_too_large(place: str, config: PretrainedConfig, device: torch.device, dtype: torch.dtype) -> None:
    """Raises ModelError with both numbers where a model's weights, and the room to run them, do not fit."""
    needed, free = parameters(config) * dtype.itemsize * ROOM, free_bytes(device)
    if needed > free:
        kind = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"'{place}' needs about {needed / 1e9:.1f} GB in {kind}, and {free / 1e9:.1f} GB are free on this {device.type}."
            " Take a smaller model, or one of fewer bytes per number (--dtype bfloat16)."
        )
