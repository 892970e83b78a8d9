"""What a visitor measures on Serving limits, and the recorded measurement that stands there until then. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from specviz.errors import SettingsError
from specviz.evidence.serving_setups.records import COMPARISONS, SetupComparison
from specviz.records import ASSETS, read_file_or
from specviz.settings import FASTEST_GAMMA, Settings
from specviz.web.common import links
from specviz.web.common.page_state import MeasurementState

RECORDED = ASSETS / "traces" / "setups.json"
ARM = "int8"  # the comparison that the page opens with


@lru_cache(maxsize=1)
def load_recorded_setups() -> SetupComparison | None:
    """The measurement that the page opens with; None where the file is missing or damaged."""
    return read_file_or(RECORDED, SetupComparison.from_json, None)


@dataclass(frozen=True, slots=True)
class SetupsQuestion:
    """What a visitor wants to see. Raises SettingsError for an arm that does not exist."""

    settings: Settings  # prompt, pair and seed
    arm: str = ARM  # which two ways to compute the target are compared at near ties

    def __post_init__(self) -> None:
        plain = self.settings.without_cuts(temperature=1.0, uniforms={}, gamma=FASTEST_GAMMA)
        object.__setattr__(self, "settings", plain)
        if self.arm not in COMPARISONS:
            raise SettingsError("arm", self.arm[:60], f"one of {', '.join(COMPARISONS)}")

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        return links.build_prompt_query(self.settings) | {"arm": self.arm}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[SetupsQuestion, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        start = Settings(prompt=base.prompt, pair=base.pair, device=base.device, dtype=base.dtype)
        settings, said = links.read_prompt(query, start, base)
        question, left_out = links.read_values(query, cls(settings), {"arm": lambda one, text: replace(one, arm=text)})
        return question, said + left_out


class SetupsState(MeasurementState):
    """The question, and every measurement of setups that this visitor has run: (prompt, pair) -> SetupComparison."""

    def build_key(self, question: SetupsQuestion) -> tuple[str, str]:
        return question.settings.prompt, question.settings.pair

    def load_recorded(self) -> SetupComparison | None:
        return load_recorded_setups()
