"""What figures show of a round: the largest bars with their rest, and the replacement that each rejection would draw."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Distribution, Outcome
from specviz.verification.draft_tree import ROOT, DraftTree, compute_node_depth
from specviz.verification.draw import draw_tokens
from specviz.verification.rule import Rule, RuleView


def view_distribution(view: RuleView, q: Tensor | None, bars: int, always: tuple[int, ...]) -> Distribution:
    """The ``bars`` largest tokens by max(p, q), always with the named ids, and four sums over all others.

    q (V,) float64, None where nothing was drafted. The sums are taken token by token: lumping masses first would give
    another overlap, since min and max do not commute with lumping.
    """
    p = view.probs
    size = p if q is None else torch.maximum(p, q)
    top = size.topk(min(bars, len(size))).indices.tolist()
    missing = [token for token in dict.fromkeys(always) if token not in top]
    if len(missing) < len(top):
        top = top[: len(top) - len(missing)]
    ids = sorted({*top, *always}, key=lambda token: (-float(size[token]), token))
    rest = torch.ones(len(size), dtype=torch.bool, device=p.device)
    rest[ids] = False

    def split(values: Tensor) -> tuple[tuple[float, ...], float]:
        return tuple(values[ids].tolist()), float(values[rest].sum())

    p_bars, p_rest = split(p)
    if q is None:
        return Distribution(tuple(ids), p_bars, None, None, None, {"p": p_rest}, None)
    q_bars, q_rest = split(q)
    o_bars, o_rest = split(view.overlap)
    r_bars, r_rest = split(view.left)
    sums = {"p": p_rest, "q": q_rest, "overlap": o_rest, "residual": r_rest}
    return Distribution(tuple(ids), p_bars, q_bars, o_bars, r_bars, sums, float(view.overlap.sum()))


def view_round(
    rule: Rule, row: Prefix, tree: DraftTree, index: int, p: Tensor, outcome: Outcome, randomness: Randomness, bars: int
) -> tuple[tuple[Decision, ...], tuple[Distribution, ...]]:
    """Decisions with replacements if rejected, and a Distribution for each draft token and after the accepted path.

    p (N + 1, V). For a rejected token the replacement is the token itself that was drawn; elsewhere it is drawn with the random
    number that a rejection there would have used, so that a page can show the effect of another u at once.
    """
    decisions, distributions = [], []
    last_rejected = _find_last_rejected(outcome)
    for node, decision in enumerate(outcome.decisions):
        if decision.accepted is None:
            shown, stand_in, u = _view_unchecked(p[decision.parent + 1], tree.q[index][node]), None, None
        else:
            shown = rule.view_node(tree, index, p, node)
            if node == last_rejected:
                stand_in, u = outcome.ending.token, outcome.ending.u
            else:
                u = float(randomness.take(Purpose.RESIDUAL, [row], node, compute_node_depth(tree.parents[index], node))[0])
                stand_in = _draw_replacement(shown.left, u)
        decisions.append(
            replace(decision, replacement_if_rejected=stand_in, u_replacement_if_rejected=None if stand_in is None else u)
        )
        always: tuple[int, ...] = (decision.token,) if stand_in is None else (decision.token, stand_in)
        distributions.append(view_distribution(shown, tree.q[index][node], bars, always))
    end = outcome.accepted_path[-1] + 1 if outcome.accepted_path else 0
    always = (outcome.ending.token,) if outcome.ending.kind == "bonus" and outcome.ending.token is not None else ()
    distributions.append(view_distribution(_view_unchecked(p[end], None), None, bars, always))
    return tuple(decisions), tuple(distributions)


def view_two_distributions(p: Tensor, q: Tensor, bars: int, always: tuple[int, ...]) -> Distribution:
    """A view of two distributions (V,) after the same text, outside any round."""
    return view_distribution(_view_unchecked(p, q), q, bars, always)


def _find_last_rejected(outcome: Outcome) -> int | None:
    """The node whose rejection drew the round's last token: the last rejected sibling below the accepted path; None if none."""
    if outcome.ending.kind != "residual":
        return None
    end = outcome.accepted_path[-1] if outcome.accepted_path else ROOT
    return max(node for node, one in enumerate(outcome.decisions) if one.accepted is False and one.parent == end)


def _view_unchecked(p: Tensor, q: Tensor | None) -> RuleView:
    """The view of a place where no draft token was checked."""
    return RuleView(p, p, p) if q is None else RuleView(p, torch.minimum(p, q), (p - q).clamp(min=0.0))


def _draw_replacement(left: Tensor, u: float) -> int | None:
    total = left.sum(-1, keepdim=True)
    return int(draw_tokens(left / total, torch.tensor(u, dtype=torch.float64))) if bool(total > 0.0) else None
