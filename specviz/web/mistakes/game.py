"""The game that Break it opens with: recorded samples of two decoders, one of which has a mistake that was reported in a project."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from specviz.evidence.recordings.games import SampleGame, load_recorded_games
from specviz.web.front.payload import build_game
from specviz.web.front.words import TEXTS as FRONT
from specviz.web.mistakes.words import TEXTS, list_wrong

NEEDED = range(30, 1000)  # samples that a game may take: fewer are no riddle
SHARED = (
    "title", "exact", "chance", "wrote", "outside", "decoder", "last", "asks", "name", "others", "signs", "more", "of", "hint", "drawn", "far", "heard", "right", "wrong",
    "overlooked", "reported", "power",
)  # sentences of the front page's game  # fmt: skip
MOST = 1000  # samples of each decoder that can be drawn (assets/components/lib/samples.js)


@dataclass(frozen=True, slots=True)
class Game:
    """A recorded game. wrong: 0 if decoder A has the mistake, 1 if B; first: number of its first sample."""

    recorded: SampleGame
    wrong: int
    first: int


def choose_game(seed: int) -> Game | None:
    """The game of a seed; None where none is recorded."""
    if (found := load_recorded_games()) is None:
        return None
    stream = random.Random(f"hidden {seed}")
    one = stream.choice([game for game in found.games if game.needed in NEEDED])
    return Game(one, stream.randrange(2), stream.randrange(len(one.right) - MOST + 1))


@lru_cache(maxsize=64)
def build_game_payload(seed: int) -> dict[str, Any] | None:
    """JSON of the game of a seed; None where none is recorded."""
    if (game := choose_game(seed)) is None:
        return None
    return {"game": build_game(game.recorded), "wrong": game.wrong, "first": game.first}


@lru_cache(maxsize=1)
def build_game_texts() -> dict[str, Any]:
    """Words around the game: those of the front page's, and the page's own."""
    own = TEXTS["game"]
    return {name: FRONT["game"][name] for name in SHARED} | own | {"bugs": own["bugs"].format(all=len(list_wrong()))}


def describe_record() -> str:
    """Where the samples are from, as a sentence; empty where none are recorded."""
    found = load_recorded_games()
    return str(TEXTS["game"]["recorded"].format(date=found.date)) if found else ""
