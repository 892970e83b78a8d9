"""Recorded samples of two decoders, one of them with a published mistake: the games of the front page and of *Break it*. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from specviz.records import ASSETS, Record, Schema, read_file_or

GAMES = ASSETS / "traces" / "games.json"
SCHEMA = Schema("games", 3, "The record of games")
CELLS, MIN_MASS = 8, 0.002  # most next tokens with a bar of their own or in the last one, and the smallest probability of one
ALPHA, POWER = 0.01, 0.95  # of the chi-square test whose samples are counted


@dataclass(frozen=True, slots=True)
class SampleGame:
    """The next token after the prompt, sampled by a right and a wrong decoder under the same settings.

    Attributes:
        mistake: Its id.
        prompt: The text before the token.
        labels: The token of each cell; empty for the last cell, which has all others.
        probs: The target's exact probability of each cell.
        right, wrong: The cell of each sample, in order, as one digit.
        needed: Samples with which a chi-square test of level ALPHA detects the wrong decoder with probability POWER.
        temperature, top_k: The settings that show the mistake.
    """

    mistake: str
    prompt: str
    labels: tuple[str, ...]
    probs: tuple[float, ...]
    right: str
    wrong: str
    needed: int
    temperature: float
    top_k: int | None


@dataclass(frozen=True, slots=True)
class RecordedGames(Record):
    """All games. date: when they were recorded; seed: of the right decoder, the next one is the wrong one's."""

    schema = SCHEMA
    pair: str
    seed: int
    date: str
    games: tuple[SampleGame, ...]


@lru_cache(maxsize=1)
def load_recorded_games() -> RecordedGames | None:
    """The games that come with the project; None where the file is missing or damaged."""
    return read_file_or(GAMES, RecordedGames.from_json, None)
