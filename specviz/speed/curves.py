"""Cost curves: what a pass over more tokens, over a tree, or over more rows costs, in passes over one token; and what follows.

All passes read the same number of tokens from the cache and are measured by one interleaved clock. Two choices follow from the
curves: how many nodes of a tree are worth their pass, and from how many rows on speculation stops paying, because a pass over
many rows is no longer limited by reading the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from specviz.errors import ModelError
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.registry import opened
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.speed.bench import PROMPTS, decode_speculatively
from specviz.speed.costs import RoundCosts, build_round_parts, time_parts
from specviz.speed.estimate import Estimate
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.registry import rule_of

CHAIN_SIZES = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33)  # tokens of a pass in a chain
TREE_SIZES = (2, 4, 8, 12, 16, 24, 32, 48, 64)  # nodes of a tree, beside the token before it
NODE_BUDGETS = (2, 4, 8, 16, 32)  # of which the best is chosen
ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64)
CACHED_TOKENS = 128  # tokens in the cache


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """A tree of a number of nodes, on the bench's prompts.

    tokens_per_pass  committed per target pass; drafting  seconds of drafting per round
    speed            tokens per second over the target's alone, by the curve: tokens_per_pass * T(1) / (T(tree) + drafting)
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

    def best(self, name: str) -> NodeBudget:
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
            for name, part in build_round_parts(*pair.open(plain), rule_of(plain), plain, build_cached_rows(count)).items()
        }
    clock = time_parts(parts, pair, runs, warm_runs=2, rewarmed={("chain", 1), *(("one", count) for count in ROW_COUNTS)})
    times = {key: clock.median(key, gamma if key[0] == "draft" else 1) for key in parts}
    chain, tree = ({n: times[kind, n] for n in numbers} for kind, numbers in (("chain", CHAIN_SIZES), ("tree", TREE_SIZES)))
    rows = {n: RoundCosts(*(times[name, n] for name in ("one", "block", "draft", "rule"))) for n in ROW_COUNTS}
    log("texts")
    tokens_per_pass, _ = _count_rounds(pair, plain)
    budgets = {}
    for name, fields in _find_tree_settings(pair).items():
        log(f"texts with {name}")
        budgets[name] = tuple(
            _measure_budget(pair, replace(plain, **fields), nodes, chain[1].value, tree[nodes].value) for nodes in NODE_BUDGETS
        )
    return PassCostCurves(chain, tree, rows, gamma, tokens_per_pass, budgets)


def build_branching_parents(nodes: int) -> tuple[int, ...]:
    """Parents of a tree in which the text has three children and every node two, as far as the nodes go."""
    return tuple(ROOT if node < 3 else (node - 3) // 2 for node in range(nodes))


def build_tree_pass(pair: LoadedPair, settings: Settings, parents: tuple[int, ...]) -> Callable[[], object]:
    """A pass of the target over a tree with these parents, and the token before it, as a call that may be repeated."""
    source, nodes, rows = pair.open(settings)[0], len(parents), build_cached_rows(1)
    tree = DraftTree((tuple(range(nodes)),), (parents,), (None,), ((None,) * nodes,), "none")
    return lambda: source.distributions(rows, tree)


def build_cached_rows(count: int) -> list[Prefix]:
    """So many rows, each with HELD tokens in the cache once it has been read."""
    return [Prefix(tuple(range(1, CACHED_TOKENS + 2)), 0, 64, draw=draw) for draw in range(count)]


def _find_tree_settings(pair: LoadedPair) -> dict[str, dict[str, object]]:
    """Trees by name, from the draft, and from Medusa heads where the pair has some; of draws, and at temperature 0 of top tokens."""
    proposers = {"draft's tree": {"proposer": "tree"}, "heads' tree": {"proposer": "medusa"}}
    found = {}
    for temperature in (0.0, 1.0):
        for name, fields in proposers.items():
            fields = fields | {"temperature": temperature, "tree_budget": NODE_BUDGETS[0]}
            try:
                opened(pair, Settings(pair=pair.name, **fields))
            except ModelError:  # no heads for this pair
                continue
            found[f"{name}, temperature {temperature:g}"] = fields
    return found


def _measure_budget(pair: LoadedPair, settings: Settings, nodes: int, one: float, tree: float) -> NodeBudget:
    tokens_per_pass, drafting = _count_rounds(pair, replace(settings, tree_budget=nodes))
    return NodeBudget(nodes, tokens_per_pass, drafting, tokens_per_pass * one / (tree + drafting.value))


def _count_rounds(pair: LoadedPair, settings: Settings) -> tuple[float, Estimate]:
    """Tokens per pass, and median seconds of drafting in a round, over the bench's prompts; texts are not ended early."""
    rounds = []
    for prompt in PROMPTS.values():
        rounds += list(decode_speculatively(pair, replace(settings, prompt=prompt, engine="reference"), pair.encode(prompt)))[1:]
    tokens = sum(len(round_.committed) for round_ in rounds)
    return tokens / len(rounds), Estimate.from_runs([round_.timing["draft"] for round_ in rounds], "s")
