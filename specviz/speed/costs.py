"""What one pass costs: the target on one token and on a block, one step of a draft, the rule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.clock import Clock, Contestant, Key, Lap
from specviz.speed.estimate import Estimate
from specviz.speed.text_passes import build_known_chain
from specviz.trace import Round
from specviz.verification.draft_tree import ROOT, DraftTree, empty_tree
from specviz.verification.token import Rule, TokenRule


@dataclass(frozen=True, slots=True)
class RoundCosts:
    """Medians of seconds at one cache length: T(1), T(gamma + 1), one draft step (pass, distribution and draw), and the rule.

    A draft step is the drafting of a round divided by gamma: the first step after a target pass finds its weights evicted from
    the processor's caches, the later ones do not.
    """

    one: Estimate
    block: Estimate
    draft: Estimate
    rule: Estimate

    def factor(self, tokens_per_pass: float, gamma: int) -> float:
        """How many times as fast as the target alone these costs let speculation be."""
        return tokens_per_pass * self.one.value / (self.block.value + gamma * self.draft.value + self.rule.value)


def build_round_parts(
    target: LanguageModel, draft: LanguageModel, rule: Rule, settings: Settings, rows: Sequence[Prefix]
) -> dict[str, Callable[[], object]]:
    """The parts of a round on these rows, each as a call that may be repeated: a pass over one token of every row (``one``) and over
    gamma + 1 (``block``), the drafting of gamma tokens (``draft``), and ``rule``."""
    proposer, randomness = DraftModel(draft, settings.gamma), PhiloxRandomness(settings.seed)
    tree = proposer.propose(rows, randomness)
    p = target.distributions(rows, tree)
    return {
        "one": lambda: target.distributions(rows, empty_tree(len(rows))),
        "block": lambda: target.distributions(rows, tree),
        "draft": lambda: proposer.propose(rows, randomness),
        "rule": lambda: rule.verify(rows, tree, p, randomness),
    }


def time_parts(
    parts: Mapping[Key, Callable[[], object]],
    pair: LoadedPair,
    runs: int,
    warm_runs: int = 0,
    on_progress: ProgressCallback = ignore_progress,
    rewarmed: Collection[Key] = (),
) -> Clock[Key]:
    """Parts of work on one interleaved clock that waits for the pair's device.

    alike  parts that follow one another in the decoder, as a target's passes of one token. Each is called once more right before it is
           timed: with what work on many rows has left in the processor's caches, such a pass takes a third longer
    """

    def work(key: Key, lap: Lap) -> None:
        part = parts[key]
        if key in rewarmed:
            began = time.perf_counter()
            part()
            synchronize_device(pair)
            lap.exclude(time.perf_counter() - began)
        part()

    clock = Clock({key: partial(work, key) for key in parts}, warm_runs, synchronize=partial(synchronize_device, pair))
    return clock.run_until(runs, lambda share, run, key: on_progress(share))


def measure_costs(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], repeats: int = 9) -> RoundCosts:
    """Medians over ``repeats`` interleaved passes, after a prefix of the length that the runs have halfway."""
    prefix = (ids * (1 + settings.max_new_tokens))[: len(ids) + settings.max_new_tokens // 2]
    parts = build_round_parts(*pair.open(settings), TokenRule(), settings, [Prefix(prefix, 0, settings.max_new_tokens)])
    clock = time_parts(parts, pair, repeats)
    return RoundCosts(**{name: clock.median(name, settings.gamma if name == "draft" else 1) for name in parts})


def combine_costs(costs: Sequence[RoundCosts]) -> RoundCosts:
    """Field by field, over costs that were measured at different times."""
    return RoundCosts(*(Estimate.from_runs([getattr(one, part.name).value for one in costs], "s") for part in fields(RoundCosts)))


def synchronize_device(pair: LoadedPair) -> None:
    """Wait for a device that works on its own."""
    if pair.target.device.type == "cuda":
        torch.cuda.synchronize()


def average_round_timeline(rounds: Sequence[Round], seconds: float) -> dict[str, float]:
    """Where the time of runs went, mean seconds per round: draft, target, rule (or the whole round, where it is timed whole), and the rest.

    rounds  of whole runs, with the passes that read a prompt; seconds  that these runs took
    """
    parts = {name: statistics.mean(round_.timing[name] for round_ in rounds) for name in rounds[0].timing}
    return parts | {"rest": seconds / len(rounds) - sum(parts.values())}


def time_rule(vocabulary: int, gamma: int = 4, repeats: int = 15) -> Estimate:
    """Seconds that the token rule takes for one chain at a vocabulary size, on random distributions. No model is involved."""
    make = torch.Generator().manual_seed(0)
    p, q = (torch.softmax(3 * torch.randn(1, gamma + 1, vocabulary, generator=make, dtype=torch.float64), -1) for _ in range(2))
    tokens = tuple(torch.multinomial(q[0, :gamma], 1, generator=make)[:, 0].tolist())
    block = DraftTree((tokens,), (tuple(range(ROOT, gamma - 1)),), (q[0, :gamma],), ((None,) * gamma,), "draft")

    def verify(lap: Lap) -> None:
        TokenRule().verify([Prefix((0,), lap.run, 64)], block, p, PhiloxRandomness(lap.run))

    return Clock({"rule": verify}, warm_runs=0).run_until(repeats).median("rule")


def time_shapes(
    shapes: Sequence[tuple[int, int]], blocks: Sequence[int], vocabulary: int = 4096, cached_tokens: int = 128, repeats: int = 25
) -> dict[tuple[int, int], dict[int, Estimate]]:
    """Seconds of one pass of Llama-style decoders with random weights, interleaved: shape -> tokens in the pass -> median.

    shapes  (layers, width) with heads of 64; blocks  tokens per pass; held  tokens in the cache before it
    """
    rows = [Prefix(tuple(range(cached_tokens + 1)), 0, 64)]
    contestants: dict[tuple[tuple[int, int], int], Contestant] = {}
    for shape in shapes:
        source = CachedModel(_build_random_model(*shape, vocabulary), Settings())
        for n in blocks:
            chain = build_known_chain(range(n - 1))
            contestants[shape, n] = lambda lap, source=source, chain=chain: source.logits(rows, chain)
    clock = Clock(contestants, warm_runs=2).run_until(repeats)  # the first run fills the caches
    return {shape: {n: clock.median((shape, n)) for n in blocks} for shape in shapes}


def _build_random_model(layers: int, width: int, vocabulary: int) -> LlamaForCausalLM:
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


def measure_block_gap(pair: LoadedPair, settings: Settings, ids: Sequence[int], block: int = 4) -> list[float]:
    """Total variation between the distributions of one pass over ``block`` tokens and of passes of one token, at each place of a text.

    The rule keeps the distribution of the verification pass. In float32 the two agree up to rounding; in bfloat16 they do not.
    ids: a text, of which all but the first few tokens are read in blocks; returns one value in [0, 1] for each place
    """
    ids, gaps = tuple(ids), []
    whole, single = pair.open(settings)[0], pair.open(settings)[0]
    for begin in range(4, len(ids) - block, block):
        together = whole.distributions([Prefix(ids[:begin], 0, 64)], build_known_chain(ids[begin : begin + block]))[0]
        for offset in range(block + 1):
            alone = single.distributions([Prefix(ids[: begin + offset], 0, 64)], empty_tree(1))[0, 0]
            gaps.append(float((together[offset] - alone).abs().sum()) / 2)
    return gaps
