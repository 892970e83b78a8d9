"""Who draws: our decoders and published mistakes through the sampler, transformers' assisted generation by its public API."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import torch
import transformers

from specviz.decoding.borderline import near_edges
from specviz.decoding.engine import TargetOnlyRandomness, opening_row, target_only
from specviz.decoding.sampler import Watch, decoded, shared_distributions
from specviz.decoding.samples import NONE, Samples
from specviz.errors import EvidenceError, SettingsError
from specviz.evidence.analytic.along_text import analytic_of_pair
from specviz.evidence.analytic.fresh import given
from specviz.evidence.mutants.catalogue import MUTANTS
from specviz.evidence.partition import Partition
from specviz.models.pairs.loading import Pair
from specviz.proposers.base import Nothing
from specviz.proposers.registry import EARLY_EXIT, on_shared_distributions, opened
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.registry import rule_of
from specviz.verification.token_rule import TokenRule

SHARED, ENGINE = "shared distributions", "engine"
OURS = ("speculative", "target")
ASSISTED = "assisted"
REFERENCE = 4000  # draws of the target alone for the test without a distribution
ANALYTIC = 40  # prefixes at which the decoder's own distribution is computed
AT_ONCE = 2_000_000  # draws whose random numbers are looked at together


def known(name: str) -> str:
    """The name of a decoder, mistakes by their id in any case. Raises SettingsError listing those there are."""
    ids = {one.lower(): one for one in (*OURS, ASSISTED, *MUTANTS)}
    if name.lower() not in ids:
        raise SettingsError("decoder", name, f"one of {', '.join(ids.values())}")
    return ids[name.lower()]


def under(name: str, settings: Settings) -> Settings:
    """The settings a decoder is examined under: a mistake brings the temperature, cuts, gamma and length that show it."""
    return MUTANTS[name].under(settings) if name in MUTANTS else settings


def engine_alone(name: str, settings: Settings) -> str:
    """Why shared distributions cannot draw a decoder, in words; empty where they can."""
    if name in MUTANTS and not MUTANTS[name].shared:
        return "it changes what the engine does with a whole round"
    if name == "speculative" and not (on_shared_distributions(settings) and isinstance(rule_of(settings), TokenRule)):
        return "shared distributions know chains of a fixed length, judged draft token by draft token"
    return ""


def modes(name: str, wanted: str, settings: Settings) -> list[str]:
    """How a decoder is drawn from: on shared distributions, through the engine, or both; another's decoder only as it is.

    Raises SettingsError where shared distributions are asked for and cannot draw it.
    """
    if name == ASSISTED:
        return ["transformers"]
    if why := engine_alone(name, settings):
        if wanted == "shared-distributions":
            raise SettingsError("mode", wanted, f"engine or both for {name}: {why}")
        return [ENGINE]
    return {"both": [SHARED, ENGINE], "shared-distributions": [SHARED], "engine": [ENGINE]}[wanted]


def arguments(name: str, pair: Pair, settings: Settings) -> tuple:
    """(target, proposer, rule, random numbers) of one of our decoders, caches empty. Raises SettingsError for an edited run."""
    if settings.edited:
        raise SettingsError("uniforms", sorted(settings.uniforms), "left alone: a run whose luck somebody chose is no sample")
    randomness = PhiloxRandomness(settings.seed)
    if name in MUTANTS:
        made = MUTANTS[name].arguments(pair.open, settings)
        return made.target, made.proposer, made.rule, made.randomness(randomness)
    if name == "target":
        return pair.open(settings)[0], Nothing(), TokenRule(), TargetOnlyRandomness(randomness)
    target, proposer = opened(pair, settings)
    return target, proposer, rule_of(settings), randomness


def draw(
    name: str,
    mode: str,
    pair: Pair,
    settings: Settings,
    ids: Sequence[int],
    first: int,
    count: int,
    watch: Watch = lambda share: None,
) -> Samples:
    """Draws ``first`` to ``first + count - 1`` of a decoder: a pure function of its arguments."""
    if name == ASSISTED:
        return assisted(pair, settings, ids, first, count, watch)
    ours = arguments(name, pair, settings)
    sampler = shared_distributions if mode == SHARED else decoded
    return sampler(*ours, settings, ids, pair.eos_token_ids, first=first, count=count, source=name, watch=watch)


def near(name: str, pair: Pair, settings: Settings, ids: Sequence[int], partition: Partition, count: int) -> int | None:
    """How many of the first draws may fall into another cell on another machine; None where nobody can say.

    Shared distributions write what the engine writes, so that both modes have the same edges. Where distributions are coarse a window would have to
    be so wide that it says nothing.
    """
    if name == ASSISTED or engine_alone(name, settings) or pair.coarse:
        return None
    total = 0
    for first in range(0, count, AT_ONCE):
        ours = arguments(name, pair, settings)
        total += near_edges(*ours, settings, ids, partition.names, pair.eos_token_ids, first, min(AT_ONCE, count - first)).sum()
    return int(total)


def assisted(pair: Pair, settings: Settings, ids: Sequence[int], first: int, count: int, watch: Watch) -> Samples:
    """transformers' assisted generation on the same pair: its own rule, its own luck, one draw after the other.

    The draft's number of tokens is ours, its confidence stop is off; draw i runs under ``torch.manual_seed`` of seed and i.
    """
    context = getattr(pair.target.config.get_text_config(), "max_position_embeddings", None)
    remaining = opening_row(ids, settings, context).remaining
    options = sampling(settings) | {
        "max_new_tokens": remaining,
        "assistant_model": assistant(pair, settings.gamma),
        "pad_token_id": 0,
    }
    tokens = np.full((count, remaining), NONE, dtype=np.int32)
    prompt = given(pair.target, ids, pair.encoder_ids(settings.prompt))
    for row in range(count):
        torch.manual_seed((settings.seed * 1_000_003 + first + row) % 2**63)
        written = pair.target.generate(**prompt, **options)[0, len(ids) :].tolist()
        tokens[row, : len(written)] = written
        watch((row + 1) / count)
    return Samples(tokens, settings.to_record(), f"assisted generation of transformers {transformers.__version__}", first)


def sampling(settings: Settings) -> dict[str, object]:
    """Our settings in the words of ``generate``."""
    if settings.temperature == 0.0:
        return {"do_sample": False}
    plain = {"do_sample": True, "temperature": settings.temperature, "top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
    return plain | ({"min_p": settings.min_p} if settings.min_p is not None else {})


def assistant(pair: Pair, gamma: int):
    """The draft with options of its own: the same weights, ``gamma`` tokens each time, no stop on low confidence."""
    if gamma < 1:
        raise EvidenceError("Assisted generation needs at least 1 drafted token, got gamma 0.")
    draft = copy(pair.draft)
    draft.generation_config = options = deepcopy(pair.draft.generation_config)
    options.num_assistant_tokens, options.num_assistant_tokens_schedule = gamma, "constant"
    options.assistant_confidence_threshold = 0
    return draft


def analytic_tv(name: str, pair: Pair, settings: Settings, ids: Sequence[int], positions: int = ANALYTIC) -> float | None:
    """Largest distance of our decoder's own distribution to a fresh pass of the target, along a text that the target goes on with.

    None for other decoders, for proposers that ask no model and other rules, and where nothing is drafted.
    """
    usual = settings.proposer in ("draft", EARLY_EXIT) and (settings.lengths, settings.rule) == ("fixed", "token")
    if name != "speculative" or not usual or not settings.gamma:
        return None
    longer = replace(settings, length=positions + 8)
    rounds = target_only(pair.open(longer)[0], PhiloxRandomness(settings.seed), longer, ids)
    text = [*ids, *(token for round_ in rounds for token in round_.committed)]
    return analytic_of_pair(pair, longer, text, positions).worst if len(text) > 2 else None


def reference(
    pair: Pair, settings: Settings, ids: Sequence[int], count: int = REFERENCE, watch: Watch = lambda share: None
) -> Samples:
    """Draws of the target alone under another seed, for the test that needs no distribution."""
    other = replace(settings, seed=(settings.seed + 1) % 2**63)
    return draw("target", SHARED, pair, other, ids, 0, count, watch)
