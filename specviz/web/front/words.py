"""The sentences of the front page that have values in them."""

from __future__ import annotations

from specviz.evidence.recordings.games import RecordedGames, SampleGame
from specviz.records import load_toml
from specviz.speed.records import headline
from specviz.speed.records.passage import Passage
from specviz.web.speed.round_model import RoundModel

TEXTS = load_toml("texts/front")
COUNTS = {1: "one", 2: "two"}
TINY = 1e8  # parameters below which a model is called tiny


def describe_origin(passage: Passage, recorded: bool) -> str:
    """Where the race was run, as a sentence."""
    machine = passage.machine
    cores = f", {machine['threads']} core{'s' * (machine['threads'] != 1)}" if "threads" in machine else ""
    where = f"{machine.get('processor', 'this server')}{cores}"
    settings = passage.settings
    run = f"temperature {settings.temperature:g}, up to {settings.gamma} draft tokens a round"
    if recorded:
        return f"Recorded {passage.date} on {where}: median of {passage.runs} runs, {run}."
    return f"Your run on {where}: {run}."


def describe_sizes(passage: Passage) -> list[str]:
    """How many parameters each way has, in words; empty where that is not known."""
    counts = [passage.models.get(role, {}).get("parameters", 0) for role in ("target", "draft")]
    target, draft = (f"{n / 1e9:.1f} billion" if n >= 1e9 else f"{max(1, round(n / 1e6))} million" for n in counts)
    first = target.split()[0] if target.split()[1] == draft.split()[1] else target  # one unit is named once
    return [f"{target} parameters", f"{first} + {draft} parameters"] if all(counts) else ["", ""]


def describe_average(passage: Passage) -> dict[str, str] | None:
    """How many times as fast this pair is with a draft (``gain``), as ``bench`` measured it, and that in a sentence (``how``); None where it measured nothing like it."""
    heat = headline.choose_heat(passage.settings)
    if not heat:
        return None
    gain = f"{headline.get_speed(heat).value:.2f}"
    return {"gain": gain, "how": f"{gain}×: {headline.describe_interval(heat)} {headline.describe_headline_origin()}"}


def describe_writer(passage: Passage) -> str:
    """The model that both texts are drawn from, and where it ran; as much of it as is known."""
    texts, parameters = TEXTS["race"], passage.models.get("target", {}).get("parameters", 0)
    model = texts["tiny"] if 0 < parameters < TINY else ""
    threads = passage.machine.get("threads", 0)
    cores = f"{COUNTS.get(threads, threads)} CPU core{'s' * (threads != 1)}" if threads else ""
    return str(texts["writer"]).format(model=model, cores=cores) if model and cores else model or cores


def describe_large_target(model: RoundModel | None) -> dict[str, str]:
    """What the shipped pair's tokens would gain with a large target (``gain``), whose speed that is (``says``), and how it is known (``how``); empty without its costs."""
    if model is None:
        return {}
    gain, texts = f"{model.compute_speed(model.alpha, model.c, model.gamma):.2f}×", TEXTS["race"]
    return {"gain": gain, "says": texts["large"], "how": texts["how"].format(gamma=model.gamma)}


def describe_game_settings(game: SampleGame) -> str:
    """Under which settings both decoders of a game drew, in words."""
    return f"temperature {game.temperature:g}" + (f", top-k {game.top_k}" if game.top_k else "")


def describe_games(recorded: RecordedGames) -> str:
    """Where the samples of the games are from, as a sentence."""
    count = min(len(game.wrong) for game in recorded.games)
    return f"{count:,} recorded samples of each decoder, under settings that show its bug, {recorded.date}. A new game every day at 0:00 UTC, the same for everybody."
