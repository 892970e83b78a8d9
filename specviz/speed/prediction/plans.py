"""The plans that the page How fast? opens with: one for each draft and temperature, on one text. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specviz.errors import SettingsError
from specviz.models.pairs.catalog import PAIRS
from specviz.records import Schema, build, plain
from specviz.settings import Settings
from specviz.speed.prediction.plan import SpeedPlan

PLANS_SCHEMA = Schema("plans", 3, "The record of plans")
PLAN_TEXT = "bedtime"  # kind of text that they are made on
PLAN_GAMMAS = tuple(range(1, 9))
PLAN_DRAFTS = {  # name -> the settings that choose it, and what it is
    "storybook": ({"pair": "storybook", "proposer": "draft"}, "the draft distilled from the target"),
    "storybook-plain": ({"pair": "storybook-plain", "proposer": "draft"}, "a draft trained on text alone"),
    "ngram": ({"pair": "storybook", "proposer": "ngram"}, "draft tokens copied from the text so far"),
}
OWN_PAIR_DRAFTS = {  # of a pair of one's own, for which there are no recorded plans
    "draft": ({"proposer": "draft"}, "the pair's draft"),
    "ngram": ({"proposer": "ngram"}, "draft tokens copied from the text so far"),
}
PLAN_TEMPERATURES = ("0", "0.6", "1")


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """A draft and a temperature by name. Raises SettingsError for names that are not known."""

    draft: str = "storybook"
    temperature: str = "1"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("draft", self.draft, PLAN_DRAFTS | OWN_PAIR_DRAFTS),
            ("temperature", self.temperature, PLAN_TEMPERATURES),
        ):
            if value not in known:
                raise SettingsError(name, value[:60], f"one of {', '.join(known)}")

    @property
    def key(self) -> str:
        return f"{self.draft} {self.temperature}"

    def under(self, base: Settings) -> Settings:
        """These settings with the choice; a pair of one's own stays, one of the catalog is what the draft says."""
        chosen = (PLAN_DRAFTS if base.pair in PAIRS else OWN_PAIR_DRAFTS)[self.draft][0]
        return replace(base, temperature=float(self.temperature), **chosen)


PLAN_CHOICES = tuple(PlanChoice(draft, temperature) for draft in PLAN_DRAFTS for temperature in PLAN_TEMPERATURES)


def dump_plans(plans: Mapping[str, SpeedPlan]) -> str:
    return PLANS_SCHEMA.text({"plans": plain(plans)})


def load_plans(text: str) -> dict[str, SpeedPlan]:
    """The plans of a file by key. Raises TraceError for anything else."""
    return PLANS_SCHEMA.read(text, lambda record: build(dict[str, dict[str, SpeedPlan]], record)["plans"])
