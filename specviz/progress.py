"""Progress of long work: the share of a stage that is done, as a share of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Expect = Callable[[float], None]  # told, once a probe was timed, how many seconds the whole will take
Watch = Callable[[float, str], None]  # told the share of the work that is done, and what is being done; may raise to stop it


def unwatched(*told: object) -> None:
    """A watch that does nothing."""


def stages(watch: Watch, weights: Mapping[str, float]) -> dict[str, Callable[..., None]]:
    """One watch for each stage, in their order; what is being done is the stage's name unless it is given.

    weights  the time that each stage takes, in any unit, such as seconds by a probe; above 0 in all
    """
    total, before, found = sum(weights.values()), 0.0, {}
    for name, weight in weights.items():

        def told(share: float, doing: str = name, before: float = before, weight: float = weight) -> None:
            watch((before + weight * share) / total, doing)

        found[name] = told
        before += weight
    return found
