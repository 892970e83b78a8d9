"""A round that stays on the device: drafting, target pass, rule and new text are one function of tensors whose shapes never change.

``DeviceSteps`` does what ``engine.step`` does, for chains and trees of a fixed shape. Before a round the host uploads one small
table: each row's length and its random numbers, at the addresses that the reference takes them from. After it the host fetches
one small table: what was drafted and decided. Nothing in between waits for the host, and the function can be compiled.

Rows are rolled back by their lengths alone, so cutting at an end-of-sequence token, and replacing a row by another sample of the
same prompt, need nothing on the device.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.device.batched_rules import (
    BatchVerdict,
    DraftBatch,
    apply_block_rule,
    apply_token_rule,
    gather_node_probabilities,
)
from specviz.decoding.device.fixed_shape import FixedShape, build_shape
from specviz.decoding.engine import step, truncate_outcome
from specviz.errors import ModelError
from specviz.models.base import LanguageModel
from specviz.models.cache.fixed import PassTokens
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome, Round
from specviz.verification.block import BlockRule
from specviz.verification.draw import inverse_cdf
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from specviz.verification.warp import one_hot


class TensorModel(Protocol):
    """A model with a cache of fixed size, as models/cache/fixed.py has it."""

    vocabulary: int
    device: torch.device

    def read(self, row: int, ids: Sequence[int]) -> None: ...

    def copy(self, source: int, row: int) -> None: ...

    def probs(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> tuple[Tensor, Tensor]: ...

    def move(self, sources: Tensor, columns: Tensor) -> None: ...


def explain_refusal(target: LanguageModel, proposer: Proposer, rule: Rule) -> str | None:
    """Why a round of these cannot stay on the device; None: it can."""
    if type(rule) not in (TokenRule, BlockRule):
        return f"the rule {rule.name} is not written for the device; token and block are"
    if type(proposer) is not DraftModel and type(proposer) is not FixedTree:
        return f"the drafting method {proposer.name} is not written for the device; chains and trees of a fixed shape are"
    if isinstance(proposer, DraftModel) and proposer.gamma == 0:
        return "nothing is drafted"
    if isinstance(proposer, FixedTree) and proposer.siblings == "independent":
        return "independent siblings may repeat, so the number of nodes is not fixed"
    if isinstance(proposer, FixedTree) and isinstance(rule, BlockRule) and max(proposer.widths) > 1:
        return "the block rule judges chains"
    models: tuple[Any, ...] = (target, proposer.draft)
    for model in models:
        if not getattr(model, "plain", False):
            return "one of the models has no cache of fixed size"
        if getattr(model, "source", model).settings.warpers:
            return "the warpers of other packages are not written for the device"
        if model.device.type == "mps":
            return "mps has no float64"
    return None


@dataclass(slots=True)
class _Slot:
    """One row on the device: the sample that it holds, and its text."""

    draw: int = -1
    ids: tuple[int, ...] = ()


class DeviceSteps:
    """``engine.step`` for one request, on the device of its models. Call it with rows as ``step`` is called.

    target, proposer, rule, randomness, eos_token_ids  as for ``engine.step``, for which ``explain_refusal`` is None
    rows                                               most rows of a call
    columns                                            most tokens of a row's text
    compiler                                           arguments of torch.compile, such as {"backend": "inductor"}; None: the
                                                       function runs as it is

    A round in which a tree has fewer nodes than its shape, because the draft gives too few tokens any probability, is run by the
    reference. ``by_reference`` counts these.
    """

    def __init__(
        self,
        target: Any,
        proposer: Any,
        rule: Rule,
        randomness: Randomness,
        eos_token_ids: frozenset[int] = frozenset(),
        rows: int = 1,
        columns: int = 1024,
        compiler: dict[str, Any] | None = None,
    ):
        self.reference = (target, proposer, rule, randomness, eos_token_ids)
        self.proposer, self.rule, self.randomness, self.eos_token_ids = proposer, rule, randomness, eos_token_ids
        drawn = isinstance(proposer, DraftModel) or proposer.siblings != "top"
        widths = (1,) * proposer.gamma if isinstance(proposer, DraftModel) else proposer.widths
        self.shape, self.by_reference = build_shape(widths, drawn), 0
        width = columns + len(self.shape.parents) + 2
        self.kernel = RoundKernel(
            target.open_fixed(rows, width), proposer.draft.open_fixed(rows, width), rule, self.shape, widths, drawn, rows, width
        )
        self._run = torch.compile(self.kernel.round, fullgraph=True, dynamic=False, **compiler) if compiler else self.kernel.round
        self._slots = [_Slot() for _ in range(rows)]

    def __call__(self, rows: Sequence[Prefix]) -> list[Round]:
        """One round of every row, as ``engine.step`` gives it; ``timing`` has the whole round's seconds.

        Raises ModelError where logits are not finite.
        """
        began = time.perf_counter()
        places = self._places(rows)
        packet, uniforms = self._build_packet(rows, places)
        with torch.inference_mode():
            record = self._run(torch.from_numpy(packet).to(self.kernel.device)).cpu().numpy()
        found = [_Record(record[place], self.shape) for place in places]
        if not all(one.finite for one in found):
            raise ModelError("The model's logits are not finite: try float32.")
        if any(one.irregular for one in found):
            self.by_reference += 1
            for place in places:
                self._slots[place] = _Slot()  # what it holds on the device is not what the reference commits
            return step(rows, *self.reference)
        timing = {"round": time.perf_counter() - began}
        rounds = []
        for row, place, one in zip(rows, places, found, strict=True):
            kept = truncate_outcome(self._build_outcome(one, row, packet[place], uniforms[place]), row, self.eos_token_ids)
            self._slots[place] = _Slot(row.draw, row.ids + kept.committed)
            rounds.append(Round(len(row.ids), kept.decisions, kept.accepted_path, kept.ending, (), timing))
        return rounds

    def count_levels(self, row: Prefix) -> int:
        """Levels that the proposer drafts for a row."""
        most, draft = len(self.shape.levels), self.proposer.draft
        levels = min(most, row.remaining - 1)
        if draft.context is not None:
            levels = min(levels, draft.context - len(row.ids) + 1)
        return max(0, levels)

    def _places(self, rows: Sequence[Prefix]) -> list[int]:
        """The slot of each row; what a slot lacks of the row's text is read."""
        held = {slot.draw: place for place, slot in enumerate(self._slots) if slot.draw >= 0}
        wanted = [row.draw for row in rows]
        known = held if len(set(wanted)) == len(wanted) else {}
        free = iter([place for place in range(len(self._slots)) if place not in {known.get(draw) for draw in wanted}])
        places = [known[row.draw] if row.draw in known else next(free) for row in rows]
        for row, place in zip(rows, places, strict=True):
            if self._slots[place].ids[: len(row.ids)] != row.ids:
                self._load(place, row.ids)
            self._slots[place] = _Slot(row.draw, row.ids)
        return places

    def _load(self, place: int, ids: tuple[int, ...]) -> None:
        donor = next((other for other, slot in enumerate(self._slots) if slot.ids[: len(ids)] == ids), None)
        for model in (self.kernel.draft, self.kernel.target):  # the target last: the number of threads that it sets stays
            if donor is None:
                model.read(place, ids)
            else:
                model.copy(donor, place)
        self.kernel.ids[place, : len(ids)] = torch.tensor(ids)

    def _build_packet(self, rows: Sequence[Prefix], places: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """What a round needs of the host: (B, 2 + 3 N + 1) float64 with lengths, levels and random numbers; and the last alone."""
        nodes = len(self.shape.parents)
        uniforms = np.zeros((len(self._slots), 3 * nodes + 1))
        packet = np.zeros((len(self._slots), 2 + 3 * nodes + 1))
        packet[:, 0] = [max(1, len(slot.ids)) for slot in self._slots]  # an idle slot is written behind its text
        packet[places, 0], packet[places, 1] = [len(row.ids) for row in rows], [self.count_levels(row) for row in rows]
        for node, depth in enumerate(self.shape.depths):
            drafting = [(row, place) for row, place in zip(rows, places, strict=True) if packet[place, 1] > depth]
            if not drafting:
                break
            some, at = [row for row, _ in drafting], [place for _, place in drafting]
            for part, purpose in enumerate((Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL)):
                if purpose is not Purpose.DRAFT or self.kernel.drawn:
                    uniforms[at, part * nodes + node] = self.randomness.take(purpose, some, node, depth)
        for row, place in zip(rows, places, strict=True):
            levels = int(packet[place, 1])
            count = self.shape.count_nodes(levels)
            uniforms[place, -1] = self.randomness.take(Purpose.BONUS, [row], count, levels)[0]
        packet[:, 2:] = uniforms
        return packet, uniforms

    def _build_outcome(self, found: _Record, row: Prefix, packet: np.ndarray, uniforms: np.ndarray) -> Outcome:
        nodes = len(self.shape.parents)
        decisions = []
        for node in range(self.shape.count_nodes(int(packet[1]))):
            p, q, checked = found.p[node], found.q[node], bool(found.checked[node])
            threshold = None
            if checked:
                threshold = self.rule.threshold(p, q) if isinstance(self.rule, TokenRule) else found.edges[node]
            decisions.append(
                Decision(
                    token=int(found.tokens[node]),
                    parent=self.shape.parents[node],
                    source=self.proposer.name,
                    q=q,
                    p=p,
                    u_draft=float(uniforms[node]) if self.kernel.drawn else None,
                    u=float(uniforms[nodes + node]) if checked else None,
                    threshold=threshold,
                    accepted=bool(found.accepted[node]) if checked else None,
                )
            )
        if found.rejected < 0:
            ending = Ending("bonus", found.last, float(uniforms[-1]))
        else:
            ending = Ending("residual", found.last, float(uniforms[2 * nodes + found.rejected]))
        return Outcome(tuple(decisions), tuple(int(node) for node in found.path[: found.count]), ending)


class _Record:
    """One row of what the kernel returns."""

    def __init__(self, line: np.ndarray, shape: FixedShape):
        count = len(shape.parents)
        parts = [line[part * count : (part + 1) * count].tolist() for part in range(6)]
        self.tokens, self.p, self.q, self.edges, self.checked, self.accepted = parts
        after = line[6 * count :].tolist()
        self.count, self.rejected, self.last = (int(number) for number in after[:3])
        self.finite, self.irregular = (bool(number) for number in after[3:5])
        self.path = [int(node) for node in after[5:]]


class RoundKernel:
    """The round as one function of a table of numbers, on texts and caches that stay on the device.

    target, draft  models with caches of B rows and S columns
    shape, widths  of the draft tokens: the shape, and the children below each node of a level
    drawn          whether draft tokens are drawn, or the most likely ones taken
    """

    def __init__(
        self,
        target: TensorModel,
        draft: TensorModel,
        rule: Rule,
        shape: FixedShape,
        widths: Sequence[int],
        drawn: bool,
        rows: int,
        columns: int,
    ):
        self.target, self.draft, self.shape, self.drawn = target, draft, shape, drawn
        self.widths, self.block, self.device = tuple(widths), isinstance(rule, BlockRule), target.device
        device, nodes = self.device, len(shape.parents)
        self.ids = torch.zeros(rows, columns, dtype=torch.int64, device=device)
        self.below = shape.below.to(device)
        self.above = torch.tensor(shape.parents, device=device) + 1
        depths = torch.tensor(shape.depths, device=device)
        seen = shape.seen.to(device)
        every = torch.arange(nodes, device=device)
        self.opening = PassTokens.chain(2, device)
        self.scoring = PassTokens(
            torch.cat([every[:1], every + 1]), torch.cat([every[:1], depths + 1]), seen, torch.cat([every[:1], depths + 1])
        )
        self.growing = [
            PassTokens(every[list(level)], depths[list(level)], seen[1:, 1:][list(level)], depths) for level in shape.levels[:-1]
        ]
        self.steps = torch.arange(len(shape.levels) + 1, device=device)

    def round(self, packet: Tensor) -> Tensor:
        """One round of all rows.

        packet   (B, 3 N + 3) float64: length, levels, then u of each node to draft, to accept and for a replacement, u for a bonus
        returns  (B, 6 N + 5 + K) float64 in the order in which _Record reads it
        """
        nodes = len(self.shape.parents)
        lengths, levels = packet[:, 0].long(), packet[:, 1].long()
        u_draft, u_accept, u_residual = packet[:, 2:-1].split(nodes, 1)
        tokens, q, finite, irregular = self._draft(lengths, levels, u_draft)
        last = self.ids.gather(1, lengths[:, None] - 1)
        p, sample = self.target.probs(torch.cat([last, tokens], 1), lengths - 1, self.scoring)
        finite = finite & (sample.isfinite() | (levels[:, None] < self.scoring.depths)).all(1)
        at, drafted = gather_node_probabilities(p, q, tokens, self.above), DraftBatch(tokens, levels, u_accept)
        verdict = (
            apply_block_rule(p, q, at, drafted) if self.block else apply_token_rule(self.shape, self.below, p, q, at, drafted)
        )
        replaced = u_residual.gather(1, verdict.rejected.clamp(min=0)[:, None])
        u_last = torch.where(verdict.rejected[:, None] >= 0, replaced, packet[:, -1:])
        final = inverse_cdf(verdict.probs, u_last)[0]
        self._commit(lengths, tokens, verdict, final)
        flags = torch.stack([verdict.count, verdict.rejected, final[:, 0], finite, irregular], 1)
        parts = (tokens, verdict.p, at[1], verdict.edges, verdict.checked, verdict.accepted, flags, verdict.path)
        return torch.cat([part.double() for part in parts], 1)

    def _draft(self, lengths: Tensor, levels: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draft tokens (B, N), their distributions (B, N, V), and (B,) bool: logits finite, a node without any token to take."""
        begin = (lengths - 2).clamp(min=0)
        probs, sample = self.draft.probs(self.ids.gather(1, begin[:, None] + self.opening.columns), begin, self.opening)
        index = (lengths - 1 - begin)[:, None]
        here = probs.gather(1, index[..., None].expand(-1, 1, probs.shape[2]))  # (B, ends, V)
        finite, irregular = sample.gather(1, index).isfinite().all(1), torch.zeros_like(lengths, dtype=torch.bool)
        tokens, q = [], []
        for level, width in enumerate(self.widths):
            first = self.shape.levels[level][0]
            uniforms = u[:, first : first + here.shape[1] * width].unflatten(1, (width, -1)) if self.drawn else None
            found, distributions, mass = self._children(here, width, uniforms)
            irregular |= ((mass <= 0.0) & (levels > level)[:, None]).any(1)
            tokens.append(found)
            q.append(distributions)
            if level + 1 < len(self.widths):
                here, sample = self.draft.probs(found, lengths, self.growing[level])
                finite &= (sample.isfinite() | (levels <= level + 1)[:, None]).all(1)
        return torch.cat(tokens, 1), torch.cat(q, 1), finite, irregular

    def _children(self, here: Tensor, width: int, u: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Children of the nodes of one level: tokens (B, n), the distributions they come from (B, n, V), what mass was left (B, n).

        here  (B, ends, V): the draft's distributions
        u     (B, width, ends), None where nothing is drawn
        """
        if u is None:
            ordered, ids = here.sort(dim=-1, descending=True, stable=True)
            tokens, mass = ids[..., :width].flatten(1), ordered[..., :width].flatten(1)
            return tokens, one_hot(tokens, here.shape[-1]), mass
        tokens, q, mass, left = [], [], [], here
        for sibling in range(width):
            total = left.sum(-1, keepdim=True)
            probs = left if sibling == 0 else torch.where(total > 0.0, left / total, left)
            found = inverse_cdf(probs, u[:, sibling, :, None])[0]
            tokens.append(found[..., 0])
            q.append(probs)
            mass.append(total[..., 0])
            left = left.scatter(-1, found, 0.0)
        return torch.cat(tokens, 1), torch.cat(q, 1), torch.cat(mass, 1)

    def _commit(self, lengths: Tensor, tokens: Tensor, verdict: BatchVerdict, final: Tensor) -> None:
        """Write the new text, and move the accepted nodes' keys and values behind the old ones. What follows them is free."""
        steps = self.steps[:-1]
        on_path = steps < verdict.count[:, None]
        path = verdict.path[:, : len(steps)]
        accepted = torch.cat([tokens.gather(1, path), final], 1)
        added = torch.where(self.steps < verdict.count[:, None], accepted, final)
        self.ids.scatter_(1, lengths[:, None] + self.steps, added)
        if not self.shape.is_chain:
            columns = lengths[:, None] + steps
            sources = torch.where(on_path, lengths[:, None] + path, columns)
            for model in (self.target, self.draft):
                model.move(sources, columns)
