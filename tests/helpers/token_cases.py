"""One table of distributions and of what Python makes of them; the browser's arithmetic is held to it (tests/js/one_token.test.js).

``python -m tests.helpers.token_cases`` writes tests/helpers/token_cases.json anew. Distributions are the page's presets, edges, and drawn ones.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

from specviz.evidence.analytic.four_rules import compare_four_rules
from specviz.verification.block import compute_block_weights
from specviz.verification.token import EmptyResidualError, compute_acceptance_probability, compute_residual
from specviz.web.one_token.payload import GRID, PRESETS
from tests.helpers.written_cases import round_to_grid

FILE = Path(__file__).with_name("token_cases.json")


def list_distributions() -> list[tuple[list[float], list[float]]]:
    """Pairs of distributions in whole ten-thousandths: every preset, certain ones, and twenty drawn ones of 5 to 8 tokens."""
    pairs = [(one.p, one.q) for one in PRESETS.values()]
    sure, other, even = (GRID, 0, 0, 0, 0), (0, 0, GRID, 0, 0), (2000,) * 5
    pairs += [(sure, sure), (sure, other), (sure, even), (even, sure), (even, even)]
    rng = random.Random(20261121)
    for i in range(20):
        size = 5 + i % 4
        pairs.append(tuple(round_to_grid(tuple(rng.expovariate(1.0) ** 2 for _ in range(size))) for _ in range(2)))
    return [([x / GRID for x in p], [x / GRID for x in q]) for p, q in pairs]


def compute_expected(p: list[float], q: list[float]) -> dict[str, Any]:
    """What the production threshold and residual, and the four rules, make of a pair."""
    accepted = [b * compute_acceptance_probability(a, b) if b > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]
    beta = sum(accepted)
    try:
        share = compute_residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()
    except EmptyResidualError:
        share = [0.0] * len(p)
    replaced = [(1.0 - beta) * x for x in share]
    rules = {one.rule: [one.first, one.both] for one in compare_four_rules(p, q)}
    found = {"p": p, "q": q, "beta": beta, "accepted": accepted, "share": share, "replaced": replaced, "rules": rules}
    return found | {"bounds": list_bounds(p, q)}


def list_bounds(p: list[float], q: list[float]) -> dict[str, Any]:
    """Weights and thresholds of verification.block for a first token a and a second b: w1 and h1 by a, h2 by a and b.

    None for tokens that q never gives.
    """
    after_each, drawn_from = torch.tensor([p] * 3, dtype=torch.float64), torch.tensor([q] * 2, dtype=torch.float64)
    size, some = range(len(q)), q.index(max(q))
    found = {
        (a, b): compute_block_weights((a, b), after_each, drawn_from) for a in size for b in size if q[a] > 0.0 and q[b] > 0.0
    }
    return {
        "w1": [found[a, some].weights[1] if (a, some) in found else None for a in size],
        "h1": [found[a, some].edges[0] if (a, some) in found else None for a in size],
        "h2": [[found[a, b].edges[1] if (a, b) in found else None for b in size] for a in size],
    }


def build_table() -> list[dict[str, Any]]:
    return [compute_expected(p, q) for p, q in list_distributions()]


if __name__ == "__main__":
    FILE.write_text("[\n" + ",\n".join(json.dumps(case) for case in build_table()) + "\n]\n", encoding="utf-8")
