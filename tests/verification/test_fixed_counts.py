"""What each rule's proof needs fixed of how many tokens are proposed (docs/explanation/exactness.md), held against every proposer of the
gallery.

k-sequential selection needs the number of siblings before the first of them is drawn (Sun et al. 2023, Algorithm 3: k is given);
the token rule (Miao et al. 2024) and block verification (Sun et al. 2024) do not. One round at a time, every outcome, tables of
three and four tokens: with two tokens, or so few nodes that no number is left to decide, a wrong pair looks right. Nothing is
random but the tables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from specviz.decoding.engine import step
from specviz.decoding.method_checks import build_rule
from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import Components, Enumerator, compute_text_tv, enumerate_target
from specviz.models.table import TableModel
from specviz.proposers import adaptive as policies
from specviz.proposers.base import HiddenStateProposer
from specviz.proposers.registry import PROPOSERS
from specviz.proposers.several_chains import SeveralChains
from specviz.proposers.trees.budget import BudgetTree
from specviz.proposers.trees.fixed import FixedTree
from specviz.proposers.trees.growth import TreeGrowth, assemble_tree, count_levels, draw_children, find_places
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.block import BlockRule
from specviz.verification.draft_tree import ROOT, compute_node_depth
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from tests.helpers.proposer_cases import CASES, TREES, build_case_world, list_rules
from tests.helpers.round_cases import enumerate_blocks, enumerate_written
from tests.helpers.toy_tables import model, pair
from tests.oracle.other_rules import BlockVerification
from tests.oracle.token_rule import decoder_distribution
from tests.oracle.token_rule import target_distribution as distribution_on_fractions

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPT = (0, 1)
LENGTH = 3  # two levels and the token after them
EXACT = 1e-12


@pytest.fixture(autouse=True)
def thresholds_that_three_tokens_meet(monkeypatch):
    """The entropy of three tokens never gets near the bounds that are right for thousands."""
    monkeypatch.setattr(policies, "LEAST", 0.6)
    monkeypatch.setattr(policies, "ACCEPTANCE_MIN", 0.5)


def measure_distance(target, proposer, rule, prompt=PROMPT, length=LENGTH) -> float:
    return compute_text_tv(enumerate_written(target, proposer, rule, prompt, length), enumerate_target(target, prompt, length))


def list_judging_rules(name: str) -> list[str]:
    """The exact rules that judge a case, by name: k-seq judges chains of every kind."""
    return list(dict.fromkeys((*list_rules(name), *(() if name in TREES else ("k-seq",)))))


# Every pair that claims to be exact --------------------------------------------------------------------------------------------


@pytest.mark.fast_cases(40)
@pytest.mark.parametrize(
    ("name", "rule", "vocabulary"),
    [
        pytest.param(name, rule, size, marks=pytest.mark.slow if (name, size) == ("budget, independent", 4) else ())
        for name in CASES
        for rule in list_judging_rules(name)
        for size in (3, 4)
    ],
)
def test_one_round_of_every_proposer_under_every_exact_rule_has_the_targets_distribution(name, rule, vocabulary):
    for seed in range(5 - vocabulary):
        target, proposer = build_case_world(name, seed, vocabulary)
        assert measure_distance(target, proposer, build_rule(Settings(rule=rule))) < EXACT


WIDER = {
    "budget 2-2, 4 nodes": (lambda draft: BudgetTree(draft, (2, 2), "independent", 4), (0, 1)),
    "budget 2-2, 5 nodes": (lambda draft: BudgetTree(draft, (2, 2), "independent", 5), (0, 1)),
    "budget 2-2, 6 nodes": (lambda draft: BudgetTree(draft, (2, 2), "independent", 6), (0,)),
    "budget 3-2, 6 nodes": (lambda draft: BudgetTree(draft, (3, 2), "independent", 6), (1,)),
    "budget 4, 4 nodes": (lambda draft: BudgetTree(draft, (4,), "independent", 4), (0, 1)),
    "tree 2-2": (lambda draft: FixedTree(draft, (2, 2), "independent"), (0,)),
    "three drafts": (lambda draft: SeveralChains(draft, 3, 2), (0,)),
}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("rule", (TokenRule(), SequentialRule()), ids=("token", "k-seq"))
@pytest.mark.parametrize("name", (pytest.param(name, marks=pytest.mark.slow if "6 nodes" in name else ()) for name in WIDER))
def test_wider_trees_of_independent_siblings_have_the_targets_distribution_under_both_rules(name, rule):
    make, seeds = WIDER[name]
    for seed in seeds:
        p, q = pair("random", seed, 3, 7)
        assert measure_distance(model(p, 3), make(model(q, 3)), rule) < EXACT


@pytest.mark.parametrize("trees", [(((2, 2), 5),), pytest.param((((3, 2), 5), ((3, 2), 6)), marks=pytest.mark.slow)], ids=str)
def test_trees_of_distinct_siblings_may_decide_after_each_draw_under_the_token_rule(trees):
    """And do: the same values above, other values on the level, other numbers of siblings."""
    p, q = pair("random", 3, 4, 7)
    shapes = []
    for widths, nodes in trees:
        proposer = BudgetTree(model(q, 4), widths, "distinct", nodes)
        assert measure_distance(model(p, 4), proposer, TokenRule()) < EXACT
        shapes += map(len, collect_shapes(proposer).values())
    assert max(shapes) > 1


# The pair that was not exact ------------------------------------------------------------------------------------------


def p_table(ids) -> tuple[float, ...]:
    return {(0,): (0.5, 0.5, 0.0), (0, 0): (0.3, 0.2, 0.5)}.get(ids, (0.2, 0.3, 0.5))


def q_table(ids) -> tuple[float, ...]:
    return {(0,): (0.5, 0.5, 0.0), (0, 0): (0.6, 0.3, 0.1)}.get(ids, (0.5, 0.3, 0.2))


@pytest.mark.parametrize("rule", (TokenRule(), SequentialRule()), ids=("token", "k-seq"))
@pytest.mark.parametrize("nodes", (3, 4, 5, 6))
def test_after_token_0_a_budget_tree_of_independent_siblings_writes_p(nodes, rule):
    """Two levels of two; with 5 nodes the second level has three for two parents. Were the third given after the first two were
    seen, k-sequential selection would write (0.316, 0.174, 0.509) after token 0 in place of (0.3, 0.2, 0.5)."""
    text = enumerate_written(model(p_table, 3), BudgetTree(model(q_table, 3), (2, 2), "independent", nodes), rule, (0,), 2 + 1)
    after_0 = [sum(mass for one, mass in text.items() if one[:2] == (0, token)) for token in range(3)]
    assert after_0 == pytest.approx([0.5 * mass for mass in p_table((0, 0))], abs=EXACT)


@dataclass(frozen=True)
class Peeking:
    """A second sibling only where the first is one token. says: what it claims of its numbers."""

    draft: TableModel
    says: bool
    token: int = 0
    name: str = "peeking"

    def propose(self, rows, randomness):
        trees = [TreeGrowth(row, count_levels(row, 1, None)) for row in rows]
        ends = [(tree, ROOT) for tree in trees if tree.levels]
        for _ in range(2):
            ends = [(tree, node) for tree, node in ends if not tree.tokens or tree.tokens == [self.token]]
            draw_children(find_places(self.draft, ends), randomness, 0) if ends else None
        return assemble_tree(trees, self.name, counts_fixed=self.says)


def test_a_number_of_siblings_that_depends_on_the_first_is_exact_under_the_token_rule_and_not_under_k_seq():
    """So the tests above can fail, and the contract is no formality. 12 tables of three tokens; a false claim bends nearly all of them."""
    bent = []
    for seed in range(12):
        p, q = pair("random", seed, 3, 7)
        assert measure_distance(model(p, 3), Peeking(model(q, 3), False), TokenRule(), length=2) < EXACT
        bent.append(measure_distance(model(p, 3), Peeking(model(q, 3), True), SequentialRule(), length=2))
    assert sum(tv > 0.001 for tv in bent) >= 4 and max(bent) > 0.01


def test_the_distance_of_the_first_token_is_the_one_in_the_table_of_mistakes():
    p, q = (0.40, 0.30, 0.20, 0.07, 0.03), (0.15, 0.45, 0.25, 0.05, 0.10)
    tv = measure_distance(
        model(lambda ids: p, 5), Peeking(model(lambda ids: q, 5), True, token=1), SequentialRule(), (0,), length=2
    )
    (row,) = [
        line
        for line in (DOCS / "reference" / "mistakes.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| peeking |")
    ]
    assert tv == pytest.approx(float(row.split("|")[4]), abs=5e-4)


def test_k_seq_refuses_a_proposer_that_does_not_state_fixed_counts_whatever_it_has_drawn():
    """Also where no second sibling was drawn: that, too, depended on random numbers."""
    p, q = pair("random", 5, 3, 7)
    target, seen = model(p, 3), set()
    for draw in range(20):
        row, proposer = Prefix(PROMPT, 0, 9, draw), Peeking(model(q, 3), False)
        seen.add(len(proposer.propose([row], PhiloxRandomness(1)).tokens[0]))
        with pytest.raises(
            SettingsError, match=r"rule must be token or typical .* fixed before the first is drawn.*, got 'k-seq'"
        ):
            step([row], target, proposer, SequentialRule(), PhiloxRandomness(1))
        assert step([row], target, proposer, TokenRule(), PhiloxRandomness(1))
    assert seen == {1, 2}
    distinct = BudgetTree(model(q, 3), (2, 2), "distinct", 5)
    with pytest.raises(SettingsError, match="fixed before the first is drawn"):
        step([Prefix(PROMPT, 0, 9)], target, distinct, SequentialRule(), PhiloxRandomness(1))


# What proposers say of themselves -------------------------------------------------------------------------------------


def collect_shapes(proposer, prompt=PROMPT) -> dict[tuple, set]:
    """What was drawn above each level -> how many were drawn below each node of the level above it, in all blocks there can be."""
    found = defaultdict(set)
    for one in enumerate_blocks(proposer, Prefix(prompt, 0, LENGTH)):
        tokens, parents = one.shape
        for level in range(LENGTH - 1):
            above = [node for node in range(len(tokens)) if compute_node_depth(parents, node) < level]
            here = [node for node in range(len(tokens)) if compute_node_depth(parents, node) == level]
            place = {ROOT: ROOT} | {node: number for number, node in enumerate(above)}
            drawn = tuple((tokens[node], place[parents[node]]) for node in above)
            found[level, drawn].add(tuple(sorted(place[parents[node]] for node in here)))
    return found


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("name", CASES)
def test_where_numbers_are_said_to_be_fixed_they_do_not_hang_on_what_is_drawn_on_their_level(name):
    """All blocks there can be, tables of three and four tokens: of the same values above, one shape."""
    for vocabulary in (3, 4):
        _, proposer = build_case_world(name, 2, vocabulary)
        (said,) = {
            one.block.counts_fixed for one in enumerate_blocks(proposer, Prefix(PROMPT, 0, LENGTH)) if one.block.widest
        } or {True}
        shapes = collect_shapes(proposer)
        assert said is (name != "budget, distinct")
        assert not said or {*map(len, shapes.values())} == {1}


def test_heads_pass_on_what_their_tree_says():
    draft = model(pair("random", 1, 3, 7)[1], 3)
    for siblings in ("independent", "distinct"):
        tree = BudgetTree(draft, (2, 2), siblings, 5)
        block = HiddenStateProposer("medusa", tree).propose([Prefix(PROMPT, 0, 9)], PhiloxRandomness(0))
        assert block.counts_fixed is (siblings == "independent")


# The table of docs/explanation/exactness.md ---------------------------------------------------------------------------------------

ROWS: dict[str, list[dict]] = {  # a row's first cell -> settings that it speaks of
    "`draft`, `early-exit`": [
        {"proposer": name}
        for name, entry in PROPOSERS.load_all().items()
        if entry.form(Settings()).fixed_length and name != "none"
    ],
    "`draft` with a tokenizer": [{"proposer": "draft"}],
    "with `--draft-length-policy heuristic`": [{"draft_length_policy": "heuristic"}, {"draft_length_policy": "gain"}],
    "with `--draft-length-policy entropy`": [{"draft_length_policy": "entropy"}, {"draft_length_policy": "ceiling"}],
    "`ngram`, `retrieval`": [{"proposer": "ngram"}, {"proposer": "retrieval"}],
    "`lookahead`, one": [{"proposer": "lookahead", "num_chains": 1}],
    "`lookahead`, more": [{"proposer": "lookahead", "num_chains": drafts} for drafts in (2, 4)],
    "`several`": [{"proposer": "several", "num_chains": 2}, {"proposer": "several", "num_chains": 3}],
    "`tree`, independent": [{"proposer": "tree", "siblings": "independent"}],
    "`tree --tree-budget`, independent": [{"proposer": "tree", "siblings": "independent", "tree_budget": 5}],
    "`tree`, distinct": [{"proposer": "tree", "siblings": "distinct"}],
    "`tree --tree-budget`, distinct": [{"proposer": "tree", "siblings": "distinct", "tree_budget": 5}],
    "`tree`, `tree --tree-budget`, top": [{"proposer": "tree", "siblings": "top", "tree_budget": nodes} for nodes in (None, 5)],
    "`medusa`, a shape of ones": [{"proposer": "medusa", "siblings": "independent", "tree": "1-1"}],
    "`medusa`, other shapes": [
        {"proposer": "medusa", "siblings": kind, "tree_budget": 5} for kind in ("independent", "distinct", "top")
    ],
    "`eagle`": [{"proposer": "eagle"}],
    "`eagle`, with a shape": [
        {"proposer": "eagle", "siblings": kind, "tree_budget": 5} for kind in ("independent", "distinct", "top")
    ],
}


def read_table() -> dict[str, list[str]]:
    """First cell -> what stands under the three exact rules, of the table of drafting methods."""
    text = (DOCS / "explanation" / "exactness.md").read_text(encoding="utf-8")
    lines = text.split("## Drafting methods")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0][3:] == ["`token`", "`block`", "`k-seq`"]
    return {row[0]: row[3:] for row in rows[2:]}


def is_allowed(rule: str, settings: dict) -> bool:
    try:
        return bool(build_rule(Settings(rule=rule, **settings)))
    except SettingsError:
        return False


def test_the_table_says_exact_where_a_rule_takes_a_proposer_and_refused_where_it_does_not():
    found = read_table()
    assert len(found) == len(ROWS)
    for begins, (first, said) in zip(ROWS, found.items(), strict=True):
        assert first.startswith(begins)
        for settings in ROWS[begins]:
            for rule, word in zip(("token", "block", "k-seq"), said, strict=True):
                if word == "as `tree`":
                    assert (
                        is_allowed(rule, settings)
                        is is_allowed(rule, settings | {"proposer": "tree"})
                        is (settings["siblings"] == "independent")
                    )
                else:
                    assert word.startswith("exact" if is_allowed(rule, settings) else "refused"), (settings, rule)


# Block verification ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", (3, 4))
def test_under_block_verification_a_chain_may_end_where_its_own_tokens_say_so(vocabulary):
    """On fractions, by the paper's algorithm: the end is decided after x_i, before x_(i+1)."""
    for seed in range(3):
        p, q = pair("random", seed, vocabulary, 6)
        rule = BlockVerification(p, q, 2, continues=lambda chain: not chain or chain[-1] == 0)
        assert decoder_distribution(rule.round, 2) == distribution_on_fractions(p, 2)


class Ending:
    """A chain of at most three tokens that continues only after token 0."""

    name = "ending"

    def __init__(self, draft: TableModel):
        self.draft = draft

    def propose(self, rows, randomness):
        trees = [TreeGrowth(row, count_levels(row, 3, None)) for row in rows]
        for level in range(3):
            going = [tree for tree in trees if level < tree.levels and tree.tokens == [0] * level]
            if going:
                draw_children(find_places(self.draft, [(tree, level - 1) for tree in going]), randomness, level)
        return assemble_tree(trees, self.name, counts_fixed=True)


@pytest.mark.parametrize("rule", (TokenRule(), BlockRule(), SequentialRule()), ids=("token", "block", "k-seq"))
def test_the_production_rules_judge_a_chain_that_ends_where_its_own_tokens_say_so(rule):
    for seed in range(4):
        p, q = pair("random", seed, 3, 7)
        assert measure_distance(model(p, 3), Ending(model(q, 3)), rule, length=4) < EXACT


# The enumeration of this file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "rule"),
    (
        (lambda draft: BudgetTree(draft, (2, 1), "independent", 3), SequentialRule()),
        (lambda draft: BudgetTree(draft, (2, 1), "distinct", 3), TokenRule()),
        (lambda draft: Ending(draft), BlockRule()),
    ),
)
def test_a_round_is_that_of_the_other_enumeration(make, rule):
    """Two computations that share only the production step, on a table where nothing cancels."""
    p, q = pair("random", 4, 3, 7)
    target, proposer = model(p, 3), make(model(q, 3))
    found = Enumerator(Components(target, proposer, rule)).enumerate_round(Prefix(PROMPT, 0, LENGTH))
    whole = defaultdict(float)
    for text, mass in found.items():
        for rest, more in (
            enumerate_target(target, (*PROMPT, *text), LENGTH - len(text)) if len(text) < LENGTH else {(): 1.0}
        ).items():
            whole[text + rest] += mass * more
    assert compute_text_tv(whole, enumerate_written(target, proposer, rule, PROMPT, LENGTH)) < EXACT
