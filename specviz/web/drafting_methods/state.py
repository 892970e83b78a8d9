"""One visitor's gallery: what is asked of it, what was found, and what stood there recorded. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from specviz.errors import SettingsError
from specviz.figures.drafting_methods import matrix
from specviz.measure.methods import ENTRIES, MethodComparison, chosen, from_json
from specviz.prediction.plan import SpeedPlan
from specviz.records import ASSETS, of_file
from specviz.settings import Settings
from specviz.web.common.access import linked
from specviz.web.common.page import Findings, known_pair

RECORDED, GAIN, MATRIX = (ASSETS / "traces" / name for name in ("methods.json", "block.json", "matrix.json"))
CHOICE, ROW = "1", "tree-wide"  # until somebody chooses
FALLBACK = Settings(prompt="Once upon a time")
LENGTH = 32  # tokens of each row on this page


@lru_cache(maxsize=1)
def recorded() -> dict[str, MethodComparison]:
    """The gallery that the page opens with, by choice; empty where the file is missing or damaged."""
    return of_file(RECORDED, from_json, {})


@lru_cache(maxsize=1)
def block_gain() -> SpeedPlan | None:
    """The recorded plan that says what block verification gains; None where the file is missing or damaged."""
    return of_file(GAIN, SpeedPlan.from_json, None)


@lru_cache(maxsize=1)
def recorded_matrix() -> dict[str, Any] | None:
    """Every method under every rule, as ``verify --all`` recorded it; None where there is none."""
    return of_file(MATRIX, matrix.read, None)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a visitor wants to see. Raises SettingsError for a choice or a row that is none.

    settings  prompt, pair and seed; choice  one of lineup.CHOICES; row  key of the row that is drawn
    """

    settings: Settings
    choice: str = CHOICE
    row: str = ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", chosen(self.settings, self.choice))
        if self.row not in ENTRIES:
            raise SettingsError("row", self.row[:60], f"one of {', '.join(ENTRIES)}")

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        query = {key: value for key, value in self.settings.to_query().items() if key == "pair"}
        return query | {"law": self.choice, "row": self.row, "prompt": self.settings.prompt}

    @classmethod
    def of_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Ask, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        mine = {key: query[key] for key in ("prompt", "pair") if key in query}
        found, said = linked(mine)
        settings = replace(opening(base), **{key: getattr(found, key) for key in mine})
        settings, unknown = known_pair(settings, base)
        said += unknown
        ask = cls(settings)
        for parameter, name in (("law", "choice"), ("row", "row")):
            if parameter not in query:
                continue
            try:
                ask = replace(ask, **{name: query[parameter]})
            except SettingsError as error:
                said.append(f"The link's {parameter} was left out: {error}")
        return ask, said


def opening(base: Settings) -> Settings:
    """Text and pair of another page's run, under the settings that every row here has in common."""
    known = recorded()
    common = next(iter(known.values())).settings if known else FALLBACK
    return replace(common, prompt=base.prompt, pair=base.pair, device=base.device, dtype=base.dtype, length=LENGTH)


class Gallery(Findings):
    """What was asked, with every lineup that this visitor has run: (prompt, pair, choice) -> MethodComparison."""

    def key_of(self, question: Ask) -> tuple[str, str, str]:
        return question.settings.prompt, question.settings.pair, question.choice

    def recorded(self) -> MethodComparison | None:
        return recorded().get(self.question.choice)
