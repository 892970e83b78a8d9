"""One visitor's trial of a mistake: which one, what was sampled with and without it, what was guessed. Plain records, no torch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from specviz.errors import SettingsError
from specviz.evidence.mistakes.comparison import RULES, MistakeResult
from specviz.evidence.mistakes.published import OFFERED_MISTAKES, PublishedMistake
from specviz.evidence.recordings.samples import MistakeSamplesRecord, has_same_samples
from specviz.evidence.results import SIZES, InterimTest
from specviz.settings import SAMPLING_FIELDS, SETTINGS, Settings
from specviz.web.common.error_sentences import explain_left_out
from specviz.web.common.links import read_link
from specviz.web.common.pairs import resolve_pair
from specviz.web.common.side_by_side.state import CHOSEN, MOST_SLOW, SamplingState, load_recorded_samples

HIDDEN = "hidden"
GAME_SAMPLES = SIZES[0]  # with which the game opens: as many as its first test needs
GUESSES = ("A", "B", "neither")
GAME = {
    **{name: SETTINGS[name].default for name in SAMPLING_FIELDS},
    "gamma": 2,
    "max_new_tokens": 3,
}  # of a hidden mistake; they tell nothing about it
HIDEABLE = tuple(
    mistake.id
    for mistake in OFFERED_MISTAKES.values()
    if mistake.can_be_sampled
    and mistake.on_shared_distributions
    and mistake.settings.temperature == 1.0
    and mistake.settings.top_k is None
)


@dataclass(frozen=True, slots=True)
class MistakeQuestion:
    """What is tried: text, seed and pair of a visitor, everything else the mistake's own. Raises SettingsError."""

    settings: Settings
    mistake_id: str = HIDDEN

    def __post_init__(self) -> None:
        if self.mistake_id != HIDDEN and self.mistake_id not in OFFERED_MISTAKES:
            raise SettingsError("mistake", self.mistake_id[:60], f"{HIDDEN} or one of {', '.join(OFFERED_MISTAKES)}")
        settings = replace(self.settings, uniforms={})
        settings = replace(settings, **GAME) if self.is_hidden else OFFERED_MISTAKES[self.mistake_id].apply_settings(settings)
        object.__setattr__(self, "settings", settings)

    @property
    def is_hidden(self) -> bool:
        return self.mistake_id == HIDDEN

    @property
    def wrong_decoder(self) -> tuple[str | None, int]:
        """The mistake (None: there is none) and which of the two decoders has it. The seed of a game decides."""
        if not self.is_hidden:
            return self.mistake_id, 1
        stream = random.Random(f"hidden {self.settings.seed}")
        answer = stream.choice(GUESSES)
        return (None, 1) if answer == "neither" else (stream.choice(HIDEABLE), GUESSES.index(answer))

    @property
    def wrong_index(self) -> int | None:
        """The decoder that has a mistake; None where neither has."""
        mistake, place = self.wrong_decoder
        return place if mistake else None

    @property
    def answer(self) -> str:
        """The right guess."""
        return "neither" if self.wrong_index is None else GUESSES[self.wrong_index]

    @property
    def mistake(self) -> PublishedMistake | None:
        return OFFERED_MISTAKES.get(self.wrong_decoder[0] or "")

    @property
    def on_shared_distributions(self) -> bool:
        """Whether both decoders can be sampled on shared distributions."""
        return self.mistake is None or self.mistake.on_shared_distributions

    @property
    def max_samples(self) -> int:
        return SIZES[-1] if self.on_shared_distributions else MOST_SLOW

    @property
    def names(self) -> tuple[str, str]:
        return ("Decoder A", "Decoder B") if self.is_hidden else RULES

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same trial."""
        query = {key: value for key, value in self.settings.to_query().items() if key in ("seed", "pair")}
        return query | {"mistake": self.mistake_id, "prompt": self.settings.prompt}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[MistakeQuestion, list[str]]:
        """The trial of a link, over ``base`` where it is silent, and a sentence for each value that was left out."""
        mine = {key: query[key] for key in ("prompt", "seed", "pair") if key in query}
        found, left_out = read_link(mine)
        settings = replace(base, uniforms={}, **{key: getattr(found, key) for key in mine})
        settings, unknown = resolve_pair(settings, base)
        said = [*([CHOSEN] if base.is_edited and "prompt" not in query else []), *left_out, *unknown]
        if others := sorted({*GAME, "uniforms"} & set(query)):
            said.append(f"The link's {', '.join(others)} was left out: each mistake brings the settings that show it.")
        try:
            return cls(settings, query.get("mistake", HIDDEN)), said
        except SettingsError as error:
            return cls(settings), [*said, explain_left_out(error)]


class MistakeState(SamplingState):
    """A case with everything sampled for it. guess: A, B or neither, once it was made; guessed_at: after how many samples."""

    empty = MistakeResult()

    def load_recorded(self) -> MistakeSamplesRecord | None:
        if (records := load_recorded_samples()) is None:
            return None
        record = records.find_mistake(self.question.mistake_id)
        return record if record is not None and has_same_samples(self.question.settings, record.settings) else None

    @property
    def next_test(self) -> int | None:
        """Samples at the next test. The samples of a game's own go on where the recorded ones end: the seed makes them the same."""
        return self.find_test_after((self.shown_result if self.question.is_hidden else self.result).n)

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

    def find_rejection(self, result: MistakeResult) -> InterimTest | None:
        """The first test that rejected the mistake."""
        place = self.question.wrong_index
        return next((pair[place] for pair in result.looks if place is not None and pair[place].verdict == "rejected"), None)

    def record_guess(self, guess: str | None) -> None:
        """The first guess counts."""
        if self.guess is None and guess and guess in GUESSES:
            self.guess, self.guessed_at = guess, self.shown_result.n
