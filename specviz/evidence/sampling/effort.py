"""How a decoder is sampled and what its tests must detect: the declaration of these options of ``verify`` and ``Pair.verify``."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from specviz.settings import SETTINGS, check_declared, declare_choice, declare_count, declare_number

SAMPLE_TOKENS = SETTINGS["max_new_tokens"].with_changes(
    default=3, high=4, help="tokens per sample; their joint distribution is tested"
)
MODES = ("both", "shared-distributions", "engine")


@dataclass(frozen=True, slots=True)
class SamplingEffort:
    """How samples are drawn, and what they must detect."""

    mode: str = declare_choice(
        MODES,
        "shared-distributions (samples share each computed distribution), engine (the decoder with its caches), or both (default)",
    )
    samples: int = declare_count(
        200_000, 1, 20_000_000, "number of samples on shared distributions, and most samples from the engine"
    )
    min_tv: float = declare_number(0.01, 1.0, "total variation that the tests must detect", "TV")
    seconds: float = declare_number(
        60.0, inf, "time for samples from the engine, in seconds; up to twice as much where fewer than 2,000 fit", "S"
    )

    def __post_init__(self) -> None:
        check_declared(self)


DEFAULT_SAMPLING = SamplingEffort()
