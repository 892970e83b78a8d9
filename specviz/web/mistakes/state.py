"""One visitor's question on Break it: which mistake, or the game, and what was sampled with and without it. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specviz.errors import SettingsError
from specviz.evidence.mistakes.comparison import RULES, MistakeResult
from specviz.evidence.mistakes.published import REPORTED, PublishedMistake
from specviz.evidence.recordings.samples import MistakeSamplesRecord, has_same_samples
from specviz.evidence.testing.results import SIZES, InterimTest
from specviz.settings import SAMPLING_FIELDS, Settings, update_names
from specviz.web.common.error_sentences import explain_left_out, name_setting
from specviz.web.common.links import read_link
from specviz.web.common.page_state import Work
from specviz.web.common.pairs import resolve_pair
from specviz.web.common.side_by_side.state import CHOSEN, MOST_SLOW, SamplingState, load_recorded_samples

HIDDEN = "hidden"  # the game, in links
FIRST = "R4"  # the mistake with which the list opens: a famous server, and bars that leave their boxes at once
OWN = (*SAMPLING_FIELDS, "gamma", "max_new_tokens")  # settings that a mistake brings


@dataclass(frozen=True, slots=True)
class MistakeQuestion:
    """The settings of a trial: text, seed and pair of a visitor, everything else the mistake's own. The seed chooses the game. Raises SettingsError."""

    settings: Settings
    mistake_id: str = HIDDEN

    def __post_init__(self) -> None:
        if self.mistake_id not in (HIDDEN, *REPORTED):
            raise SettingsError("mistake", self.mistake_id[:60], f"{HIDDEN} or one of {', '.join(REPORTED)}")
        source = Settings() if self.is_hidden else self.mistake.settings
        own = {name: getattr(source, name) for name in OWN}
        object.__setattr__(self, "settings", replace(self.settings, uniforms={}, **own))

    @property
    def is_hidden(self) -> bool:
        """Whether it is the game."""
        return self.mistake_id == HIDDEN

    @property
    def mistake(self) -> PublishedMistake:
        """Raises KeyError for the game."""
        return REPORTED[self.mistake_id]

    @property
    def on_shared_distributions(self) -> bool:
        """Whether both decoders can be sampled on shared distributions."""
        return self.is_hidden or self.mistake.on_shared_distributions

    @property
    def max_samples(self) -> int:
        return SIZES[-1] if self.on_shared_distributions else MOST_SLOW

    @property
    def names(self) -> tuple[str, str]:
        return RULES

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same trial."""
        query = {key: value for key, value in self.settings.to_query().items() if key in ("seed", "pair")}
        return query | {"mistake": self.mistake_id, "prompt": self.settings.prompt}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[MistakeQuestion, list[str]]:
        """The trial of a link, over ``base`` where it is silent, and a sentence for each value that was left out.

        A link that names no mistake opens the game, or the first mistake if it brings a text to sample.
        """
        opened = FIRST if "prompt" in query else HIDDEN
        mine = {key: query[key] for key in ("prompt", "seed", "pair") if key in query}
        found, left_out = read_link(mine)
        settings = replace(base, uniforms={}, **{key: getattr(found, key) for key in mine})
        settings, unknown = resolve_pair(settings, base)
        said = [*([CHOSEN] if base.is_edited and "prompt" not in query else []), *left_out, *unknown]
        if others := sorted({*OWN, "uniforms"} & set(update_names(query))):
            said.append(
                f"The link's {', '.join(map(name_setting, others))} was left out: each mistake brings the settings that show it."
            )
        try:
            return cls(settings, query.get("mistake", opened)), said
        except SettingsError as error:
            return cls(settings, opened), [*said, explain_left_out(error)]


class MistakeState(SamplingState):
    """A mistake with everything sampled for it."""

    empty = MistakeResult()
    is_list_open = False  # whether the list of bugs opens by itself

    def reset_findings(self) -> None:
        super().reset_findings()
        self.guess: int | None = None  # place of the text that the visitor called wrong

    def guess_wrong_text(self, place: int) -> None:
        """Call one of the two texts wrong; then both decoders are named."""
        self.guess = place

    def load_recorded(self) -> MistakeSamplesRecord | None:
        if self.question.is_hidden or (records := load_recorded_samples()) is None:
            return None
        record = records.find_mistake(self.question.mistake_id)
        return record if record is not None and has_same_samples(self.question.settings, record.settings) else None

    def prepare(self, prepared: Work) -> None:
        """As every page; the game is recorded."""
        if not self.question.is_hidden:
            super().prepare(prepared)

    @property
    def next_test(self) -> int | None:
        """Samples at the next test. A visitor's own go on where the recorded ones end: the seed makes them the same."""
        return self.find_test_after(self.shown_result.n)

    @property
    def first_rejection(self) -> InterimTest | None:
        """The first test of what is shown that rejected the mistake."""
        return find_rejection(self.shown_result)


def find_rejection(result: MistakeResult) -> InterimTest | None:
    """The first test that rejected the wrong decoder."""
    return next((pair[1] for pair in result.looks if pair[1].verdict == "rejected"), None)
