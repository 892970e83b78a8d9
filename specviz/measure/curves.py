"""Cost curves: what a pass over more tokens, over a tree, or over more rows costs, in one-token passes; and what follows.

All passes read the same number of tokens from the cache and are measured by one interleaved clock. Two
choices follow from the curves: how many nodes of a tree are worth their pass, and from how many rows on speculation stops
paying, because a pass over many rows is no longer limited by reading the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from specviz.decoding.engine import decode
from specviz.errors import ModelError
from specviz.measure.bench import PROMPTS
from specviz.measure.clock import Clock
from specviz.measure.costs import settle
from specviz.measure.estimate import Estimate
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.registry import rule_of

BLOCKS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33)  # tokens of a pass in a chain
NODES = (2, 4, 8, 12, 16, 24, 32, 48, 64)  # nodes of a tree, beside the token before it
BUDGETS = (2, 4, 8, 16, 32)  # of which the best is chosen
ROWS = (1, 2, 4, 8, 16, 32, 64)
HELD = 128  # tokens in the cache


@dataclass(frozen=True, slots=True)
class Batch:
    """Seconds at so many rows: a pass of one token each, of gamma + 1 each, one draft step, and the rule."""

    one: Estimate
    block: Estimate
    draft: Estimate
    rule: Estimate

    def factor(self, tokens_per_pass: float, gamma: int) -> float:
        """How many times as fast as the target alone these costs let speculation be."""
        return tokens_per_pass * self.one.value / (self.block.value + gamma * self.draft.value + self.rule.value)


@dataclass(frozen=True, slots=True)
class Budget:
    """A tree within a number of nodes, on the bench's prompts.

    tokens_per_pass  committed per target pass; drafting  seconds of drafting per round
    speed            tokens per second over the target's alone, as the curve has it: tokens_per_pass * T(1) / (T(tree) + drafting)
    """

    nodes: int
    tokens_per_pass: float
    drafting: Estimate
    speed: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Seconds by tokens of a pass (chain), by nodes of a tree, and by rows; tokens per pass of the draft's chain at temperature 1."""

    chain: dict[int, Estimate]
    tree: dict[int, Estimate]
    rows: dict[int, Batch]
    gamma: int
    tokens_per_pass: float
    budgets: dict[str, tuple[Budget, ...]]

    def best(self, name: str) -> Budget:
        """The number of nodes with which a tree is fastest."""
        return max(self.budgets[name], key=lambda budget: budget.speed)


def measure(pair: Pair, gamma: int, length: int, runs: int = 15, say: Callable[[str], None] = print) -> Curves:
    """All curves of a pair. length: tokens that each prompt is continued by where texts are written."""
    say("passes over chains, trees and rows")
    times = _passes(pair, gamma, runs)
    chain, tree = ({n: times[kind, n] for n in numbers} for kind, numbers in (("chain", BLOCKS), ("tree", NODES)))
    rows = {n: Batch(*(times[kind, n] for kind in ("one", "block", "draft", "rule"))) for n in ROWS}
    say("texts")
    plain = Settings(pair=pair.name, gamma=gamma, length=length)
    tokens_per_pass, _ = _written(pair, plain)
    budgets = {}
    for name, fields in _trees(pair).items():
        say(f"texts with {name}")
        budgets[name] = tuple(
            _budget(pair, replace(plain, **fields), nodes, chain[1].value, tree[nodes].value) for nodes in BUDGETS
        )
    return Curves(chain, tree, rows, gamma, tokens_per_pass, budgets)


def _trees(pair: Pair) -> dict[str, dict[str, object]]:
    """Trees by name: from the draft, and from Medusa heads where the pair has some; of draws, and at temperature 0 of likeliest tokens."""
    proposers = {"draft's tree": {"proposer": "tree"}, "heads' tree": {"proposer": "medusa"}}
    found = {}
    for temperature in (0.0, 1.0):
        for name, fields in proposers.items():
            with_distribution = fields | {"temperature": temperature, "nodes": BUDGETS[0]}
            try:
                opened(pair, Settings(pair=pair.name, **with_distribution))
            except ModelError:  # no heads for this pair
                continue
            found[f"{name}, temperature {temperature:g}"] = with_distribution
    return found


def _passes(pair: Pair, gamma: int, runs: int) -> dict[tuple[str, int], Estimate]:
    """Seconds of each kind of work, interleaved; the first two runs fill caches and are left out."""
    probes: dict[tuple[str, int], Callable[[], object]] = {}
    for n in BLOCKS:
        probes["chain", n] = target_pass(_opened(pair), 1, tuple(range(ROOT, n - 2)))
    for n in NODES:
        probes["tree", n] = target_pass(_opened(pair), 1, branching(n))
    for rows in ROWS:
        probes |= _batch(pair, rows, gamma)
    clock = Clock({key: (lambda lap, probe=probe: probe()) for key, probe in probes.items()}, 2, settle=partial(settle, pair))
    clock.until(runs)
    return {key: clock.median(key, gamma if key[0] == "draft" else 1) for key in probes}


def branching(nodes: int) -> tuple[int, ...]:
    """Parents of a tree in which every node has two children, and the text three, as far as the nodes go."""
    return tuple(ROOT if node < 3 else (node - 3) // 2 for node in range(nodes))


def _opened(pair: Pair) -> LanguageModel:
    return pair.open(Settings(pair=pair.name))[0]


def prefixes(count: int) -> list[Prefix]:
    """So many rows, each with HELD tokens in the cache once it has been read."""
    return [Prefix(tuple(range(1, HELD + 2)), 0, 64, draw=draw) for draw in range(count)]


def target_pass(source: LanguageModel, rows: int, parents: tuple[int, ...]) -> Callable[[], object]:
    """A pass over one token of every row, and over a tree of more with these parents; each call makes it anew from the same cache."""
    nodes = len(parents)
    block = DraftTree((tuple(range(nodes)),) * rows, (parents,) * rows, (None,) * rows, ((None,) * nodes,) * rows, "none")
    held = prefixes(rows)
    return lambda: source.distributions(held, block)


def _batch(pair: Pair, count: int, gamma: int) -> dict[tuple[str, int], Callable[[], object]]:
    settings = Settings(pair=pair.name, gamma=gamma)
    target, draft = pair.open(settings)
    rows, randomness, rule = prefixes(count), PhiloxRandomness(0), rule_of(settings)
    proposer = DraftModel(draft, gamma)
    block = proposer.propose(rows, randomness)
    p = target.distributions(rows, block)
    chain = tuple(range(ROOT, gamma - 1))
    return {
        ("one", count): target_pass(target, count, ()),
        ("block", count): target_pass(target, count, chain),
        ("draft", count): lambda: proposer.propose(rows, randomness),
        ("rule", count): lambda: rule.verify(rows, block, p, randomness),
    }


def _budget(pair: Pair, settings: Settings, nodes: int, one: float, tree: float) -> Budget:
    tokens_per_pass, drafting = _written(pair, replace(settings, nodes=nodes))
    return Budget(nodes, tokens_per_pass, drafting, tokens_per_pass * one / (tree + drafting.value))


def _written(pair: Pair, settings: Settings) -> tuple[float, Estimate]:
    """Tokens per pass, and median seconds of drafting in a round, over the bench's prompts; texts are not ended early."""
    rounds = []
    for prompt in PROMPTS.values():
        own = replace(settings, prompt=prompt)
        target, proposer = opened(pair, own)
        ids: Sequence[int] = pair.encode(prompt)
        rounds += list(decode(target, proposer, rule_of(own), PhiloxRandomness(own.seed), own, ids))[1:]
    tokens = sum(len(round_.committed) for round_ in rounds)
    return tokens / len(rounds), Estimate.of_runs([round_.timing["draft"] for round_ in rounds], "s")
