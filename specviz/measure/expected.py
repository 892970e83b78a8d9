"""What a pass of a pair will take on this machine, measured before its weights are there.

Models of the same configurations with one layer and with some more, and with meaningless weights, are timed side by side through the
decoder's own passes. Layers are alike, so T(L) = T(1) + (L - 1) (T(k) - T(1)) / (k - 1), run by run. What is in T(1) beside its layer
counts once: embedding, output matrix, distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import PretrainedConfig, PreTrainedModel

from specviz.measure.clock import Clock, Lap
from specviz.measure.estimate import LEAST, Estimate
from specviz.measure.text_passes import chain_of
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.encoder_decoder import ConditionedModel
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.pairs.fit import parameters
from specviz.models.pairs.shallow import cut, depth, shallow
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import empty_tree

GAMMA = 4  # draft tokens of the verifying pass and of a drafting
HELD = 64  # tokens before the pass
BYTES = 256_000_000  # of layers: beyond any processor's cache, and made within a second
SECONDS = 3.0  # that the runs may take, if LEAST runs take no longer
RUNS = 25  # at most
OFF = 0.3  # how far such an estimate may be off besides its interval: what the shipped pair's showed, rounded up (docs/benchmarks.md)


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds, each an estimate with the interval of its runs. The real pair's may lie off by a share of OFF more.

    one    target pass over one token
    block  target pass over gamma + 1 tokens
    draft  one draft step: a pass over one token, its distribution and the draw
    """

    one: Estimate
    block: Estimate
    draft: Estimate
    gamma: int = GAMMA
    off: float = OFF

    def factor(self, tokens_per_pass: float) -> float:
        """How many times as fast as the target alone speculation would be with these costs."""
        return tokens_per_pass * self.one.value / (self.block.value + self.gamma * self.draft.value)


def measure_expected(
    target: PretrainedConfig,
    draft: PretrainedConfig,
    device: torch.device,
    dtype: torch.dtype,
    watch: Callable[[float], None] = lambda share: None,
    layer_bytes: int = BYTES,
) -> Expected:
    """Time a pair that is known by its configurations alone.

    watch        called with the share that is done; what it raises ends the work
    layer_bytes  about how many bytes of layers the deeper of two models has, at least two layers

    Raises MemoryError or RuntimeError where the machine has no room for it.
    """
    rows, settings, vocabulary = [Prefix(tuple(range(HELD)), 0, 2 * GAMMA + 2)], Settings(), _vocabulary(target, draft)
    depths = {name: (1, _probed(config, dtype, layer_bytes)) for name, config in (("target", target), ("draft", draft))}
    contestants: dict[tuple[str, int], Callable[[Lap], object]] = {}
    for layers in sorted(set(depths["target"])):
        source = _opened(shallow(target, layers, device, dtype), settings, vocabulary, CachedModel)
        contestants["one", layers] = lambda lap, source=source: source.distributions(rows, empty_tree(1))
        contestants["block", layers] = lambda lap, source=source: source.distributions(rows, chain_of(range(GAMMA)))
    for layers in sorted(set(depths["draft"])):
        source = _opened(shallow(draft, layers, device, dtype), settings, vocabulary, SteppingModel)
        proposer, randomness = DraftModel(source, GAMMA), PhiloxRandomness(settings.seed)
        contestants["draft", layers] = lambda lap, proposer=proposer, randomness=randomness: proposer.propose(rows, randomness)
    clock = Clock(contestants, settle=torch.cuda.synchronize if device.type == "cuda" else lambda: None)
    clock.until(1, lambda share, run, key: watch(0.3 * share))
    spent = sum(sum(clock.seconds(key)) for key in contestants)
    clock.until(max(LEAST, min(RUNS, int(SECONDS / spent))), lambda share, run, key: watch(0.3 + 0.7 * share))
    whole = {"one": depth(target), "block": depth(target), "draft": depth(draft)}
    near = {"one": depths["target"], "block": depths["target"], "draft": depths["draft"]}
    return Expected(
        *(
            Estimate.of_runs(_deep([clock.seconds((key, layers)) for layers in near[key]], near[key][1], whole[key], pieces), "s")
            for key, pieces in (("one", 1), ("block", 1), ("draft", GAMMA))
        )
    )


def _deep(shown: Sequence[Sequence[float]], layers: int, whole: int, pieces: int) -> list[float]:
    """Seconds of each run with all layers, from those with one layer and with ``layers``. A run that was disturbed gives no less than
    its deeper model took."""
    if layers == 1:
        return [seconds / pieces for seconds in shown[0]]
    return [
        max(more, one + (whole - 1) * (more - one) / (layers - 1)) / pieces for one, more in zip(shown[0], shown[1], strict=True)
    ]


def _probed(config: PretrainedConfig, dtype: torch.dtype, layer_bytes: int) -> int:
    """Layers of the deeper model: two or more, all where they are few or small."""
    whole = depth(config)
    if whole <= 2:
        return whole
    each = (parameters(cut(config, 2)) - parameters(cut(config, 1))) * dtype.itemsize
    return min(whole, max(2, layer_bytes // max(each, 1)))


def _opened(model: PreTrainedModel, settings: Settings, vocabulary: int, kind: type[CachedModel]) -> CachedModel:
    if model.config.is_encoder_decoder:
        return ConditionedModel(model, settings, vocabulary, range(1, HELD))
    return kind(model, settings, vocabulary)


def _vocabulary(*configs: PretrainedConfig) -> int:
    return max(config.get_text_config().vocab_size for config in configs)
