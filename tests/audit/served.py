"""Samples of decoders with and without a mistake, as files that a server's samples would be in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from specviz.decoding.engine import TargetOnlyRandomness
from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.decoding.samples import NONE, Samples
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder, explain_engine_only
from specviz.evidence.mistakes.components import ChangedModel, concentrate_on_argmax
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.sampling.sample_files import SampleFile, parse_samples
from specviz.models.pairs.pair import LoadedPair
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.helpers.chance_bands import SEED

PROMPT = "Once upon"


def build_settings(pair: LoadedPair, **changes) -> Settings:
    return replace(Settings(pair=pair.name, prompt=PROMPT, max_new_tokens=3, gamma=2, seed=SEED), **changes)


def draw_mistaken_samples(name: str, pair: LoadedPair, n: int, **changes) -> Samples:
    """Samples of one of our decoders under the settings of this file, not under the mistake's own."""
    settings = build_settings(pair, **changes)
    mode = ENGINE if explain_engine_only(name, settings) else SHARED
    return build_decoder(name, pair, settings, pair.encode(PROMPT)).sample(mode, 0, n)


def draw_from_tables(open_, name: str, greedy: bool, prompt: tuple[int, ...], settings: Settings, n: int) -> Samples:
    """Samples of a mutant on tables, on a draft that draws its tokens or on one that takes the likeliest."""
    opened = (lambda s: (open_(s)[0], ChangedModel(open_(s)[1], concentrate_on_argmax))) if greedy else open_
    made = MISTAKES[name].build(opened, settings)
    shard = Shard(made.target, made.proposer, made.rule, made.randomness(PhiloxRandomness(SEED)), settings, prompt, count=n)
    return (sample_with_shared_distributions if MISTAKES[name].on_shared_distributions else sample_with_engine)(shard)


def draw_after_one_token(open_, name: str, prompt: tuple[int, ...], settings: Settings, n: int) -> Samples:
    """Samples of a server that drafts from the second token on: the first is the target's, and the mutant continues it."""
    alone = replace(settings, max_new_tokens=1)
    target = open_(settings)[0]
    first = sample_with_shared_distributions(
        Shard(target, NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(SEED)), alone, prompt, count=n)
    )
    rows = []
    for token, count in zip(*np.unique(first.tokens[:, 0], return_counts=True), strict=True):
        rest = draw_from_tables(
            open_, name, False, (*prompt, int(token)), replace(settings, max_new_tokens=settings.max_new_tokens - 1), int(count)
        )
        rows.append(np.concatenate([np.full((int(count), 1), token, dtype=np.int32), rest.tokens], axis=1))
    return Samples(np.concatenate(rows), settings.to_record(), name)


def build_sample_file(samples: Samples, name: str = "on.jsonl", **settings) -> SampleFile:
    """The samples with token ids."""
    return _build_file("tokens", ([t for t in row if t != NONE] for row in samples.tokens.tolist()), samples, name, settings)


def build_text_file(samples: Samples, texts: Iterable[str], name: str = "on.jsonl", **settings) -> SampleFile:
    return _build_file("text", texts, samples, name, settings)


def _build_file(kind: str, contents: Iterable, samples: Samples, name: str, settings: dict) -> SampleFile:
    stops = np.where(samples.lengths < samples.tokens.shape[1], "stop", "length").tolist()
    more = {"settings": settings} if settings else {}
    lines = [json.dumps({"prompt": PROMPT, kind: one, "stop": stop} | more) for one, stop in zip(contents, stops, strict=True)]
    return parse_samples("\n".join(lines).encode(), name)
