"""What a pass costs, by tokens, tree nodes and rows, and what a whole round costs at every number of draft tokens.

Three measurements, all by one interleaved clock:
- ``measure_costs``: the parts of a round at one cache length, each repeated in place.
- ``measure_pass_curves``: passes over more tokens, over trees and over more rows, all with the same number of cached tokens. The curves
  say how many tree nodes are worth their pass, and from how many rows on speculation stops paying, because a pass over many rows is
  no longer limited by reading the weights.
- ``RoundProbes``: whole rounds, in sequence as in decoding. A round repeated in one place would be a few percent cheaper.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.decoding.engine import TargetOnlyRandomness, advance_prefix, step
from specviz.decoding.method_checks import build_rule
from specviz.errors import ModelError
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import Proposer
from specviz.proposers.copied import CopiedTokens
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix, Randomness
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import Ids, Texts
from specviz.speed.measurement.clock import Clock, Contestant, Key, Lap
from specviz.speed.measurement.text_passes import build_known_chain
from specviz.speed.measurement.timed_decoding import PROMPTS, decode_speculatively
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import RoundCostCurve
from specviz.threads import hold_choices
from specviz.trace import Round
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree, build_token_tree
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule


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

    def compute_factor(self, tokens_per_pass: float, gamma: int) -> float:
        """How many times as fast as the target alone these costs let speculation be."""
        return tokens_per_pass * self.one.value / (self.block.value + gamma * self.draft.value + self.rule.value)


def build_round_parts(
    target: LanguageModel, draft: LanguageModel, rule: Rule, settings: Settings, rows: Sequence[Prefix]
) -> dict[str, Callable[[], object]]:
    """The parts of a round on these rows, each as a call that may be repeated.

    They are a pass over one token of every row (``one``) and over gamma + 1 (``block``), the drafting of gamma tokens (``draft``), and
    ``rule``.
    """
    proposer, randomness = DraftModel(draft, settings.gamma), PhiloxRandomness(settings.seed)
    tree = proposer.propose(rows, randomness)
    p = target.compute_distributions(rows, tree)
    return {
        "one": lambda: target.compute_distributions(rows, build_empty_tree(len(rows))),
        "block": lambda: target.compute_distributions(rows, tree),
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

    rewarmed: parts that follow one another in the decoder, as a target's passes of one token. Each is called once more right before
    it is timed: with what work on many rows has left in the processor's caches, such a pass takes a third longer.
    """

    def run_part(key: Key, lap: Lap) -> None:
        part = parts[key]
        if key in rewarmed:
            began = time.perf_counter()
            part()
            synchronize_device(pair)
            lap.exclude(time.perf_counter() - began)
        part()

    clock = Clock({key: partial(run_part, key) for key in parts}, warm_runs, synchronize=partial(synchronize_device, pair))
    return clock.run_until(runs, lambda share, run, key: on_progress(share))


def measure_costs(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], repeats: int = 9) -> RoundCosts:
    """Medians over ``repeats`` interleaved passes, after a prefix of the length that the runs have halfway."""
    prefix = (ids * (1 + settings.max_new_tokens))[: len(ids) + settings.max_new_tokens // 2]
    parts = build_round_parts(*pair.open(settings), TokenRule(), settings, [Prefix(prefix, 0, settings.max_new_tokens)])
    clock = time_parts(parts, pair, repeats)
    return RoundCosts(**{name: clock.compute_median(name, settings.gamma if name == "draft" else 1) for name in parts})


def combine_costs(costs: Sequence[RoundCosts]) -> RoundCosts:
    """Field by field, over costs that were measured at different times."""
    return RoundCosts(*(Estimate.from_runs([getattr(one, part.name).value for one in costs], "s") for part in fields(RoundCosts)))


def synchronize_device(pair: LoadedPair) -> None:
    """Wait for a device that works on its own."""
    if pair.target.device.type == "cuda":
        torch.cuda.synchronize()


def average_round_timeline(rounds: Sequence[Round], seconds: float) -> dict[str, float]:
    """Where the time of runs went, mean seconds per round: draft, target, rule (or the whole round, where it is timed whole), and the rest.

    Args:
        rounds: Of whole runs, with the passes that read a prompt.
        seconds: That these runs took.
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

    return Clock({"rule": verify}, warm_runs=0).run_until(repeats).compute_median("rule")


def time_shapes(
    shapes: Sequence[tuple[int, int]], blocks: Sequence[int], vocabulary: int = 4096, cached_tokens: int = 128, repeats: int = 25
) -> dict[tuple[int, int], dict[int, Estimate]]:
    """Seconds of one pass of Llama-style decoders with random weights, interleaved: shape -> tokens in the pass -> median.

    shapes: (layers, width) with heads of 64; blocks: tokens per pass; cached_tokens: tokens in the cache before it.
    """
    rows = [Prefix(tuple(range(cached_tokens + 1)), 0, 64)]
    contestants: dict[tuple[tuple[int, int], int], Contestant] = {}
    for shape in shapes:
        source = CachedModel(_build_random_model(*shape, vocabulary), Settings())
        for n in blocks:
            chain = build_known_chain(range(n - 1))
            contestants[shape, n] = partial(_read_chain, source, rows, chain)
    clock = Clock(contestants, warm_runs=2).run_until(repeats)  # the first run fills the caches
    return {shape: {n: clock.compute_median((shape, n)) for n in blocks} for shape in shapes}


def _read_chain(source: CachedModel, rows: Sequence[Prefix], chain: DraftTree, lap: Lap) -> None:
    source.compute_logits(rows, chain)


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
        together = whole.compute_distributions([Prefix(ids[:begin], 0, 64)], build_known_chain(ids[begin : begin + block]))[0]
        for offset in range(block + 1):
            alone = single.compute_distributions([Prefix(ids[: begin + offset], 0, 64)], build_empty_tree(1))[0, 0]
            gaps.append(float((together[offset] - alone).abs().sum()) / 2)
    return gaps


CHAIN_SIZES = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33)  # tokens of a pass in a chain
TREE_SIZES = (2, 4, 8, 12, 16, 24, 32, 48, 64)  # nodes of a tree, beside the token before it
NODE_BUDGETS = (2, 4, 8, 16, 32)  # of which the best is chosen
ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64)
CACHED_TOKENS = 128  # tokens in the cache


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """A tree of a number of nodes, on the bench's prompts.

    Attributes:
        speed: Tokens per second over the target's alone, by the curve: tokens_per_pass * T(1) / (T(tree) + drafting).
    """

    nodes: int
    tokens_per_pass: float
    drafting: Estimate
    speed: float


@dataclass(frozen=True, slots=True)
class PassCostCurves:
    """Seconds by tokens of a pass (chain), by nodes of a tree, and by rows; tokens per pass of the draft's chain at temperature 1."""

    chain: dict[int, Estimate]
    tree: dict[int, Estimate]
    rows: dict[int, RoundCosts]
    gamma: int
    tokens_per_pass: float
    budgets: dict[str, tuple[NodeBudget, ...]]

    def find_best(self, name: str) -> NodeBudget:
        """The number of nodes with which a tree is fastest."""
        return max(self.budgets[name], key=lambda budget: budget.speed)


def measure_pass_curves(
    pair: LoadedPair, gamma: int, length: int, runs: int = 15, log: Callable[[str], None] = print
) -> PassCostCurves:
    """All curves of a pair. length: tokens that are written after each prompt."""
    log("passes over chains, trees and rows")
    plain = Settings(pair=pair.name, gamma=gamma, max_new_tokens=length)
    parts = {("chain", n): build_tree_pass(pair, plain, tuple(range(ROOT, n - 2))) for n in CHAIN_SIZES}
    parts |= {("tree", n): build_tree_pass(pair, plain, build_branching_parents(n)) for n in TREE_SIZES}
    for count in ROW_COUNTS:
        parts |= {
            (name, count): part
            for name, part in build_round_parts(*pair.open(plain), build_rule(plain), plain, build_cached_rows(count)).items()
        }
    clock = time_parts(parts, pair, runs, warm_runs=2, rewarmed={("chain", 1), *(("one", count) for count in ROW_COUNTS)})
    times = {key: clock.compute_median(key, gamma if key[0] == "draft" else 1) for key in parts}
    chain, tree = ({n: times[kind, n] for n in numbers} for kind, numbers in (("chain", CHAIN_SIZES), ("tree", TREE_SIZES)))
    rows = {n: RoundCosts(*(times[name, n] for name in ("one", "block", "draft", "rule"))) for n in ROW_COUNTS}
    log("texts")
    tokens_per_pass, _ = _count_rounds(pair, plain)
    budgets = {}
    for name, changes in _find_tree_settings(pair).items():
        log(f"texts with {name}")
        budgets[name] = tuple(
            _measure_budget(pair, replace(plain, **changes), nodes, chain[1].value, tree[nodes].value) for nodes in NODE_BUDGETS
        )
    return PassCostCurves(chain, tree, rows, gamma, tokens_per_pass, budgets)


def build_branching_parents(nodes: int) -> tuple[int, ...]:
    """Parents of a tree in which the text has three children and every node two, as far as the nodes go."""
    return tuple(ROOT if node < 3 else (node - 3) // 2 for node in range(nodes))


def build_tree_pass(pair: LoadedPair, settings: Settings, parents: tuple[int, ...]) -> Callable[[], object]:
    """A pass of the target over a tree with these parents, and the token before it, as a call that may be repeated."""
    source, rows, tree = pair.open(settings)[0], build_cached_rows(1), build_token_tree((tuple(range(len(parents))),), (parents,))
    return lambda: source.compute_distributions(rows, tree)


def build_cached_rows(count: int) -> list[Prefix]:
    """``count`` rows, each with CACHED_TOKENS tokens in the cache once it has been read."""
    return [Prefix(tuple(range(1, CACHED_TOKENS + 2)), 0, 64, draw=draw) for draw in range(count)]


def _find_tree_settings(pair: LoadedPair) -> dict[str, dict[str, Any]]:
    """Trees by name, from the draft, and from Medusa heads where the pair has some; of draws, and at temperature 0 of top tokens."""
    proposers = {"draft's tree": {"proposer": "tree"}, "heads' tree": {"proposer": "medusa"}}
    found: dict[str, dict[str, Any]] = {}
    for temperature in (0.0, 1.0):
        for name, changes in proposers.items():
            chosen: dict[str, Any] = {**changes, "temperature": temperature, "tree_budget": NODE_BUDGETS[0]}
            try:
                open_proposer(pair, Settings(pair=pair.name, **chosen))
            except ModelError:  # no heads for this pair
                continue
            found[f"{name}, temperature {temperature:g}"] = chosen
    return found


def _measure_budget(pair: LoadedPair, settings: Settings, nodes: int, pass_seconds: float, tree_seconds: float) -> NodeBudget:
    tokens_per_pass, drafting = _count_rounds(pair, replace(settings, tree_budget=nodes))
    return NodeBudget(nodes, tokens_per_pass, drafting, tokens_per_pass * pass_seconds / (tree_seconds + drafting.value))


def _count_rounds(pair: LoadedPair, settings: Settings) -> tuple[float, Estimate]:
    """Tokens per pass, and median seconds of drafting in a round, over the bench's prompts; texts are not ended early."""
    rounds = []
    for prompt in PROMPTS.values():
        rounds += list(decode_speculatively(pair, replace(settings, prompt=prompt, engine="reference"), pair.encode(prompt)))[1:]
    tokens = sum(len(round_.committed) for round_ in rounds)
    return tokens / len(rounds), Estimate.from_runs([round_.timing["draft"] for round_ in rounds], "s")


TIMING_PARTS = ("draft", "target", "rule")
TARGET_ONLY = -1  # "draft tokens" of the target alone
WARM_ROUNDS, TIMED_ROUNDS = 2, 5  # rounds of a stretch that are not timed, with the jump, and that are
PLACE_STEP = 0.6180339887498949  # share of the text between one run's place and the next: the golden ratio spreads any number of runs evenly
WARM_RUNS = 2  # runs that are left out: first passes are slow


class RoundProbes:
    """Runs of probes for 0 to ``most`` draft tokens on texts (prompt, tokens), one text after the other, and the costs that they show.

    Each run has every probe once, all from one place of one text. It may be made at any moment, between other work of the process.
    ``sizes``: numbers of draft tokens that are timed, ascending, from 0 to ``most``; the others lie on lines between them. None: all.
    """

    def __init__(
        self,
        pair: LoadedPair,
        settings: Settings,
        texts: Texts,
        most: int,
        sizes: Sequence[int] | None = None,
        warm_runs: int = WARM_RUNS,
    ):
        self.pair, self.settings, self.texts, self.most, self.warm_runs = pair, settings, texts, most, warm_runs
        self.kinds = (TARGET_ONLY, *(range(most + 1) if sizes is None else sizes))
        self.randomness = PhiloxRandomness(settings.seed)
        self.clock: Clock[int] = Clock(
            {n: partial(self._run_stretch, n) for n in self.kinds}, warm_runs, lambda run: (self._locate_run(run),)
        )

    def run_until(self, runs: int, on_progress: ProgressCallback = ignore_progress) -> RoundProbes:
        """Go on until there are so many runs, without those that warm up."""
        self.clock.run_until(runs, lambda share, run, n: on_progress(share))
        return self

    def build_curve(self) -> RoundCostCurve:
        """The times so far, of at least one run."""
        alone, *rounds = [[seconds / TIMED_ROUNDS for seconds in self.clock.get_splits(n, "rounds")] for n in self.kinds]
        first_alone, *first = [self.clock.get_splits(n, "first") for n in self.kinds]
        rounds = self._fill_sizes(rounds)
        all_first = [list(first_alone), *self._fill_sizes(first)]
        parts = {
            part: tuple(
                one[0]
                for one in self._fill_sizes(
                    [[statistics.median(kept[part] for kept in self.clock.get_kept(n))] for n in self.kinds[1:]]
                )
            )
            for part in TIMING_PARTS
        }
        medians = [statistics.median(one) for one in rounds]
        rest = tuple(max(0.0, whole - sum(parts[part][n] for part in TIMING_PARTS)) for n, whole in enumerate(medians))
        by_run = tuple(zip(*rounds, strict=True))
        return RoundCostCurve(tuple(alone), by_run, tuple(zip(*all_first, strict=True)), parts | {"rest": rest})

    def _fill_sizes(self, timed: Sequence[Sequence[float]]) -> list[list[float]]:
        """For each number of draft tokens, run by run: as timed, and in between on a straight line."""
        sizes = self.kinds[1:]
        if len(sizes) == self.most + 1:
            return [list(one) for one in timed]
        by_run = [np.interp(range(self.most + 1), sizes, run).tolist() for run in zip(*timed, strict=True)]
        return [list(one) for one in zip(*by_run, strict=True)]

    def _locate_run(self, run: int) -> tuple[tuple[Ids, Sequence[int]], float]:
        """The text of a run, and the share of it that lies before its place."""
        number = run - 1 + self.warm_runs
        return self.texts[number % len(self.texts)], (0.5 + number * PLACE_STEP) % 1.0

    def _run_stretch(self, n: int, lap: Lap) -> None:
        """A text's first round with its opening, and then rounds from a place on, of which the last TIMED_ROUNDS are timed."""
        (prompt, tokens), share = lap.item
        draft_tokens = max(n, 0)
        remaining = max(len(tokens), draft_tokens + 1)
        place = int(share * (remaining - draft_tokens))
        begin = Prefix((*prompt, *(int(x) for x in tokens[:place])), place, remaining - place)
        target, proposer, randomness = self._open_decoder(n, tokens)
        rule = TokenRule() if n == TARGET_ONLY else build_rule(self.settings)
        step([Prefix(prompt, 0, remaining)], target, proposer, rule, randomness)
        lap.split("first")
        row, rounds = begin, []
        for number in range(WARM_ROUNDS + TIMED_ROUNDS):
            if number == WARM_ROUNDS:
                lap.split("warming up")
            with nullcontext() if number < WARM_ROUNDS else hold_choices():
                (round_,) = step([row], target, proposer, rule, randomness)
            rounds.append(round_.timing)
            row = advance_prefix(row, round_)
            row = row if row.remaining > draft_tokens else begin  # the last rounds of a text have fewer than n draft tokens
        lap.split("rounds")
        lap.keep({part: statistics.mean(one[part] for one in rounds[WARM_ROUNDS:]) for part in TIMING_PARTS})

    def _open_decoder(self, n: int, tokens: Sequence[int]) -> tuple[LanguageModel, Proposer, Randomness]:
        """Caches of their own for a stretch, and its random numbers."""
        if n == TARGET_ONLY:
            return self.pair.open_model(self.pair.target, self.settings), NoDraft(), TargetOnlyRandomness(self.randomness)
        target, proposer = open_proposer(self.pair, replace(self.settings, gamma=n))
        return target, _force_length(proposer, n, tokens), self.randomness


def _force_length(proposer: Proposer, n: int, tokens: Sequence[int]) -> Proposer:
    """A proposer that makes n draft tokens here: one that copies searches its text as always, and then copies filler tokens."""
    if not isinstance(proposer, CopiedTokens):
        return proposer
    filler = [int(x) for x in tokens[:n]]

    def copy_filler(ids: Sequence[int], count: int) -> list[int]:
        proposer.follow(ids, count)
        return filler[:count]

    return CopiedTokens(proposer.name, copy_filler, n, len(proposer.like), proposer.like.device)
