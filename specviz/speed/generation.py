"""Rounds of one text, decoded as the measurements need them: without the distributions of each round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specviz.decoding.device.choice import REFERENCE, choose_engine, choose_target_only
from specviz.decoding.engine import decode, sample_target_only
from specviz.decoding.methods import build_rule
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.trace import Round

PROMPTS = {
    "opening": "Once upon a time there was a little rabbit who lived with his mother in a",
    "mid-sentence": '"Oh, dear me!" said Uncle Wiggily, as he hopped along through the woods and saw that the',
    "after a full stop": "The children ran down to the brook to sail their boats. It was a warm summer day, and the sun was shining.",
}


def decode_speculatively(
    pair: LoadedPair, settings: Settings, ids: tuple[int, ...], eos_token_ids: frozenset[int] = frozenset()
) -> Iterator[Round]:
    """One text by the proposer and rule that the settings name, without the distributions of its rounds."""
    target, proposer = open_proposer(pair, settings)
    arguments = (target, proposer, build_rule(settings), PhiloxRandomness(settings.seed))
    choice = choose_engine(settings.engine, *arguments, eos_token_ids, columns=len(ids) + settings.max_new_tokens)
    rounds = decode(*arguments, settings, ids, eos_token_ids, steps=choice.steps)
    yield from (replace(round_, full=None) for round_ in rounds)


def decode_target_only(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    eos_token_ids: frozenset[int] = frozenset(),
    engine: str = REFERENCE,
) -> Iterator[Round]:
    """The same by target-only sampling. engine: as for ``choose_engine``."""
    target, randomness = pair.source(pair.target, settings, pair.vocabulary), PhiloxRandomness(settings.seed)
    choice = choose_target_only(engine, target, randomness, eos_token_ids, columns=len(ids) + settings.max_new_tokens)
    rounds = sample_target_only(target, randomness, settings, ids, eos_token_ids, steps=choice.steps)
    yield from (replace(round_, full=None) for round_ in rounds)
