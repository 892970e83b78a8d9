"""How a decoder is sampled and what its tests must detect: the declaration of these options of ``verify`` and ``Pair.verify``."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from specviz.decoding.method_checks import refuse_drafting
from specviz.errors import SettingsError
from specviz.settings import DEFAULTS, SETTINGS, Settings, check_declared, declare_choice, declare_count, declare_number

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


def refuse_unused_sampling(decoder: str, settings: Settings, effort: SamplingEffort) -> None:
    """Raise SettingsError for what has no effect with a decoder, whose name is in any case, or with a mode."""
    name = decoder.lower()
    if name != "speculative":
        refuse_drafting(settings, f"decoder {decoder}")
    if name == "assisted" and effort.mode != "both":
        raise SettingsError("mode", effort.mode, "left out with decoder assisted, which draws one text at a time")
    if name == "target" and settings.gamma != DEFAULTS.gamma:
        raise SettingsError("gamma", settings.gamma, "left out with decoder target, which drafts nothing")
    if effort.mode == "shared-distributions" and effort.seconds != DEFAULT_SAMPLING.seconds:
        allowed = "left out with mode shared-distributions, where samples says how much is drawn"
        raise SettingsError("seconds", effort.seconds, allowed)
