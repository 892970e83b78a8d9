"""Does a model fit this machine? Compares free memory with what its configuration needs, before any weight is read."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import PretrainedConfig

from specviz.errors import ModelError
from specviz.models.pairs.families import library_class
from specviz.models.pairs.public import OVERHEAD


def free_bytes(device: torch.device) -> int:
    """Bytes of memory that a model may take now, on the accelerator or in the system."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # no such list: half of the physical memory


def parameters(config: PretrainedConfig) -> int:
    """Number of parameters of a model of this configuration, counted without allocating it."""
    with torch.device("meta"):
        return library_class(config).from_config(config).num_parameters()


def refuse_too_large(place: str, config: PretrainedConfig, device: torch.device, dtype: torch.dtype) -> None:
    """Raise ModelError with both numbers if a model's weights and the memory to run them do not fit."""
    needed, free = parameters(config) * dtype.itemsize * OVERHEAD, free_bytes(device)
    if needed > free:
        kind = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"'{place}' needs about {needed / 1e9:.1f} GB in {kind}, and {free / 1e9:.1f} GB are free on this {device.type}."
            " Take a smaller model, or one of fewer bytes per number (--dtype bfloat16)."
        )
