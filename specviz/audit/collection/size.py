"""How many samples are collected from a server, with which seeds, and how often it is asked: declarations of options of ``audit``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from specviz.settings import check_declared, declare_count, declare_number

SEED_REGION = 2**29  # seeds of one file: the arms of a comparison, and the probes, have regions of their own, all below 2^31
PROBE_REGION, CONFIRMATION_REGION = 2, 3  # the regions of the probes, and of a reproduction that is run
MOST_SAMPLES = 1_000_000  # of a server


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """How samples are collected.

    Attributes:
        seed: Decides the seeds of all requests.
        arm: 0 or 1, of two files that are compared.
    """

    samples: int = declare_count(20_000, 1, MOST_SAMPLES, "samples of each server")
    concurrency: int = declare_count(8, 1, 256, "requests at a time")
    choices: int = declare_count(1, 1, 128, "samples of a request, where the server gives several")
    seed: int = 7
    arm: int = 0

    def __post_init__(self) -> None:
        check_declared(self)

    @property
    def first_seed(self) -> int:
        return compute_first_seed(self.seed, self.arm)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How long an answer may take, and how often a server is asked. rate: None: as often as it answers."""

    timeout: float = declare_number(120.0, 3600.0, "seconds for an answer", "S", " seconds")
    rate: float | None = declare_number(
        None, 1e6, "most requests per second", "R", " requests per second", "as many as the server answers"
    )

    def __post_init__(self) -> None:
        check_declared(self)


def compute_first_seed(seed: int, region: int) -> int:
    """Where the seeds of a region begin: in its first half, so that no file reaches the next region. At least 1, below 2^31."""
    digest = hashlib.sha256(f"{seed}".encode()).digest()
    return region * SEED_REGION + 1 + int.from_bytes(digest[:8], "big") % (SEED_REGION // 2)
