"""A rule that looks at every coin of a block: what it takes for coins that are addressed by position alone to do harm."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.coins import Coins, Prefix, Purpose
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.block import Block
from specviz.verification.draw import draw


class BlockRule:
    """Block verification: the longest beginning of the chain whose own coin says so is kept (Sun et al. 2024, Algorithm 2).

    With coins that no round has looked at before it is exact. Chains only.
    """

    name, exact = "block", True

    def verify(self, rows: Sequence[Prefix], block: Block, p: Tensor, coins: Coins) -> tuple[Outcome, ...]:
        return tuple(self._row(row, block, index, p[index], coins) for index, row in enumerate(rows))

    def _row(self, row: Prefix, block: Block, index: int, p: Tensor, coins: Coins) -> Outcome:
        tokens, q = block.tokens[index], block.q[index]
        joint, edges, left, kept, uniforms = 1.0, [], [], 0, []
        for node in range(len(tokens) + 1):
            last = node == len(tokens)
            rest = p[node] if last else (joint * p[node] - q[node]).clamp(min=0.0)
            left.append(rest)
            if node:  # whether the first ``node`` guesses are kept
                mass = float(rest.sum())
                edges.append(joint if last else mass / (mass + 1.0 - joint) if mass + 1.0 - joint > 0.0 else 1.0)
                uniforms.append(float(coins.take(Purpose.ACCEPT, [row], node - 1, node - 1)[0]))
                kept = node if uniforms[-1] < edges[-1] else kept
            if not last:
                joint = min(1.0, joint * float(p[node, tokens[node]]) / float(q[node, tokens[node]]))
        whole = kept == len(tokens)
        law = left[kept] if bool(left[kept].sum() > 0.0) else p[kept]
        u = coins.take(Purpose.BONUS if whole else Purpose.RESIDUAL, [row], kept, kept)
        token = int(draw(law, torch.from_numpy(u)[0]))
        decisions = tuple(
            Decision(
                x, n - 1, block.source, float(q[n, x]), float(p[n, x]), block.u_draft[index][n], uniforms[n], edges[n], n < kept
            )
            for n, x in enumerate(tokens)
        )
        return Outcome(decisions, tuple(range(kept)), Ending("bonus" if whole else "residual", token, float(u[0])))
