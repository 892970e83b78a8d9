"""What one pass costs: the target on one token and on a block, one step of a draft, the rule."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.measure.clock import Clock, Lap
from specviz.measure.estimate import Estimate
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import Pair
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draft_tree import ROOT, DraftTree, empty_tree
from specviz.verification.token_rule import TokenRule


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds per pass at one cache length, medians: T(1), T(gamma + 1), one draft step (pass, distribution and draw), the rule.

    The draft's step is a block's drafting divided by gamma: the first step after a target pass finds its weights evicted from
    the processor's caches, the later ones do not.
    """

    one: Estimate
    block: Estimate
    draft: Estimate
    rule: Estimate


def probes(pair: Pair, settings: Settings, ids: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """What a round consists of, after a prefix of the length that the runs have halfway; each call makes it anew."""
    target, draft = pair.open(settings)
    prefix = (ids * (1 + settings.length))[: len(ids) + settings.length // 2]
    row, randomness = Prefix(prefix, 0, settings.length), PhiloxRandomness(settings.seed)
    proposer = DraftModel(draft, settings.gamma)
    block = proposer.propose([row], randomness)
    p = target.distributions([row], block)
    return {
        "one": lambda: target.distributions([row], empty_tree(1)),
        "block": lambda: target.distributions([row], block),
        "draft": lambda: proposer.propose([row], randomness),
        "rule": lambda: TokenRule().verify([row], block, p, randomness),
    }


def measure_costs(pair: Pair, settings: Settings, ids: tuple[int, ...], repeats: int = 9) -> Costs:
    """Medians over ``repeats`` interleaved passes."""
    found = {name: (lambda lap, probe=probe: probe()) for name, probe in probes(pair, settings, ids).items()}
    clock = Clock(found, warm=0, settle=partial(settle, pair)).until(repeats)
    return Costs(**{name: clock.median(name, settings.gamma if name == "draft" else 1) for name in found})


def median_costs(costs: Sequence[Costs]) -> Costs:
    """Field by field, over costs that were measured at different times."""
    return Costs(*(Estimate.of_runs([getattr(one, part.name).value for one in costs], "s") for part in fields(Costs)))


def settle(pair: Pair) -> None:
    """Wait for a device that works on its own."""
    if pair.target.device.type == "cuda":
        torch.cuda.synchronize()


def timeline(rounds: Sequence[Round], seconds: float) -> dict[str, float]:
    """Where the time of runs went, seconds per round in the mean: draft, target, rule, and all that lies between them.

    rounds   of whole runs, the passes that read a prompt among them; seconds  which these runs took
    """
    parts = {name: statistics.mean(round_.timing[name] for round_ in rounds) for name in ("draft", "target", "rule")}
    return parts | {"rest": seconds / len(rounds) - sum(parts.values())}


def rule_seconds(vocabulary: int, gamma: int = 4, repeats: int = 15) -> Estimate:
    """Seconds that the rule takes for one block at a vocabulary size, on random distributions; no model is involved."""
    make = torch.Generator().manual_seed(0)
    p, q = (torch.softmax(3 * torch.randn(1, gamma + 1, vocabulary, generator=make, dtype=torch.float64), -1) for _ in range(2))
    tokens = tuple(torch.multinomial(q[0, :gamma], 1, generator=make)[:, 0].tolist())
    block = DraftTree((tokens,), (tuple(range(ROOT, gamma - 1)),), (q[0, :gamma],), ((None,) * gamma,), "draft")

    def judged(lap: Lap) -> None:
        TokenRule().verify([Prefix((0,), lap.run, 64)], block, p, PhiloxRandomness(lap.run))

    return Clock({"rule": judged}, warm=0).until(repeats).median("rule")


def shape_seconds(
    shapes: Sequence[tuple[int, int]], blocks: Sequence[int], vocabulary: int = 4096, held: int = 128, repeats: int = 25
) -> dict[tuple[int, int], dict[int, Estimate]]:
    """Seconds of one pass of Llama-style decoders at random weights, interleaved: shape -> tokens in the pass -> median.

    shapes  (layers, width) with heads of 64; blocks  tokens per pass; held  tokens in the cache before it
    """
    rows = [Prefix(tuple(range(held + 1)), 0, 64)]
    contestants: dict[tuple[tuple[int, int], int], Callable[[Lap], Any]] = {}
    for shape in shapes:
        source = CachedModel(_random_model(*shape, vocabulary), Settings())
        for n in blocks:
            block = DraftTree((tuple(range(n - 1)),), (tuple(range(ROOT, n - 2)),), (None,), ((None,) * (n - 1),), "none")
            contestants[shape, n] = lambda lap, source=source, block=block: source.logits(rows, block)
    clock = Clock(contestants, warm=2).until(repeats)  # the first run fills the caches
    return {shape: {n: clock.median((shape, n)) for n in blocks} for shape in shapes}


def _random_model(layers: int, width: int, vocabulary: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=-(-8 * width // 3 // 64) * 64,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def block_gap(pair: Pair, settings: Settings, ids: Sequence[int], block: int = 4) -> list[float]:
    """Total variation between the distributions of one pass over ``block`` tokens and of passes of one token, position by position.

    The rule keeps the distribution of the block's pass. In float32 the two agree to rounding; in bfloat16 they do not.
    ids: a text of which all but the first few tokens are read in blocks; returns one value in [0, 1] per position.
    """
    ids, gaps = tuple(ids), []
    whole, single = pair.open(settings)[0], pair.open(settings)[0]
    for begin in range(4, len(ids) - block, block):
        tokens = ids[begin : begin + block]
        chain = DraftTree((tokens,), (tuple(range(ROOT, block - 1)),), (None,), ((None,) * block,), "none")
        together = whole.distributions([Prefix(ids[:begin], 0, 64)], chain)[0]
        for offset in range(block + 1):
            alone = single.distributions([Prefix(ids[: begin + offset], 0, 64)], empty_tree(1))[0, 0]
            gaps.append(float((together[offset] - alone).abs().sum()) / 2)
    return gaps
