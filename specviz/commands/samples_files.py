"""``verify --sample-file``: test samples of any server from a file, against local weights or against a second file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from specviz.commands.progress import Progress
from specviz.errors import EvidenceError, SettingsError
from specviz.settings import Settings


def filed(settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """The report of one file against the target's distribution, or of two files. The prompt comes from the file."""
    from specviz.evidence.sample_files.reading import read
    from specviz.evidence.sample_files.two_files import compare

    if options.sample_file is None:
        raise EvidenceError("--against needs --sample-file: the two files are compared with each other.")
    file = read(options.sample_file)
    if settings.prompt not in ("", file.prompt):
        raise SettingsError("prompt", settings.prompt, f"left out, or the prompt of the file, {file.prompt[:80]!r}")
    if options.against is not None:
        return compare(file, read(options.against), options.tv, settings.seed, Progress("comparing"))
    from specviz.evidence.experiment import Plan
    from specviz.evidence.sample_files.against_weights import against_distribution
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(settings.pair, settings.device, settings.dtype)

    def plan(n: int, length: int) -> Plan:
        return Plan.of(n, length, options.tv)

    return against_distribution(file, replace(settings, prompt=file.prompt), plan, pair, Progress(f"{file.name}: testing"))
