"""What a visitor compares on Drafting methods, and the recorded comparisons that stand there until then. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from specviz.errors import SettingsError, TraceError
from specviz.records import ASSETS, read_file_or
from specviz.settings import Settings
from specviz.speed.records.methods import DRAFTING_METHODS, MethodComparison, choose_distribution, load_comparisons
from specviz.speed.records.pair_record import PairRecord, load_pair_records
from specviz.speed.records.plan import SpeedPlan
from specviz.web.common import links
from specviz.web.common.cost_choice import MEASURED, apply_costs, check_costs
from specviz.web.common.page_state import MeasurementState
from specviz.web.drafting_methods import rule_matrix

RECORDED, GAIN, MATRIX = (ASSETS / "traces" / name for name in ("methods.json", "block.json", "matrix.json"))
FALLBACK = Settings(prompt="Once upon a time")
LENGTH = 32  # tokens of each row on this page


@lru_cache(maxsize=1)
def load_recorded_comparisons() -> dict[str, MethodComparison]:
    """The comparisons that the page opens with, by choice; empty where the file is missing or damaged."""
    return read_file_or(RECORDED, load_comparisons, {})


@lru_cache(maxsize=1)
def load_block_gain() -> SpeedPlan | None:
    """The recorded plan that says what block verification gains; None where the file is missing or damaged."""
    return read_file_or(GAIN, SpeedPlan.from_json, None)


@lru_cache(maxsize=1)
def load_matrix() -> dict[str, Any] | None:
    """Every method under every rule, as ``matrix`` recorded it; None where there is none."""
    return read_file_or(MATRIX, rule_matrix.read_matrix, None)


@lru_cache(maxsize=1)
def load_recorded_pairs() -> tuple[PairRecord, ...]:
    """The gallery of pairs; empty where a record is damaged."""
    try:
        return tuple(load_pair_records())
    except TraceError:
        return ()


@dataclass(frozen=True, slots=True)
class MethodsQuestion:
    """What a visitor wants to see. Raises SettingsError for a choice or a row that does not exist.

    settings  prompt, pair and seed; choice  temperature and top-p, one of CHOICES; row  the method whose round is drawn, empty: none
    costs     whose count, one of ``cost_choice.list_cost_titles``
    """

    settings: Settings
    choice: str = "1"
    row: str = ""
    costs: str = MEASURED

    def __post_init__(self) -> None:
        check_costs(self.costs)
        object.__setattr__(self, "settings", choose_distribution(self.settings, self.choice))
        if self.row and self.row not in DRAFTING_METHODS:
            raise SettingsError("row", self.row[:60], f"one of {', '.join(DRAFTING_METHODS)}")

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        chosen = {"row": self.row} if self.row else {}
        chosen |= {"costs": self.costs} if self.costs != MEASURED else {}
        return links.build_prompt_query(self.settings) | {"distribution": self.choice} | chosen

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[MethodsQuestion, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        settings, said = links.read_prompt(query, build_first_settings(base), base)
        put = {
            "distribution": lambda one, text: replace(one, choice=text),
            "row": lambda one, text: replace(one, row=text),
            "costs": lambda one, text: replace(one, costs=text),
        }
        question, left_out = links.read_values(query, cls(settings), put)
        return question, said + left_out


def build_first_settings(base: Settings) -> Settings:
    """Text and pair of another page's run, under the settings that every row here has in common."""
    common = next((one.settings for one in load_recorded_comparisons().values()), FALLBACK)
    return replace(common, prompt=base.prompt, pair=base.pair, device=base.device, dtype=base.dtype, max_new_tokens=LENGTH)


class MethodsState(MeasurementState):
    """The question, and every comparison that this visitor has run: (prompt, pair, choice) -> MethodComparison."""

    def build_key(self, question: MethodsQuestion) -> tuple[str, str, str]:
        return question.settings.prompt, question.settings.pair, question.choice

    def load_recorded(self) -> MethodComparison | None:
        return load_recorded_comparisons().get(self.question.choice)

    def apply_costs(self, comparison: MethodComparison) -> MethodComparison:
        """A comparison with the chosen costs."""
        return apply_costs(comparison, self.question.costs)
