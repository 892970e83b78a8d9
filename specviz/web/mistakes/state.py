"""One visitor's trial of a mistake: which one, what was sampled with and without it, what was guessed. Plain records, no torch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from specviz.errors import SettingsError
from specviz.evidence.bugs.comparison import RULES, BugResult
from specviz.evidence.bugs.published import MISTAKES, Mistake
from specviz.evidence.recorded_samples import BugSamplesRecord, has_same_samples
from specviz.evidence.results import SIZES, InterimTest
from specviz.settings import SAMPLING_FIELDS, SETTINGS, Settings
from specviz.web.common.links import read_link
from specviz.web.common.pairs import resolve_pair
from specviz.web.sampling.state import CHOSEN, MOST_SLOW, SamplingState, load_recorded_samples

HIDDEN = "hidden"
FIRST = "R5"  # until somebody chooses: the commonest one
GUESSES = ("A", "B", "neither")
GAME = {
    **{name: SETTINGS[name].default for name in SAMPLING_FIELDS},
    "gamma": 2,
    "max_new_tokens": 3,
}  # of a hidden mistake; they tell nothing about it
HIDEABLE = tuple(
    one.id
    for one in MISTAKES.values()
    if one.tier == "sampled" and one.shared and one.settings.temperature == 1.0 and one.settings.top_k is None
)


@dataclass(frozen=True, slots=True)
class BugQuestion:
    """What is tried: text, seed and pair of a visitor, everything else the mistake's own. Raises SettingsError."""

    settings: Settings
    mistake: str = FIRST

    def __post_init__(self) -> None:
        if self.mistake != HIDDEN and self.mistake not in MISTAKES:
            raise SettingsError("mistake", self.mistake[:60], f"{HIDDEN} or one of {', '.join(MISTAKES)}")
        settings = replace(self.settings, uniforms={})
        settings = replace(settings, **GAME) if self.is_hidden else MISTAKES[self.mistake].under(settings)
        object.__setattr__(self, "settings", settings)

    @property
    def is_hidden(self) -> bool:
        return self.mistake == HIDDEN

    @property
    def wrong(self) -> tuple[str | None, int]:
        """The mistake that is made (None: none is) and which of the two decoders makes it. A game's seed alone decides."""
        if not self.is_hidden:
            return self.mistake, 1
        stream = random.Random(f"hidden {self.settings.seed}")
        answer = stream.choice(GUESSES)
        return (None, 1) if answer == "neither" else (stream.choice(HIDEABLE), GUESSES.index(answer))

    @property
    def wrong_index(self) -> int | None:
        """The decoder that makes a mistake; None where neither does."""
        mistake, arm = self.wrong
        return arm if mistake else None

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
        return ("Decoder A", "Decoder B") if self.is_hidden else RULES

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same trial."""
        query = {key: value for key, value in self.settings.to_query().items() if key in ("seed", "pair")}
        return query | {"mistake": self.mistake, "prompt": self.settings.prompt}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[BugQuestion, list[str]]:
        """The trial of a link, over ``base`` where it is silent, and a sentence for each value that was left out."""
        mine = {key: query[key] for key in ("prompt", "seed", "pair") if key in query}
        found, left_out = read_link(mine)
        settings = replace(base, uniforms={}, **{key: getattr(found, key) for key in mine})
        settings, unknown = resolve_pair(settings, base)
        said = [*([CHOSEN] if base.is_edited and "prompt" not in query else []), *left_out, *unknown]
        if others := sorted({*GAME, "uniforms"} & set(query)):
            said.append(f"The link's {', '.join(others)} was left out: each mistake brings the settings that show it.")
        try:
            return cls(settings, query.get("mistake", FIRST)), said
        except SettingsError as error:
            return cls(settings), [*said, f"The link's mistake was left out: {error}"]


class BugState(SamplingState):
    """A case with everything sampled for it. guess: A, B or neither, once it was made; guessed_at: after how many samples."""

    empty = BugResult()

    def recorded(self) -> BugSamplesRecord | None:
        found, asked = load_recorded_samples(), self.question
        same = (
            found is not None
            and asked.mistake == found.mistakes.mistake
            and has_same_samples(asked.settings, found.mistakes.settings)
        )
        return found.mistakes if same else None

    def reset_findings(self) -> None:
        super().reset_findings()
        self.guess: str | None = None
        self.guessed_at = 0

    @property
    def is_revealed(self) -> bool:
        """Whether the page may say which decoder is wrong."""
        return not self.question.is_hidden or self.guess is not None

    @property
    def first_rejection(self) -> InterimTest | None:
        """The first test of the visitor's own samples that rejected the mistake."""
        return self.find_rejection(self.result)

    def find_rejection(self, result: BugResult) -> InterimTest | None:
        """The first test that rejected the mistake."""
        mistake, arm = self.question.wrong
        return next((pair[arm] for pair in result.looks if mistake and pair[arm].verdict == "rejected"), None)

    def record_guess(self, guess: str) -> None:
        """The first guess counts."""
        if self.guess is None and guess in GUESSES:
            self.guess, self.guessed_at = guess, self.result.n
