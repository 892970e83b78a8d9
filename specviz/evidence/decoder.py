"""The decoder that evidence is about, opened once per run: ours, one with a published mistake, or transformers' assisted generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from specviz.decoding.device.choice import COMPILED, DEVICE
from specviz.decoding.device.choice import REFERENCE as BY_REFERENCE
from specviz.decoding.engine import TargetOnlyRandomness, build_first_prefix, sample_target_only, step
from specviz.decoding.method_checks import build_rule
from specviz.decoding.sampler import (
    FollowedTexts,
    Shard,
    ShardState,
    iterate_rounds,
    sample_with_engine,
    sample_with_shared_distributions,
)
from specviz.decoding.samples import Samples
from specviz.errors import SettingsError
from specviz.evidence import assisted
from specviz.evidence.analytic.along_text import check_pair_along_text
from specviz.evidence.analytic.enumeration import Components
from specviz.evidence.mistakes.registry import VARIANTS
from specviz.evidence.testing import results
from specviz.evidence.testing.borderline import find_borderline
from specviz.evidence.testing.partition import Partition
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import LARGE_VOCABULARY
from specviz.models.continuations import MemoizedPaths
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import PROPOSERS, find_form
from specviz.proposers.request import open_proposer
from specviz.randomness import GatheredRandomness, PhiloxRandomness, Prefix, Randomness, StreamRandomness
from specviz.settings import SAMPLING_FIELDS, SETTINGS, Settings
from specviz.trace import Round
from specviz.verification.token import TokenRule

SHARED, ENGINE = "shared distributions", "engine"
MEMOIZED = "engine, memoized models"  # for a pair whose models are memoized (models/memoized.py), as in the matrix
SPECULATIVE, TARGET, ASSISTED = "speculative", "target", assisted.NAME
WHOLE = 2**28  # their number times the vocabulary: 8,192 samples at 32,768 tokens, 1,024 at 262,144
AT_ONCE = 2_000_000  # samples whose random numbers are checked together

Blocks = Sequence[tuple[int, int]]  # (first, count) of samples, by their numbers


def count_whole_samples(samples: int, vocabulary: int) -> int:
    """How many of so many samples on shared distributions are drawn to their end; the others until their cell is known."""
    return samples if vocabulary <= LARGE_VOCABULARY else min(samples, WHOLE // vocabulary)


def count_analytic_prefixes(vocabulary: int) -> int:
    """At how many prefixes the decoder's own distribution is computed."""
    return results.ANALYTIC_PREFIXES if vocabulary <= LARGE_VOCABULARY else results.ANALYTIC_PREFIXES_LARGE


def resolve_name(name: str) -> str:
    """The name of a decoder, in any case; mistakes go by their id. Raises SettingsError, which lists the names."""
    ids = {one.lower(): one for one in (SPECULATIVE, TARGET, ASSISTED, *VARIANTS)}
    if name.lower() not in ids:
        raise SettingsError("decoder", name, f"one of {', '.join(ids.values())}")
    return ids[name.lower()]


def with_mistake(name: str, settings: Settings) -> Settings:
    """The settings under which a decoder is tested. A mistake brings the temperature, truncation, gamma and length that show it.

    Raises SettingsError for a chosen temperature, truncation or gamma that the mistake replaces.
    """
    if name not in VARIANTS:
        return settings
    own = VARIANTS[name].apply_settings(settings)
    for one in (*SAMPLING_FIELDS, "gamma"):
        value, needed = getattr(settings, one), getattr(own, one)
        if value not in (SETTINGS[one].default, needed):
            raise SettingsError(SETTINGS[one].label, value, f"left out with the decoder {name}, which needs {needed}")
    return own


def explain_engine_only(name: str, settings: Settings) -> str:
    """Why a decoder cannot be sampled on shared distributions, in words; '' if it can."""
    if name in VARIANTS and not VARIANTS[name].on_shared_distributions:
        return "it changes what the engine does with a whole round"
    if name == SPECULATIVE and settings.engine in (DEVICE, COMPILED):
        return "shared distributions do without rounds, and so without one that stays on the device"
    if name == SPECULATIVE and not (find_form(settings).fixed_length and isinstance(build_rule(settings), TokenRule)):
        return "shared distributions support only chains of a fixed length under the token rule"
    return ""


def list_sampling_modes(name: str, settings: Settings, mode: str = "both") -> tuple[str, ...]:
    """Modes of sampling a decoder: on shared distributions, through the engine, or both. Assisted generation has its own mode.

    mode  both, shared-distributions or engine

    Raises SettingsError if shared distributions are asked for and cannot be used.
    """
    if name == ASSISTED:
        return (assisted.MODE,)
    if why := explain_engine_only(name, settings):
        if mode == "shared-distributions":
            raise SettingsError("mode", mode, f"engine or both for {name}: {why}")
        return (ENGINE,)
    return {"both": (SHARED, ENGINE), "shared-distributions": (SHARED,), "engine": (ENGINE,)}[mode]


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """A decoder under fixed settings and after a fixed prompt. ``build_decoder`` makes it.

    Samples ``first`` to ``first + count - 1`` are a pure function of decoder, mode, first and count, because each shard begins with
    empty caches: in float32 a distribution depends on the pass that it was read in.
    """

    name: str
    pair: LoadedPair
    settings: Settings
    prompt: tuple[int, ...]  # token ids
    label: str  # name of the samples' source
    # opens target, proposer, rule and random numbers with empty caches, while models stay open; not called for assisted generation
    reopen: Callable[[], Components]
    without_mistake: bool = False  # for the id of a mistake: the nearest decoder without it
    engine_only: str = ""  # why it cannot be sampled on shared distributions; '' if it can
    followed: FollowedTexts | None = None  # how far samples are drawn on shared distributions; None: to their end
    tested_tokens: int | None = None  # as in ``Shard``

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self.pair.eos_token_ids

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes in which it can be sampled."""
        return list_sampling_modes(self.name, self.settings)

    @property
    def is_control(self) -> bool:
        """Whether it drafts nothing by design: target-only sampling."""
        return self.name == TARGET

    def open_models(self) -> tuple[LanguageModel, LanguageModel]:
        """Target and draft with empty caches, for the exact distribution and for scores."""
        return self.pair.open(self.settings)

    def make_shard(self, first: int, count: int, blocks: Blocks = ()) -> Shard:
        """Samples by their numbers, with empty caches. blocks: which samples of the seed they are."""
        made = self.reopen()
        randomness = made.randomness(PhiloxRandomness(self.settings.seed))
        if blocks:
            randomness = _gather_blocks(randomness, blocks)
        decoder = made.target, made.proposer, made.rule, randomness
        return Shard(*decoder, self.settings, self.prompt, self.eos_token_ids, first, count, self.followed, self.tested_tokens)

    def sample(
        self,
        mode: str,
        first: int,
        count: int,
        on_progress: ProgressCallback = ignore_progress,
        state: ShardState | None = None,
        keep: Callable[[ShardState], None] = lambda state: None,
    ) -> Samples:
        """Samples ``first`` to ``first + count - 1``. state, keep: as in ``sample_with_shared_distributions``."""
        if self.name == ASSISTED:
            return assisted.sample_assisted(self.pair, self.settings, self.prompt, first, count, on_progress)
        shard = self.make_shard(first, count)
        if mode == SHARED:
            assert self.tested_tokens is None, "shared distributions draw all tokens of a sample"
            return sample_with_shared_distributions(shard, self.label, on_progress, state, keep)
        if mode == MEMOIZED:
            return sample_with_engine(shard, source=self.label, on_progress=on_progress, in_step=True)
        engine = None if self.name == SPECULATIVE else BY_REFERENCE
        return sample_with_engine(shard, source=self.label, on_progress=on_progress, engine=engine)

    def sample_blocks(self, blocks: Blocks, on_progress: ProgressCallback = ignore_progress) -> Samples:
        """Samples of several blocks, one after the other, on shared distributions: a pure function of its arguments."""
        shard = self.make_shard(0, sum(count for _, count in blocks), blocks)
        return sample_with_shared_distributions(shard, self.label, on_progress)

    def decode_rounds(
        self, numbers: Sequence[int], length: int | None = None, on_progress: ProgressCallback = ignore_progress
    ) -> list[list[Round]]:
        """The rounds of these samples through the engine, side by side. length: tokens of each; None: as the settings say."""
        settings = self.settings if length is None else replace(self.settings, max_new_tokens=length)
        made = self.reopen()
        opening = build_first_prefix(self.prompt, settings, made.target.context)
        randomness, eos_token_ids = made.randomness(PhiloxRandomness(settings.seed)), self.eos_token_ids
        rounds: dict[int, list[Round]] = {number: [] for number in numbers}

        def run_step(rows: Sequence[Prefix]) -> list[Round]:
            return step(rows, made.target, made.proposer, made.rule, randomness, eos_token_ids)

        rows = (replace(opening, draw=number) for number in rounds)
        for stepped in iterate_rounds(rows, run_step, eos_token_ids, max(1, len(rounds))):
            for row, round_, _ in stepped:
                rounds[row.draw].append(round_)
            on_progress(max(sum(len(one.committed) for one in text) for text in rounds.values()) / settings.max_new_tokens)
        return [rounds[number] for number in numbers]

    def sample_target(self, count: int | None = None, on_progress: ProgressCallback = ignore_progress) -> Samples:
        """Target-only samples under the next seed, for the test that needs no distribution. count: None: as usual."""
        if count is None:
            count = count_whole_samples(results.REFERENCE_SAMPLES, self.pair.vocabulary)
        other = replace(self.settings, seed=(self.settings.seed + 1) % 2**63)
        return build_decoder(TARGET, self.pair, other, self.prompt).sample(SHARED, 0, count, on_progress)

    def count_borderline(self, partition: Partition, count: int, blocks: Blocks = ()) -> int | None:
        """How many of the first ``count`` samples may fall into another cell on another machine; None: unknown.

        ``blocks``: where the samples are, if they are not the first ones of the seed.

        Shared distributions give the samples of the engine, so both modes have the same edges. With coarse distributions (half
        precision, 8 bits) the window would be so wide that the number means nothing.
        """
        if self.name == ASSISTED or self.engine_only or self.pair.is_coarse:
            return None
        total = 0
        for first in range(0, count, AT_ONCE):
            shard = self.make_shard(first, min(AT_ONCE, count - first), blocks)
            total += find_borderline(shard, partition.names).sum()
        return int(total)

    def compute_analytic_tv(self, positions: int | None = None) -> float | None:
        """Largest total variation between the decoder's own distribution and an uncached pass, along a text written by the target.

        None for other decoders, for proposers that declare no reference of their draft's distributions, for trees, chains of adaptive
        length and other rules, and if nothing is drafted.
        """
        settings, positions = self.settings, positions or count_analytic_prefixes(self.pair.vocabulary)
        has_reference = PROPOSERS.find(settings.proposer).build_reference is not None and not find_form(settings).branches
        is_usual = (settings.draft_length_policy, settings.rule) == ("fixed", "token")
        if self.name != SPECULATIVE or not has_reference or not is_usual or not settings.gamma:
            return None
        longer = replace(settings, max_new_tokens=positions + 8)
        rounds = sample_target_only(self.pair.open(longer)[0], PhiloxRandomness(settings.seed), longer, self.prompt)
        text = [*self.prompt, *(token for round_ in rounds for token in round_.committed)]
        return check_pair_along_text(self.pair, longer, text, positions).worst if len(text) > 2 else None


def build_decoder(
    name: str,
    pair: LoadedPair,
    settings: Settings,
    prompt: Sequence[int] | None = None,
    *,
    without_mistake: bool = False,
    label: str = "",
    followed: FollowedTexts | None = None,
) -> Decoder:
    """Open a decoder.

    Args:
        name: As ``resolve_name`` gives it.
        pair: The models.
        settings: As ``with_mistake`` gives them.
        prompt: Token ids; None: those of the settings' prompt.
        without_mistake: For the id of a mistake: the nearest decoder without it.
        label: Name of the samples' source, if it is another one.
        followed: How far samples are drawn on shared distributions; None: to their end.

    Raises:
        SettingsError: For random numbers chosen by hand, an unknown method or rule, and what these refuse.
    """
    if settings.is_edited:
        raise SettingsError(
            "uniforms", sorted(settings.uniforms), "left out: a run with random numbers chosen by hand is not a sample"
        )

    def reopen() -> Components:
        if name in VARIANTS:
            mutant = VARIANTS[name]
            return (mutant.control if without_mistake else mutant.build)(pair.open, settings)
        if name == TARGET:
            return Components(pair.open(settings)[0], NoDraft(), TokenRule(), _use_target_only)
        target, proposer = open_proposer(pair, settings)
        return Components(target, proposer, build_rule(settings))

    if name != ASSISTED:
        reopen()  # raises what they refuse
    ids = tuple(pair.encode(settings.prompt) if prompt is None else prompt)
    return Decoder(
        name, pair, settings, ids, label or name, reopen, without_mistake, explain_engine_only(name, settings), followed
    )


def sample_together(
    decoders: Sequence[Decoder], first: int, count: int, on_progress: ProgressCallback = ignore_progress
) -> list[Samples]:
    """Samples of several of our decoders on shared distributions. Their settings differ in the seed alone, so the target is read once."""
    drawn: list[Samples] = []
    target: LanguageModel | None = None
    for number, decoder in enumerate(decoders):
        shard = decoder.make_shard(first, count)
        target = target or MemoizedPaths(shard.target)
        shard = replace(shard, target=target)
        drawn.append(
            sample_with_shared_distributions(
                shard, decoder.label, lambda share, number=number: on_progress((number + share) / len(decoders))
            )
        )
    return drawn


def _use_target_only(randomness: Randomness) -> Randomness:
    return TargetOnlyRandomness(cast(StreamRandomness, randomness))


def _gather_blocks(randomness: Randomness, blocks: Blocks) -> GatheredRandomness:
    return GatheredRandomness(cast(StreamRandomness, randomness), tuple((first, count) for first, count in blocks))
