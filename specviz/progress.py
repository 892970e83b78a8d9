"""Progress of long work: the share that is done, in [0, 1], and what is being done.

``ProgressCallback`` is the one way in which work reports how far it is and asks whether to go on. Callables of other names are
events: ``on_round`` and ``on_rounds`` (a round of decoding has ended), ``on_item`` (a timed item begins), ``show`` (a result so far).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Expect = Callable[[float], None]  # an event: a probe was timed, and the whole work will take so many seconds

PROBE_WEIGHT = 0.1  # share of the work after which its own speed counts as much as a probe before it


class ProgressCallback(Protocol):
    """Called several times a second with the share done, 0 to 1, and what is being done. It may raise to stop the work."""

    def __call__(self, share: float, doing: str = "", /) -> None: ...


def ignore_progress(*_: object) -> None:
    """The callback that does nothing."""


def scale_progress(on_progress: ProgressCallback, low: float, high: float, doing: str = "") -> ProgressCallback:
    """The callback of one part of the work: it maps [0, 1] to [low, high] of the whole. doing: for a part without words of its own."""

    def report(share: float, own: str = "", /) -> None:
        on_progress(low + (high - low) * share, own or doing)

    return report


def split_progress(on_progress: ProgressCallback, weights: Mapping[str, float]) -> dict[str, ProgressCallback]:
    """One callback for each stage of the work, in their order. A stage reports its name unless it is given another text.

    ``weights``: the time that each stage takes, in any unit, such as seconds by a probe; above 0 in all.
    """
    total, before = sum(weights.values()), 0.0
    parts: dict[str, ProgressCallback] = {}
    for name, weight in weights.items():
        parts[name] = scale_progress(on_progress, before / total, (before + weight) / total, name)
        before += weight
    return parts


def estimate_seconds_left(expected: float, share: float, spent: float) -> float:
    """Estimate the seconds left from a probe (``expected``, of the whole work) and the speed so far (``spent`` for ``share``)."""
    return (1.0 - share) * (PROBE_WEIGHT * expected + spent) / (PROBE_WEIGHT + share)
