"""Four exact rules over a block of two, on fractions: each writes exactly p, and keeps what the page says it keeps.

The rules are written here from the papers, with nothing of the package: Leviathan et al. 2023, Algorithm 1; Sun et al. 2024
(Block Verification Accelerates Speculative Decoding), Algorithm 2, whose theorem 2 says that it keeps at least as many.
"""

from __future__ import annotations

import json
from fractions import Fraction as F
from itertools import product

import pytest

from specviz.evidence.analytic.four_rules import compare_four_rules
from tests.helpers import token_cases

REFERENCE = (
    (F(40, 100), F(30, 100), F(20, 100), F(7, 100), F(3, 100)),
    (F(15, 100), F(45, 100), F(25, 100), F(5, 100), F(10, 100)),
)
CASES = token_cases.list_distributions()
ONE, ZERO = F(1), F(0)


def convert_to_fractions(probs: list[float]) -> tuple[F, ...]:
    return tuple(F(round(x * token_cases.GRID), token_cases.GRID) for x in probs)


def normalize(masses) -> tuple[F, ...]:
    """Rescaled; None where there is no mass, which no draw can then ask for."""
    total = sum(masses, ZERO)
    return tuple(x / total for x in masses) if total else None


def build_one_hot(size: int, token: int) -> tuple[F, ...]:
    return tuple(ONE if i == token else ZERO for i in range(size))


def list_token_steps(p, q, pair):
    """Accept x_i with min(1, p/q); at the first refusal draw from norm(max(0, p - q))."""
    keep = [min(ONE, p[x] / q[x]) for x in pair]
    left = normalize([max(ZERO, a - b) for a, b in zip(p, q, strict=True)])
    return (ONE - keep[0], left), (keep[0] * (ONE - keep[1]), left), keep[0] * keep[1]


def list_compare_steps(p, q, pair):
    """The target draws y from p; a draft token that equals y stays, else y stands in its place and the block ends."""
    without = [normalize([ZERO if y == x else p[y] for y in range(len(p))]) for x in pair]
    first, second = p[pair[0]], p[pair[1]]
    return (ONE - first, without[0]), (first * (ONE - second), without[1]), first * second


def list_block_steps(p, q, pair):
    """Algorithm 2: p_i = min(1, p_(i-1) p/q); tau is the largest i whose random number is at most h_i; then norm(max(0, p_tau p - q))."""
    w1 = min(ONE, p[pair[0]] / q[pair[0]])
    w2 = min(ONE, w1 * p[pair[1]] / q[pair[1]])
    left = [[max(ZERO, w * a - b) for a, b in zip(p, q, strict=True)] for w in (ONE, w1)]
    mass = sum(left[1], ZERO)
    h1 = mass / (mass + ONE - w1) if mass + ONE - w1 else ONE
    return ((ONE - w2) * (ONE - h1), normalize(left[0])), ((ONE - w2) * h1, normalize(left[1])), w2


def walk_block(steps, p, q):
    """(distribution of three tokens, P(first kept), P(both kept)): the rule's block with its last token, then the target alone."""
    size, probs, first, both = len(p), {}, ZERO, ZERO

    def add(text, mass):
        for rest in product(range(size), repeat=3 - len(text)):
            share = mass
            for token in rest:
                share *= p[token]
            probs[text + rest] = probs.get(text + rest, ZERO) + share

    for pair in product(range(size), repeat=2):
        weight = q[pair[0]] * q[pair[1]]
        if not weight:
            continue
        (none, after_none), (one, after_one), two = steps(p, q, pair)
        first, both = first + weight * (one + two), both + weight * two
        add(pair, weight * two)
        for token in range(size):
            if none:
                add((token,), weight * none * after_none[token])
            if one:
                add((pair[0], token), weight * one * after_one[token])
    return probs, first, both


def compute_every_rule(p, q):
    likeliest = build_one_hot(len(q), q.index(max(q)))
    return {
        "block": walk_block(list_block_steps, p, q),
        "token": walk_block(list_token_steps, p, q),
        "greedy": walk_block(list_token_steps, p, likeliest),
        "compare": walk_block(list_compare_steps, p, q),
    }


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case % 4 > 0)) for case in range(0, len(CASES), 2)]
)
def test_each_rule_writes_exactly_the_targets_distribution_and_keeps_what_the_package_says(case):
    """Every fourth case in the fast lane; what is kept of the others is in test_block_verification_keeps_at_least_as_many_as_the_token_rule."""
    p, q = map(convert_to_fractions, CASES[case])
    found = {one.rule: one for one in compare_four_rules(*CASES[case])}
    for rule, (probs, first, both) in compute_every_rule(p, q).items():
        assert {text: mass for text, mass in probs.items() if mass} == {
            text: p[text[0]] * p[text[1]] * p[text[2]] for text in product(range(len(p)), repeat=3) if all(p[x] for x in text)
        }, rule
        assert found[rule].first == pytest.approx(float(first), abs=1e-14)
        assert found[rule].both == pytest.approx(float(both), abs=1e-14)
        assert found[rule].error < 1e-15


def test_the_reference_pair_keeps_what_the_reference_says():
    rules = compute_every_rule(*REFERENCE)
    firsts = {rule: first for rule, (_, first, _) in rules.items()}
    assert firsts == {"block": F(730, 1000), "token": F(730, 1000), "greedy": F(30, 100), "compare": F(2515, 10000)}
    assert rules["token"][2] == F(730, 1000) ** 2
    assert rules["block"][2] > rules["token"][2]
    found = {one.rule: one for one in compare_four_rules(*(list(map(float, probs)) for probs in REFERENCE))}
    for rule, first in firsts.items():
        assert found[rule].first == pytest.approx(float(first), abs=1e-15)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_block_verification_keeps_at_least_as_many_as_the_token_rule(case):
    """Theorem 2 of Sun et al.; and P(both) is the sum of min(min(p1, q1) p2, q1 q2), which 'show the maths' quotes."""
    p, q = map(convert_to_fractions, CASES[case])
    both = sum(min(min(p[a], q[a]) * p[b], q[a] * q[b]) for a, b in product(range(len(p)), repeat=2))
    beta = sum(map(min, p, q))
    assert both >= beta * beta
    found = {one.rule: one for one in compare_four_rules(*CASES[case])}
    assert found["block"].both == pytest.approx(float(both), abs=1e-14)
    assert found["token"].both == pytest.approx(float(beta * beta), abs=1e-14)


def test_a_block_rule_without_its_second_chance_would_be_found_out():
    """The enumeration can fail: with h_1 = p_1 the first token's distribution is no longer p."""
    p, q = REFERENCE

    def list_wrong_steps(p, q, pair):
        w1 = min(ONE, p[pair[0]] / q[pair[0]])
        (_, none), (_, one), two = list_block_steps(p, q, pair)
        return ((ONE - two) * (ONE - w1), none), ((ONE - two) * w1, one or p), two

    probs, _, _ = walk_block(list_wrong_steps, p, q)
    assert max(abs(probs[text] - p[text[0]] * p[text[1]] * p[text[2]]) for text in probs) > F(1, 1000)


def test_the_table_that_the_browser_is_held_to_is_what_the_production_rule_says():
    stored = json.loads(token_cases.FILE.read_text(encoding="utf-8"))
    now = token_cases.build_table()
    assert len(stored) == len(now) > 30
    for old, new in zip(stored, now, strict=True):
        assert (old["p"], old["q"]) == (new["p"], new["q"])
        for key in ("accepted", "share", "replaced"):
            assert old[key] == pytest.approx(new[key], abs=1e-15)
        assert old["beta"] == pytest.approx(new["beta"], abs=1e-15)
        for rule, numbers in new["rules"].items():
            assert old["rules"][rule] == pytest.approx(numbers, abs=1e-15)
        for key, by in (("w1", 1e-15), ("h1", 1e-12), ("h2", 1e-15)):  # h1 is a quotient of two sums that nearly cancel
            assert _flatten(old["bounds"][key]) == pytest.approx(_flatten(new["bounds"][key]), abs=by)


def _flatten(rows):
    """Numbers of a list or of a list of lists; -1 for None."""
    flat = [x for row in rows for x in (row if isinstance(row, list) else [row])]
    return [-1.0 if x is None else x for x in flat]
