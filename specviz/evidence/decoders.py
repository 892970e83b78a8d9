"""Sources of samples: our decoders and published mistakes through the sampler, transformers' assisted generation by its public API."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import cast

import numpy as np
import torch
import transformers

from specviz.decoding.device.choice import COMPILED, DEVICE
from specviz.decoding.device.choice import REFERENCE as BY_REFERENCE
from specviz.decoding.engine import TargetOnlyRandomness, build_first_prefix, sample_target_only
from specviz.decoding.methods import build_rule
from specviz.decoding.sampler import Shard, decoded, shared_distributions
from specviz.decoding.samples import NONE, Samples
from specviz.errors import EvidenceError, SettingsError
from specviz.evidence.analytic.along_text import analytic_of_pair
from specviz.evidence.analytic.fresh import given
from specviz.evidence.borderline import near_edges
from specviz.evidence.bugs.registry import MUTANTS
from specviz.evidence.partition import Partition
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.paths import MemoizedPaths
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.eagle import NAME as EAGLE
from specviz.proposers.early_exit import NAME as EARLY_EXIT
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import find_form
from specviz.proposers.request import open_proposer
from specviz.randomness import GatheredRandomness, PhiloxRandomness, Randomness, StreamRandomness
from specviz.settings import Settings
from specviz.threads import FEW, PassThreads
from specviz.verification.token import TokenRule

SHARED, ENGINE = "shared distributions", "engine"
OURS = ("speculative", "target")
ASSISTED = "assisted"
REFERENCE = 4000  # target-only samples for the test without a distribution
ANALYTIC = 40  # prefixes at which the decoder's own distribution is computed
AT_ONCE = 2_000_000  # samples whose random numbers are checked together


def known(name: str) -> str:
    """The name of a decoder, in any case; mistakes go by their id. Raises SettingsError, which lists the names."""
    ids = {one.lower(): one for one in (*OURS, ASSISTED, *MUTANTS)}
    if name.lower() not in ids:
        raise SettingsError("decoder", name, f"one of {', '.join(ids.values())}")
    return ids[name.lower()]


def under(name: str, settings: Settings) -> Settings:
    """The settings under which a decoder is tested. A mistake brings the temperature, truncation, gamma and length that show it."""
    return MUTANTS[name].under(settings) if name in MUTANTS else settings


def engine_alone(name: str, settings: Settings) -> str:
    """Why a decoder cannot be sampled on shared distributions, in words; '' if it can."""
    if name in MUTANTS and not MUTANTS[name].shared:
        return "it changes what the engine does with a whole round"
    if name == "speculative" and settings.engine in (DEVICE, COMPILED):
        return "shared distributions do without rounds, and so without one that stays on the device"
    if name == "speculative" and not (find_form(settings).fixed_length and isinstance(build_rule(settings), TokenRule)):
        return "shared distributions support only chains of a fixed length under the token rule"
    return ""


def modes(name: str, wanted: str, settings: Settings) -> list[str]:
    """Modes of sampling a decoder: on shared distributions, through the engine, or both. Assisted generation has its own mode.

    Raises SettingsError if shared distributions are asked for and cannot be used.
    """
    if name == ASSISTED:
        return ["transformers"]
    if why := engine_alone(name, settings):
        if wanted == "shared-distributions":
            raise SettingsError("mode", wanted, f"engine or both for {name}: {why}")
        return [ENGINE]
    return {"both": [SHARED, ENGINE], "shared-distributions": [SHARED], "engine": [ENGINE]}[wanted]


def arguments(name: str, pair: LoadedPair, settings: Settings) -> tuple:
    """(target, proposer, rule, random numbers) of one of our decoders, caches empty. Raises SettingsError for an edited run."""
    if settings.is_edited:
        raise SettingsError(
            "uniforms", sorted(settings.uniforms), "left out: a run with random numbers chosen by hand is not a sample"
        )
    randomness = PhiloxRandomness(settings.seed)
    if name in MUTANTS:
        made = MUTANTS[name].arguments(pair.open, settings)
        return made.target, made.proposer, made.rule, made.randomness(randomness)
    if name == "target":
        return pair.open(settings)[0], NoDraft(), TokenRule(), TargetOnlyRandomness(randomness)
    target, proposer = open_proposer(pair, settings)
    return target, proposer, build_rule(settings), randomness


def draw(
    name: str,
    mode: str,
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    first: int,
    count: int,
    on_progress: ProgressCallback = ignore_progress,
) -> Samples:
    """Samples ``first`` to ``first + count - 1`` of a decoder: a pure function of its arguments."""
    if name == ASSISTED:
        return assisted(pair, settings, ids, first, count, on_progress)
    shard = Shard(*arguments(name, pair, settings), settings, ids, pair.eos_token_ids, first, count)
    if mode == SHARED:
        return shared_distributions(shard, name, on_progress)
    return decoded(shard, source=name, on_progress=on_progress, engine=None if name == "speculative" else BY_REFERENCE)


def draw_blocks(
    name: str,
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    blocks: Sequence[tuple[int, int]],
    on_progress: ProgressCallback = ignore_progress,
) -> Samples:
    """Samples of several blocks, (first, count) each, one after the other: a pure function of its arguments, on shared distributions."""
    target, proposer, rule, randomness = arguments(name, pair, settings)
    count = sum(size for _, size in blocks)
    shard = Shard(target, proposer, rule, _gathered(randomness, blocks), settings, ids, pair.eos_token_ids, 0, count)
    return shared_distributions(shard, name, on_progress)


def _gathered(randomness: Randomness, blocks: Sequence[tuple[int, int]]) -> GatheredRandomness:
    return GatheredRandomness(cast(StreamRandomness, randomness), tuple((first, count) for first, count in blocks))


def draw_each(
    pair: LoadedPair,
    asked: Sequence[tuple[str, Settings]],
    ids: Sequence[int],
    first: int,
    count: int,
    on_progress: ProgressCallback = ignore_progress,
) -> list[Samples]:
    """Samples of several of our decoders on shared distributions. Their settings differ in the seed alone, so the target is read once."""
    found, target = [], None
    for number, (name, settings) in enumerate(asked):
        of_target, *others = arguments(name, pair, settings)
        target = target or MemoizedPaths(of_target)
        shard = Shard(target, *others, settings, ids, pair.eos_token_ids, first, count)
        found.append(shared_distributions(shard, name, lambda share, number=number: on_progress((number + share) / len(asked))))
    return found


def near(
    name: str,
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    partition: Partition,
    count: int,
    blocks: Sequence[tuple[int, int]] = (),
) -> int | None:
    """How many of the first ``count`` samples may fall into another cell on another machine; None: unknown.

    blocks  where the samples are, if they are not the first ones of the seed

    Shared distributions give the samples of the engine, so both modes have the same edges. With coarse distributions (half
    precision, 8 bits) the window would be so wide that the number means nothing.
    """
    if name == ASSISTED or engine_alone(name, settings) or pair.coarse:
        return None
    total = 0
    for first in range(0, count, AT_ONCE):
        some = min(AT_ONCE, count - first)
        target, proposer, rule, randomness = arguments(name, pair, settings)
        randomness = _gathered(randomness, blocks) if blocks else randomness
        shard = Shard(target, proposer, rule, randomness, settings, ids, pair.eos_token_ids, first, some)
        total += near_edges(shard, partition.names).sum()
    return int(total)


def assisted(
    pair: LoadedPair, settings: Settings, ids: Sequence[int], first: int, count: int, on_progress: ProgressCallback
) -> Samples:
    """Samples of transformers' assisted generation on the same pair, one after the other, with its own rule and random numbers.

    The number of draft tokens is gamma, and its confidence threshold is off. Sample i runs under a ``torch.manual_seed`` made of
    seed and i.
    """
    if isinstance(pair, MappedPair):
        allowed = "speculative or target for a pair whose tokenizers differ: there transformers drafts in another way"
        raise SettingsError("decoder", ASSISTED, allowed)
    context = getattr(pair.target.config.get_text_config(), "max_position_embeddings", None)
    remaining = build_first_prefix(ids, settings, context).remaining
    options = sampling(settings) | {
        "max_new_tokens": remaining,
        "assistant_model": assistant(pair, settings.gamma),
        "pad_token_id": 0,
    }
    tokens = np.full((count, remaining), NONE, dtype=np.int32)
    read = pair.encoder_ids(settings.prompt)
    prompt = given(pair.target, ids, read)
    for row in range(count):
        torch.manual_seed((settings.seed * 1_000_003 + first + row) % 2**63)
        PassThreads.of(pair.target).prepare(1, lambda: pair.target(**given(pair.target, ids[:FEW], read)))
        with silence_transformers():
            written = pair.target.generate(**prompt, **options)[0, len(ids) :].tolist()
        tokens[row, : len(written)] = written
        on_progress((row + 1) / count)
    return Samples(tokens, settings.to_record(), f"assisted generation of transformers {transformers.__version__}", first)


def sampling(settings: Settings) -> dict[str, object]:
    """Our settings as arguments of ``generate``. Raises SettingsError for warpers of other packages, which it does not have."""
    if settings.warpers:
        raise SettingsError("warpers", settings.warpers, "left out for transformers, which does not apply them")
    if settings.temperature == 0.0:
        return {"do_sample": False}
    plain = {"do_sample": True, "temperature": settings.temperature, "top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
    return plain | ({"min_p": settings.min_p} if settings.min_p is not None else {})


def assistant(pair: LoadedPair, gamma: int):
    """The draft with its own generation options: the same weights, ``gamma`` tokens per round, no confidence threshold."""
    if gamma < 1:
        raise EvidenceError("Assisted generation needs at least 1 draft token, got gamma 0.")
    draft = copy(pair.draft)
    draft.generation_config = options = deepcopy(pair.draft.generation_config)
    options.num_assistant_tokens, options.num_assistant_tokens_schedule = gamma, "constant"
    options.assistant_confidence_threshold = 0
    return draft


def analytic_tv(name: str, pair: LoadedPair, settings: Settings, ids: Sequence[int], positions: int = ANALYTIC) -> float | None:
    """Largest total variation between the decoder's own distribution and an uncached pass, along a text written by the target.

    None for other decoders, for proposers without a model, for other rules, and if nothing is drafted.
    """
    usual = settings.proposer in ("draft", EAGLE, EARLY_EXIT) and (settings.draft_length_policy, settings.rule) == (
        "fixed",
        "token",
    )
    if name != "speculative" or not usual or not settings.gamma or find_form(settings).branches:
        return None
    longer = replace(settings, max_new_tokens=positions + 8)
    rounds = sample_target_only(pair.open(longer)[0], PhiloxRandomness(settings.seed), longer, ids)
    text = [*ids, *(token for round_ in rounds for token in round_.committed)]
    return analytic_of_pair(pair, longer, text, positions).worst if len(text) > 2 else None


def reference(
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    count: int = REFERENCE,
    on_progress: ProgressCallback = ignore_progress,
) -> Samples:
    """Target-only samples under another seed, for the test that needs no distribution."""
    other = replace(settings, seed=(settings.seed + 1) % 2**63)
    return draw("target", SHARED, pair, other, ids, 0, count, on_progress)
