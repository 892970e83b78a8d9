"""One visitor's gallery: what is asked of it, what was found, and what stood there recorded. Plain records, no torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType

from specviz.errors import SettingsError, SpecvizError
from specviz.lineup import ENTRIES, Lineup, chosen, from_json
from specviz.models.catalogue import ASSETS, PAIRS
from specviz.settings import Settings
from specviz.web.exact import Exam

RECORDED = ASSETS / "traces" / "gallery.json"
CHOICE, ROW = "1", "tree"  # until somebody chooses
FALLBACK = Settings(prompt="Once upon a time")
LENGTH = 32  # tokens of each row on this page


@lru_cache(maxsize=1)
def recorded() -> dict[str, Lineup]:
    """The gallery that the page opens with, by choice; empty where the file is missing or damaged."""
    try:
        return from_json(RECORDED.read_text(encoding="utf-8"))
    except (OSError, SpecvizError):
        logging.getLogger(__name__).exception("there is no recorded gallery to open with")
        return {}


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
        found, said = Settings.from_query(mine)
        settings = replace(opening(base), **{key: getattr(found, key) for key in mine})
        if settings.pair not in PAIRS and settings.pair != base.pair:
            said.append(
                f"The link's pair was left out: {settings.pair[:200]!r} is not in the catalogue (known: {', '.join(PAIRS)})."
            )
            settings = replace(settings, pair=Settings().pair)
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


class Gallery(Exam):
    """What was asked, with every lineup that this visitor has run: (prompt, pair, choice) -> Lineup."""

    def __init__(self, question: Ask, *queue):
        super().__init__(question, *queue)
        self.found: dict[tuple[str, str, str], Lineup] = {}

    @staticmethod
    def work() -> ModuleType:
        from specviz.web import lineup_work

        return lineup_work

    @property
    def key(self) -> tuple[str, str, str]:
        return self.question.settings.prompt, self.question.settings.pair, self.question.choice

    @property
    def shown(self) -> Lineup | None:
        """The visitor's own lineup, else the recorded one."""
        return self.found.get(self.key) or recorded().get(self.question.choice)

    @property
    def own(self) -> bool:
        return self.key in self.found

    def ask_all(self) -> None:
        """Ask for every row on this prompt."""
        self.said = []
        self._submit("run_all", self.question)

    def choose(self, ask: Ask) -> bool:
        """Look at something else; returns whether it is. Work for another prompt or law stops, another row only shows."""
        if ask == self.question:
            return False
        if (ask.settings, ask.choice) != (self.question.settings, self.question.choice):
            self.stop()
        self.question = ask
        return True
