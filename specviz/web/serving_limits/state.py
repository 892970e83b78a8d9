"""One visitor's laboratory: what is asked, what was found, and what stood there recorded. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from specviz.errors import SettingsError
from specviz.records import ASSETS, of_file
from specviz.serving.near_ties import COMPARISONS
from specviz.serving.setups import SetupComparison, from_json
from specviz.settings import Settings
from specviz.web.common.access import linked
from specviz.web.common.page import Findings, known_pair

RECORDED = ASSETS / "traces" / "setups.json"
ARM = "bf16"  # until somebody chooses
GAMMA = 2  # draft tokens of a round: of the fixed lengths two pay best on the shipped pair


@lru_cache(maxsize=1)
def recorded() -> SetupComparison | None:
    """The laboratory that the page opens with; None where the file is missing or damaged."""
    return of_file(RECORDED, from_json, None)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a visitor wants to see. Raises SettingsError for an arm that is none.

    settings  prompt, pair and seed; arm  key of the comparison that lies under the microscope
    """

    settings: Settings
    arm: str = ARM

    def __post_init__(self) -> None:
        plain = replace(self.settings, temperature=1.0, top_k=None, top_p=None, min_p=None, uniforms={}, gamma=GAMMA)
        object.__setattr__(self, "settings", plain)
        if self.arm not in COMPARISONS:
            raise SettingsError("arm", self.arm[:60], f"one of {', '.join(COMPARISONS)}")

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        query = {key: value for key, value in self.settings.to_query().items() if key == "pair"}
        return query | {"arm": self.arm, "prompt": self.settings.prompt}

    @classmethod
    def of_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Ask, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        mine = {key: query[key] for key in ("prompt", "pair") if key in query}
        found, said = linked(mine)
        common = Settings(prompt=base.prompt, pair=base.pair, device=base.device, dtype=base.dtype)
        settings = replace(common, **{key: getattr(found, key) for key in mine})
        settings, unknown = known_pair(settings, base)
        said += unknown
        try:
            return cls(settings, query.get("arm", ARM)), said
        except SettingsError as error:
            return cls(settings), [*said, f"The link's arm was left out: {error}"]


class Surroundings(Findings):
    """What was asked, with every laboratory that this visitor has run: (prompt, pair) -> SetupComparison."""

    def key_of(self, question: Ask) -> tuple[str, str]:
        return question.settings.prompt, question.settings.pair

    def recorded(self) -> SetupComparison | None:
        return recorded()
