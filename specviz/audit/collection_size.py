"""How many samples are collected from a server, with which seeds, and how long an answer may take."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from specviz.settings import check_counts, declare_count

SEED_REGION = 2**29  # seeds of one file: the arms of a comparison, and the probes, have regions of their own, all below 2^31
PROBE_REGION = 2  # the region of the probes
ANSWER_TIMEOUT, MAX_ANSWER_TIMEOUT = 120.0, 3600.0  # seconds for a whole answer: usual, and at most


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """How samples are collected.

    Attributes:
        seed: Decides the seeds of all requests.
        arm: 0 or 1, of two files that are compared.
    """

    samples: int = declare_count(20_000, 1, 1_000_000, "samples of each server")
    concurrency: int = declare_count(8, 1, 256, "requests at a time")
    choices: int = declare_count(1, 1, 128, "samples of a request, where the server gives several")
    seed: int = 7
    arm: int = 0

    def __post_init__(self) -> None:
        check_counts(self)

    @property
    def first_seed(self) -> int:
        return compute_first_seed(self.seed, self.arm)


def compute_first_seed(seed: int, region: int) -> int:
    """Where the seeds of a region begin: in its first half, so that no file reaches the next region. At least 1, below 2^31."""
    digest = hashlib.sha256(f"{seed}".encode()).digest()
    return region * SEED_REGION + 1 + int.from_bytes(digest[:8], "big") % (SEED_REGION // 2)
