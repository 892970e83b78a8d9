"""The game of Break it: recorded samples of two decoders, one of which has a mistake that was reported in a project."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.recordings.games import SampleGame, load_recorded_games
from specviz.evidence.testing.results import CellShares
from specviz.records import load_toml
from specviz.web.common.side_by_side.payload import DIGITS
from specviz.web.common.side_by_side.payload import TEXTS as HISTOGRAM
from specviz.web.common.side_by_side.words import shorten_prompt
from specviz.web.mistakes.words import describe_mistake, list_reports, name_mistake

TEXTS = HISTOGRAM | load_toml("texts/mistakes")["game"]
EIGHTHS = (1, 2, 3, 4, 6, 8)  # of all samples, at which the bars are drawn
PAUSE = 2  # how many of them are drawn before the player is asked
NEEDED = range(30, 1000)  # samples that a game may take: fewer are no riddle


@dataclass(frozen=True, slots=True)
class Game:
    """A recorded game. wrong: 0 if decoder A has the mistake, 1 if B; first: number of its first sample; samples: offered of each."""

    recorded: SampleGame
    prompt: str
    wrong: int
    first: int
    samples: int

    def count_cells(self, side: int, n: int) -> tuple[int, ...]:
        """The first n samples of a decoder, by cell."""
        digits = self.recorded.wrong if side == self.wrong else self.recorded.right
        counts = np.bincount([int(one) for one in digits[self.first : self.first + n]], minlength=len(self.recorded.labels))
        return tuple(counts.tolist())


def choose_game(seed: int) -> Game | None:
    """The game of a seed; None where none is recorded."""
    if (found := load_recorded_games()) is None:
        return None
    stream = random.Random(f"hidden {seed}")
    one = stream.choice([game for game in found.games if game.needed in NEEDED])
    samples = ceil(one.needed / 8) * 8
    wrong, first = stream.randrange(2), stream.randrange(len(one.right) - samples + 1)
    return Game(one, one.prompt, wrong, first, samples)


@lru_cache(maxsize=64)
def build_game_payload(seed: int) -> dict[str, Any] | None:
    """JSON of the game of a seed; None where none is recorded."""
    if (game := choose_game(seed)) is None:
        return None
    labels = [label or TEXTS["others"] for label in game.recorded.labels]
    masses, points = np.array(game.recorded.probs), [game.samples * part // 8 for part in EIGHTHS]
    sides: list[list[dict[str, Any]]] = []
    for side in (0, 1):
        shown = [CellShares.from_counts("", labels, [True] * len(labels), masses, game.count_cells(side, n), n) for n in points]
        sides.append(
            [
                {"n": one.n} | {key: [round(x, DIGITS) for x in getattr(one, key)] for key in ("shares", "low", "high")}
                for one in shown
            ]
        )
    mistake = PUBLISHED_MISTAKES[game.recorded.mistake]
    top_k = "" if game.recorded.top_k is None else f", top-k {game.recorded.top_k}"
    settings = f"temperature {game.recorded.temperature:g}{top_k}"
    return {
        "heading": TEXTS["heading"].format(prompt=shorten_prompt(game.prompt), settings=settings),
        "labels": labels,
        "exact": list(game.recorded.probs),
        "end": min(1.0, 1.1 * max(*game.recorded.probs, *(max(frame["shares"]) for frames in sides for frame in frames[1:]))),
        "sides": sides,
        "pause": PAUSE,
        "most": game.samples,
        "wrong": game.wrong,
        "bug": {
            "id": mistake.id,
            "name": f"{name_mistake(mistake)}.",
            "description": describe_mistake(mistake),
            "links": [{"words": words, "href": address} for words, address in list_reports(mistake)],
        },
        "texts": TEXTS,
    }
