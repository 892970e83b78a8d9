"""How much is done for a plan: the declaration of these options of ``plan`` and ``Pair.plan``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specviz.settings import check_declared, declare_count

LEAST_SECONDS = 10
# Of a first answer, which is there within 30 seconds for the shipped pair on two cores: QUICK_SECONDS, and 6 to load libraries and models.
QUICK_CONTINUATIONS, QUICK_PROBES, QUICK_SECONDS = 12, 9, 24


@dataclass(frozen=True, slots=True)
class PlanEffort:
    """How much is done for a plan. ``Settings.max_new_tokens`` tokens follow each opening; prompts are all continued.

    Attributes:
        check: Whether rounds are measured as well, with other seeds.
        timed: Texts that are timed, at most.
        seconds: Where continuations and probes would take longer, there are fewer of both, continuations are shorter if need be, and
            not every draft length is timed. The plan says how many there were, and its intervals are wider. A plan with ``check`` is
            never cut.
    """

    continuations: int = declare_count(64, 2, 4096, "continuations, from as many places of the text")
    opening: int = declare_count(64, 1, 4096, "tokens of the text before each")
    probes: int = declare_count(45, 2, 1000, "runs of the probes that rounds are timed by", zero="for a plan without speed")
    check: bool = False
    runs: int = declare_count(
        6, 2, 100, "runs of the clock of --check, each over texts of its own, of which fewer than 6 give no verdict"
    )
    timed: int = 64
    seconds: int = declare_count(
        300, LEAST_SECONDS, 86_400, "seconds that a plan may take; where it would take longer, less is done"
    )

    def __post_init__(self) -> None:
        check_declared(self)

    def make_quick(self, seconds: int = QUICK_SECONDS) -> PlanEffort:
        """The effort of a first answer, which takes about ``seconds`` at most."""
        continuations, probes = min(self.continuations, QUICK_CONTINUATIONS), min(self.probes, QUICK_PROBES)
        return replace(self, continuations=continuations, probes=probes, check=False, seconds=min(self.seconds, seconds))

    def subtract_seconds(self, spent: float) -> PlanEffort:
        """The effort that is left after some of the seconds, and at least ``LEAST_SECONDS``."""
        return replace(self, seconds=max(LEAST_SECONDS, round(self.seconds - spent)))


DEFAULT_EFFORT = PlanEffort()
