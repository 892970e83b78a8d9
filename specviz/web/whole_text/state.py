"""One visitor's passage: what was asked for, what is being written, what stood there recorded. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from specviz.errors import SettingsError
from specviz.records import ASSETS, PASSAGE_SEED, RECORDED_SEED, read_file_or
from specviz.settings import FASTEST_GAMMA, SAMPLING_FIELDS, Settings, update_names
from specviz.speed.records.divergence_profile import DivergenceProfile, ScoredText, compute_divergence_profile
from specviz.speed.records.passage import LENGTHS, Passage, load_passages
from specviz.web.common.error_sentences import name_setting
from specviz.web.common.links import read_length, read_link
from specviz.web.common.page_state import MeasurementState
from specviz.web.common.pairs import resolve_pair

RECORDED = ASSETS / "traces" / "passage.json"
LENGTH = 128  # tokens, until somebody chooses
FALLBACK = Settings(prompt="Once upon a time", max_new_tokens=LENGTH, gamma=FASTEST_GAMMA)
READ = ("pair", "prompt", "gamma", *SAMPLING_FIELDS, "seed", "max_new_tokens")  # of a link
ALLOWED = f"one of {', '.join(map(str, LENGTHS))} on this page"


@lru_cache(maxsize=1)
def load_recorded_passages() -> dict[str, Passage]:
    """The passages that the page opens with, by distribution; empty where the file is missing or damaged."""
    return read_file_or(RECORDED, load_passages, {})


def load_surveys(pair: str) -> dict[str, tuple[ScoredText, ...]]:
    """The recorded texts of this pair, by distribution; none for a pair that was not recorded."""
    return {name: one.survey for name, one in load_recorded_passages().items() if one.survey and one.settings.pair == pair}


def load_recorded_profile(settings: Settings) -> DivergenceProfile | None:
    """The recorded texts of this pair under just this distribution, together; None where there are none."""
    known = load_surveys(settings.pair)
    return next(
        (
            compute_divergence_profile(known[name])
            for name, one in load_recorded_passages().items()
            if name in known and have_same_sampling(one.settings, settings)
        ),
        None,
    )


def have_same_sampling(settings: Settings, other_settings: Settings) -> bool:
    """Whether both sample a text in the same way."""
    return all(getattr(settings, name) == getattr(other_settings, name) for name in SAMPLING_FIELDS)


@dataclass(frozen=True, slots=True)
class PassageRequest:
    """What a visitor wants written. Raises SettingsError for a length that the page does not offer, and for chosen random numbers."""

    settings: Settings

    def __post_init__(self) -> None:
        if self.settings.max_new_tokens not in LENGTHS:
            raise SettingsError("max-new-tokens", self.settings.max_new_tokens, ALLOWED)
        if self.settings.is_edited:
            raise SettingsError("uniforms", sorted(self.settings.uniforms), "none on this page")

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same."""
        return {**self.settings.to_query(), "prompt": self.settings.prompt, "max_new_tokens": str(self.settings.max_new_tokens)}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[PassageRequest, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        query = update_names(query)
        mine, refused = read_length({key: query[key] for key in READ if key in query}, LENGTHS, LENGTH, ALLOWED)
        found, said = read_link(mine)
        said += refused
        begun = tuple(sentence.partition(" left out")[0] for sentence in said)
        bad = {key for key in mine if f"The link's {name_setting(key)} was" in begun} - {"max_new_tokens"}
        start = build_opening_settings(base) if "prompt" not in mine else replace(FALLBACK, device=base.device, dtype=base.dtype)
        settings = replace(start, **{key: getattr(found, key) for key in mine if key not in bad})
        settings, unknown = resolve_pair(settings, base)
        said += unknown
        return cls(settings), said


def build_opening_settings(base: Settings) -> Settings:
    """Text, pair, sampling and seed of another page's run, or of the recorded text; the chain of the draft under the token rule."""
    same = {key: getattr(base, key) for key in (*READ, "device", "dtype") if key not in ("gamma", "max_new_tokens")}
    if base.seed == RECORDED_SEED:
        same["seed"] = PASSAGE_SEED
    return Settings(gamma=FASTEST_GAMMA, max_new_tokens=LENGTH, **same)


class WholeTextState(MeasurementState):
    """The request, the passage as far as it is written, and those that this visitor has had written."""

    PARTIAL_INTERVAL = 0.3  # a text that is being written moves

    def build_key(self, question: PassageRequest) -> str:
        """Settings are no key: their chosen random numbers are a mapping."""
        return repr(sorted(question.build_link().items()))

    def load_recorded(self) -> Passage | None:
        """The recorded passage under the same distribution, else any recorded one."""
        known = list(load_recorded_passages().values())
        same = (one for one in known if have_same_sampling(one.settings, self.question.settings))
        return next(same, known[0] if known else None)
