"""One visitor's laboratory: what is asked, what was found, and what stood there recorded. Plain records, no torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType

from specviz.errors import SettingsError, SpecvizError
from specviz.models.pairs.catalogue import PAIRS
from specviz.records import ASSETS
from specviz.serving.near_ties import ARMS
from specviz.serving.setups import Laboratory, from_json
from specviz.settings import Settings
from specviz.web.common.access import linked
from specviz.web.exactness.state import Exam

RECORDED = ASSETS / "traces" / "surroundings.json"
ARM = "bf16"  # until somebody chooses
GAMMA = 2  # draft tokens of a round: of the fixed lengths two pay best on the shipped pair


@lru_cache(maxsize=1)
def recorded() -> Laboratory | None:
    """The laboratory that the page opens with; None where the file is missing or damaged."""
    try:
        return from_json(RECORDED.read_text(encoding="utf-8"))
    except (OSError, SpecvizError):
        logging.getLogger(__name__).exception("there is no recorded laboratory to open with")
        return None


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
        if self.arm not in ARMS:
            raise SettingsError("arm", self.arm[:60], f"one of {', '.join(ARMS)}")

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
        if settings.pair not in PAIRS and settings.pair != base.pair:
            said.append(
                f"The link's pair was left out: {settings.pair[:200]!r} is not in the catalogue (known: {', '.join(PAIRS)})."
            )
            settings = replace(settings, pair=Settings().pair)
        try:
            return cls(settings, query.get("arm", ARM)), said
        except SettingsError as error:
            return cls(settings), [*said, f"The link's arm was left out: {error}"]


class Surroundings(Exam):
    """What was asked, with every laboratory that this visitor has run: (prompt, pair) -> Laboratory."""

    def __init__(self, question: Ask, *queue):
        super().__init__(question, *queue)
        self.found: dict[tuple[str, str], Laboratory] = {}

    @staticmethod
    def work() -> ModuleType:
        from specviz.web.serving_limits import work

        return work

    @property
    def key(self) -> tuple[str, str]:
        return self.question.settings.prompt, self.question.settings.pair

    @property
    def shown(self) -> Laboratory | None:
        """The visitor's own laboratory, else the recorded one."""
        return self.found.get(self.key) or recorded()

    @property
    def own(self) -> bool:
        return self.key in self.found

    def ask_all(self) -> None:
        """Ask for every row, and the microscope, on this prompt."""
        self.said = []
        self._submit("run_all", self.question)

    def choose(self, ask: Ask) -> bool:
        """Look at something else; returns whether it is. Work for another prompt stops, another arm only shows."""
        if ask == self.question:
            return False
        if ask.settings != self.question.settings:
            self.stop()
        self.question = ask
        return True
