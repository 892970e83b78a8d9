"""JSON of the front page: its sentences, and what each scene draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.recordings.games import SampleGame, load_recorded_games
from specviz.figures.pages_and_glossary import MARKED_TERMS, PAGES
from specviz.speed.records import headline
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.passage import Passage
from specviz.web.front.race_payload import build_race_payload
from specviz.web.front.words import TEXTS, describe_game_settings, describe_games, describe_large_target
from specviz.web.speed.round_model import RoundModel, build_headline_model, build_machine_model

LARGE = "h200-8b"  # the cost model of a large target
APP_DOORS = {page: page for page in PAGES}  # where the page leads to, by name; addresses relative to it


def build_front_payload(
    passage: Passage | None, recorded: bool, doors: Mapping[str, str] = APP_DOORS, live: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Everything that the component draws.

    Args:
        passage: The race; None where there is none to show.
        recorded: Whether it is the recorded one.
        doors: Addresses of other pages by name.
        live: What a server says about a run (``busy``: a line or None, ``notices``: sentences, ``asked``: how many prompts it was sent); None where there is no server.
    """
    race = None if passage is None else build_race_payload(passage, recorded)
    return {
        "texts": TEXTS,
        "race": race,
        "large": describe_large_target(build_large_model()) | {"query": f"?costs={LARGE}"},
        "cost": headline.get_round("1").cost,
        "games": build_games_payload(),
        "doors": dict(doors),
        "live": live,
        "meanings": MARKED_TERMS,
    }


@lru_cache(maxsize=1)
def build_large_model() -> RoundModel | None:
    """The shipped pair's tokens with the costs of a large target, as *How fast?* opens with that machine; None where its costs are missing or damaged."""
    costs = load_cost_models().get(LARGE)
    return None if costs is None else build_machine_model(build_headline_model(None), costs, None)


@lru_cache(maxsize=1)
def build_games_payload() -> dict[str, Any] | None:
    """All recorded games, of which the browser chooses the day's; None where the record is missing or damaged."""
    recorded = load_recorded_games()
    if recorded is None:
        return None
    games = [build_game(one) for one in recorded.games if one.mistake in PUBLISHED_MISTAKES]
    if not games:
        return None
    return {"games": games, "note": describe_games(recorded)}


def build_game(game: SampleGame) -> dict[str, Any]:
    """JSON of one recorded game: the bug, the next tokens, and the samples of both decoders."""
    mistake = PUBLISHED_MISTAKES[game.mistake]
    name = mistake.title or mistake.name
    return {
        "id": mistake.id,
        "name": f"{name[0].upper()}{name[1:]}.",
        "description": mistake.description.replace("'", "’"),
        "threads": [{"words": words, "href": address} for words, address in mistake.threads],
        "prompt": game.prompt,
        "labels": game.labels,
        "probs": game.probs,
        "right": game.right,
        "wrong": game.wrong,
        "needed": game.needed,
        "settings": describe_game_settings(game),
    }
