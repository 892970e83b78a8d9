"""The machine, the models and the date that a record of measurements names."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.models.pairs.loading import LoadedPair
from specviz.threads import PassThreads


def describe_measurement(pair: LoadedPair) -> dict[str, Any]:
    """Fields of a record: the machine, the models and the date that its numbers come from."""
    return {"machine": describe_machine(pair), "models": pair.describe(), "date": format_today()}


def format_today() -> str:
    """The date of a record, in UTC: 22 November 2026."""
    return datetime.now(UTC).strftime("%-d %B %Y")


def describe_machine(pair: LoadedPair) -> dict[str, Any]:
    """The machine of a measurement."""
    cuda = pair.target.device.type == "cuda"
    return {
        "processor": torch.cuda.get_device_name() if cuda else _read_processor(),
        "cores": os.cpu_count(),
        "threads": PassThreads.for_model(pair.target).count_in_rounds,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": pair.describe()["dtype"],
    }


def _read_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
