"""What a pass of a pair will take on this machine, measured before its weights are there.

Models of the same configurations with meaningless weights are timed side by side through the decoder's own passes. Where all L layers
would be too much, one model has k of them and one has a single layer. Layers are alike, so T(L) = T(k) + (L - k) (T(k) - T(1)) / (k - 1),
run by run; what is beside the layers counts once: embedding, output matrix, distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from transformers import PretrainedConfig, PreTrainedModel

from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.encoder_decoder import ConditionedModel
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.pairs.families import count_parameters
from specviz.models.pairs.shallow import build_shallow_model, count_layers, cut_config
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.clock import Clock, Lap
from specviz.speed.estimate import MIN_RUNS, Estimate
from specviz.speed.text_passes import build_known_chain
from specviz.verification.draft_tree import DraftTree, empty_tree

GAMMA = 4  # draft tokens of the verifying pass and of a drafting
CACHED_TOKENS = 64  # tokens before the pass
LAYER_BYTES = (
    512_000_000  # of layers: beyond a processor's cache, where the layers that are left out would be read from memory too
)
MAX_SECONDS = 3.0  # that the runs may take, if LEAST runs take no longer
MAX_RUNS = 25  # at most
ESTIMATE_ERROR = (
    0.3  # largest share by which an estimate was seen off besides its interval, mostly too low (docs/reference/benchmarks.md)
)


@dataclass(frozen=True, slots=True)
class ExpectedPassTimes:
    """Seconds, each an estimate with the interval of its runs. The real pair may deviate by a share of ESTIMATE_ERROR more.

    one    target pass over one token
    block  target pass over gamma + 1 tokens
    draft  one draft step: a pass over one token, its distribution and the draw
    """

    one: Estimate
    block: Estimate
    draft: Estimate
    gamma: int = GAMMA
    off: float = ESTIMATE_ERROR

    def factor(self, tokens_per_pass: float) -> float:
        """How many times as fast as the target alone speculation would be with these costs."""
        return tokens_per_pass * self.one.value / (self.block.value + self.gamma * self.draft.value)


def measure_pass_times(
    target: PretrainedConfig,
    draft: PretrainedConfig,
    device: torch.device,
    dtype: torch.dtype,
    on_progress: ProgressCallback = ignore_progress,
    layer_bytes: int = LAYER_BYTES,
) -> ExpectedPassTimes:
    """Time a pair that is known by its configurations alone.

    on_progress  called with the share that is done; what it raises ends the work
    layer_bytes  about how many bytes of layers the deeper of two models has, at least two layers

    Raises MemoryError or RuntimeError where the machine has no room for it.
    """
    rows, settings, vocabulary = [_build_row(target, draft)], Settings(), max(_vocabulary_sizes(target, draft))
    depths = {name: _choose_depths(config, dtype, layer_bytes) for name, config in (("target", target), ("draft", draft))}
    contestants: dict[tuple[str, int], Callable[[Lap], object]] = {}
    targets = [
        _open_model(build_shallow_model(target, layers, device, dtype), settings, vocabulary, CachedModel)
        for layers in depths["target"]
    ]
    for name, tree in (("one", empty_tree(1)), ("block", build_known_chain((0,) * GAMMA))):
        for layers, source in zip(depths["target"], targets, strict=True):  # in turn, so that none finds its weights in a cache
            contestants[name, layers] = partial(_read_tree, source, rows, tree)
    for layers in depths["draft"]:
        source = _open_model(build_shallow_model(draft, layers, device, dtype), settings, vocabulary, SteppingModel)
        proposer, randomness = DraftModel(source, GAMMA), PhiloxRandomness(settings.seed)
        contestants["draft", layers] = partial(_draft, proposer, rows, randomness)
    clock = Clock(contestants, synchronize=torch.cuda.synchronize if device.type == "cuda" else lambda: None)
    clock.run_until(1, lambda share, run, key: on_progress(0.3 * share))
    spent = sum(sum(clock.seconds(key)) for key in contestants)
    clock.run_until(
        max(MIN_RUNS, min(MAX_RUNS, int(MAX_SECONDS / spent))), lambda share, run, key: on_progress(0.3 + 0.7 * share)
    )
    parts = (("one", target, 1), ("block", target, 1), ("draft", draft, GAMMA))
    one, block, step = (
        Estimate.from_runs(
            _extrapolate_layers(
                {layers: clock.seconds((key, layers)) for key, layers in contestants if key == name}, count_layers(config), pieces
            ),
            "s",
        )
        for name, config, pieces in parts
    )
    return ExpectedPassTimes(one, block, step)


def _read_tree(source: CachedModel, rows: Sequence[Prefix], tree: DraftTree, lap: Lap) -> None:
    source.distributions(rows, tree)


def _draft(proposer: DraftModel, rows: Sequence[Prefix], randomness: PhiloxRandomness, lap: Lap) -> None:
    proposer.propose(rows, randomness)


def _extrapolate_layers(shown: Mapping[int, Sequence[float]], whole: int, pieces: int) -> list[float]:
    """Seconds of each run with all layers, from those of fewer (layers -> seconds of each run).

    A disturbed run in which the deeper model was the faster gives what the deeper one took.
    """
    few, more = min(shown), max(shown)
    if more == whole:
        return [seconds / pieces for seconds in shown[more]]
    return [
        max(deep, deep + (whole - more) * (deep - flat) / (more - few)) / pieces
        for flat, deep in zip(shown[few], shown[more], strict=True)
    ]


def _choose_depths(config: PretrainedConfig, dtype: torch.dtype, layer_bytes: int) -> tuple[int, ...]:
    """Numbers of layers to time: all where they are few or small, else one and some more."""
    whole = count_layers(config)
    if whole <= 2:
        return (whole,)
    each = (count_parameters(cut_config(config, 2)) - count_parameters(cut_config(config, 1))) * dtype.itemsize
    layers = min(whole, max(2, layer_bytes // max(each, 1)))
    return (whole,) if layers == whole else (1, layers)


def _open_model(model: PreTrainedModel, settings: Settings, vocabulary: int, kind: type[CachedModel]) -> CachedModel:
    if model.config.is_encoder_decoder:
        return ConditionedModel(model, settings, vocabulary, (1,) * CACHED_TOKENS)
    return kind(model, settings, vocabulary)


def _build_row(*configs: PretrainedConfig) -> Prefix:
    """A text that both models can read and that leaves room for the draft tokens."""
    contexts = [getattr(config.get_text_config(), "max_position_embeddings", None) or 2 * CACHED_TOKENS for config in configs]
    held = max(1, min(CACHED_TOKENS, min(contexts) - 2 * GAMMA - 2))
    return Prefix(tuple(place % min(_vocabulary_sizes(*configs)) for place in range(held)), 0, 2 * GAMMA + 2)


def _vocabulary_sizes(*configs: PretrainedConfig) -> list[int]:
    return [config.get_text_config().vocab_size for config in configs]
