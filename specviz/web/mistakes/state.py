"""One visitor's trial of a mistake: which one, what was sampled with and without it, what was guessed. Plain records, no torch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specviz.errors import SettingsError
from specviz.evidence.mutants.mistakes import MISTAKES, Mistake
from specviz.figures.mistakes import Curve, Speed
from specviz.settings import Settings
from specviz.web.common.links import linked
from specviz.web.common.pairs import known_pair
from specviz.web.common.sampling import CHOSEN, MOST_SLOW, SIZES, SamplingResult, SamplingState

if TYPE_CHECKING:
    from specviz.evidence.experiment import Answer

HIDDEN = "hidden"
FIRST = "R5"  # until somebody chooses: the commonest one
GUESSES = ("A", "B", "neither")
GAME = {
    "temperature": 1.0,
    "top_k": None,
    "top_p": None,
    "min_p": None,
    "gamma": 2,
    "length": 3,
}  # of a hidden mistake; they tell nothing about it
HIDEABLE = tuple(
    one.id
    for one in MISTAKES.values()
    if one.tier == "sampled" and one.shared and one.settings.temperature == 1.0 and one.settings.top_k is None
)


@dataclass(frozen=True, slots=True)
class Case:
    """What is tried: text, seed and pair of a visitor, everything else the mistake's own. Raises SettingsError."""

    settings: Settings
    mistake: str = FIRST

    def __post_init__(self) -> None:
        if self.mistake != HIDDEN and self.mistake not in MISTAKES:
            raise SettingsError("mistake", self.mistake[:60], f"{HIDDEN} or one of {', '.join(MISTAKES)}")
        settings = replace(self.settings, uniforms={})
        settings = replace(settings, **GAME) if self.hidden else MISTAKES[self.mistake].under(settings)
        object.__setattr__(self, "settings", settings)

    @property
    def hidden(self) -> bool:
        return self.mistake == HIDDEN

    @property
    def wrong(self) -> tuple[str | None, int]:
        """The mistake that is made (None: none is) and which of the two decoders makes it. A game's seed alone decides."""
        if not self.hidden:
            return self.mistake, 1
        stream = random.Random(f"hidden {self.settings.seed}")
        answer = stream.choice(GUESSES)
        return (None, 1) if answer == "neither" else (stream.choice(HIDEABLE), GUESSES.index(answer))

    @property
    def answer(self) -> str:
        """The guess that is right."""
        mistake, arm = self.wrong
        return GUESSES[arm] if mistake else "neither"

    @property
    def known(self) -> Mistake | None:
        return MISTAKES.get(self.wrong[0] or "")

    @property
    def shared(self) -> bool:
        return self.known.shared if self.known else True

    @property
    def most(self) -> int:
        return SIZES[-1] if self.shared else MOST_SLOW

    @property
    def names(self) -> tuple[str, str]:
        return ("Decoder A", "Decoder B") if self.hidden else ("right rule", "wrong rule")

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same trial."""
        query = {key: value for key, value in self.settings.to_query().items() if key in ("seed", "pair")}
        return query | {"mistake": self.mistake, "prompt": self.settings.prompt}

    @classmethod
    def of_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Case, list[str]]:
        """The trial of a link, over ``base`` where it is silent, and a sentence for each value that was left out."""
        mine = {key: query[key] for key in ("prompt", "seed", "pair") if key in query}
        found, left_out = linked(mine)
        settings = replace(base, uniforms={}, **{key: getattr(found, key) for key in mine})
        settings, unknown = known_pair(settings, base)
        said = [*([CHOSEN] if base.edited and "prompt" not in query else []), *left_out, *unknown]
        if others := sorted({"temperature", "top_k", "top_p", "min_p", "gamma", "length", "uniforms"} & set(query)):
            said.append(f"The link's {', '.join(others)} was left out: each mistake brings the settings that show it.")
        try:
            return cls(settings, query.get("mistake", FIRST)), said
        except SettingsError as error:
            return cls(settings), [*said, f"The link's mistake was left out: {error}"]


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts from the same random numbers. same: what both begin with; then each one's first token of its own, and its rest."""

    number: int
    same: str
    first: tuple[str, str]
    rest: tuple[str, str]


@dataclass(frozen=True, slots=True)
class MistakeResult(SamplingResult):
    """What was found so far; both decoders are tested.

    pairs     longer texts from the same random numbers, the first that differ; alike  of how many texts how many were the same
    speeds    what both accept; toy  the mistake's enumerated distance on its own small tables
    same      samples in which both wrote the same tokens
    """

    pairs: tuple[TextPair, ...] = ()
    alike: tuple[int, int] = (0, 0)
    speeds: tuple[Speed, Speed] | None = None
    toy: float = 0.0
    curve: Curve | None = None
    same: int = 0

    def picture(self, case: Case, revealed: bool) -> Curve | None:
        """The curve, with what a visitor may see of it."""
        if self.curve is None:
            return None
        mistake, arm = case.wrong
        if not (revealed and mistake):
            return self.curve
        rejected = {pair[arm].plan.n: pair[arm].verdict == "rejected" for pair in self.looks}
        return replace(self.curve, wrong=arm, rejected=tuple(map(rejected.get, self.curve.n)))


class Trial(SamplingState):
    """A case with everything sampled for it. guess: A, B or neither, once it was made; guessed_at: after how many samples."""

    empty = MistakeResult()

    def begin_anew(self) -> None:
        super().begin_anew()
        self.guess: str | None = None
        self.guessed_at = 0

    @property
    def revealed(self) -> bool:
        """Whether the page may say which decoder is wrong."""
        return not self.question.hidden or self.guess is not None

    @property
    def detected(self) -> Answer | None:
        """The first test that rejected the mistake."""
        mistake, arm = self.question.wrong
        return next((pair[arm] for pair in self.result.looks if mistake and pair[arm].verdict == "rejected"), None)

    def take_guess(self, guess: str) -> None:
        """The first guess counts."""
        if self.guess is None and guess in GUESSES:
            self.guess, self.guessed_at = guess, self.result.n
