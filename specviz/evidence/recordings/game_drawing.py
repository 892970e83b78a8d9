"""Draws the games of the front page: the next token, by decoders with a published mistake and by those without. ``specviz record games``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specviz.decoding.samples import Samples
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES, PublishedMistake
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.recordings.games import ALPHA, CELLS, MIN_MASS, POWER, RecordedGames, SampleGame
from specviz.evidence.sampling.session import Session
from specviz.evidence.testing.partition import build_partition
from specviz.glyphs import read_piece
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.speed.measurement.machine import format_today
from specviz.statistics.power import compute_noncentrality, count_equality_draws_needed

TRUTH = 20_000  # samples from which the wrong decoder's distribution is estimated, fewer through the engine
MOST_NEEDED = 1_200  # samples: a mistake that takes more is no game
OTHER_PROMPTS = (
    "The dragon said",
    "One day the king",
    "He opened the door and",
    "Once upon a time",
)  # where a mistake takes more after the first prompt


def draw_games(pair: LoadedPair, settings: Settings, count: int, progress: ProgressCallback) -> RecordedGames:
    """A game for each mistake with a public report that few enough samples of the next token detect, after the first prompt where they do."""
    reported = [one for one in PUBLISHED_MISTAKES.values() if one.can_be_sampled and any(address for _, address in one.threads)]
    prompts = (settings.prompt, *OTHER_PROMPTS)
    found = []
    for number, mistake in enumerate(reported):
        progress(number / len(reported), mistake.name)
        tried = (_record_game(pair, mistake, replace(settings, prompt=prompt), count) for prompt in prompts)
        if (game := next(filter(None, tried), None)) is not None:
            found.append(game)
    return RecordedGames(settings.pair, settings.seed, format_today(), tuple(found))


def _record_game(pair: LoadedPair, mistake: PublishedMistake, settings: Settings, count: int) -> SampleGame | None:
    own, ids = MISTAKES[mistake.id].apply_settings(settings), tuple(pair.encode(settings.prompt))
    mode = SHARED if mistake.on_shared_distributions else ENGINE
    cells = build_partition(pair.open(own)[0], ids, 1, CELLS, MIN_MASS, pair.eos_token_ids).without_impossible()
    order = [*np.argsort(-cells.masses[1:], kind="stable") + 1, 0]  # the first cell has all other tokens
    probs = cells.masses[order] / cells.masses.sum()
    names = [cells.names[place] for place in order[:-1]]
    if len(names) < 2:
        return None  # the next token is as good as certain
    wrong_seed = replace(own, seed=own.seed + 1)
    truth = Session(build_decoder(mistake.id, pair, wrong_seed, ids)).draw_exactly(mode, TRUTH if mode == SHARED else count)
    counts = np.bincount(_find_cells(truth, names), minlength=len(probs))
    needed = _count_samples_needed(counts, probs)
    if needed > MOST_NEEDED:
        return None
    right = Session(build_decoder(mistake.id, pair, own, ids, without_mistake=True)).draw_exactly(mode, count)
    pieces = pair.read_pieces({token for name in names for token in name})
    labels = [read_piece(pieces, name[0]).decode("utf-8", "replace").strip() for name in names]
    digits, wrong_digits = ("".join(map(str, _find_cells(one, names)[:count])) for one in (right, truth))
    masses = tuple(float(round(p, 6)) for p in probs)
    return SampleGame(mistake.id, own.prompt, (*labels, ""), masses, digits, wrong_digits, needed, own.temperature, own.top_k)


def _find_cells(samples: Samples, names: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The cell of each sample's first token, (N,)."""
    known = {name[0]: place for place, name in enumerate(names)}
    return np.array([known.get(int(token), len(names)) for token in samples.tokens[:, 0]])


def _count_samples_needed(counts: np.ndarray, probs: np.ndarray) -> int:
    """Samples with which a chi-square test detects a distribution of which ``counts`` were drawn."""
    n, possible = counts.sum(), probs > 0.0
    impossible = float(counts[~possible].sum() / n)
    if impossible > 0.0:  # a single sample there shows the mistake
        return count_equality_draws_needed(impossible, POWER)
    df = int(possible.sum()) - 1
    distance = float(((counts / n - probs)[possible] ** 2 / probs[possible]).sum()) - df / n  # without what the noise adds
    return int(np.ceil(compute_noncentrality(df, ALPHA, POWER) / max(distance, 1e-9)))
