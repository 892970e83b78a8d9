"""A round that stays on the device: drafting, target pass, rule and new text are one function of tensors whose shapes never change.

``DeviceSteps`` does what ``engine.step`` does, for chains, trees of a fixed shape and target-only sampling. Before a round the host
uploads one small table: each row's length and its random numbers, at the addresses that the reference takes them from. After it the
host fetches one small table: what was drafted and decided. Nothing in between waits for the host, so the function can be compiled,
and recorded as a CUDA graph (capture.py).

Rows are rolled back by their lengths alone, so cutting at an end-of-sequence token, and replacing a row by another sample of the
same prompt, need nothing on the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from specviz.decoding.device.batched_rules import (
    BatchVerdict,
    DraftBatch,
    apply_block_rule,
    apply_chain_rule,
    apply_token_rule,
    gather_node_probabilities,
)
from specviz.decoding.device.capture import READ_CHUNK, ProgramStore, RoundProgram
from specviz.decoding.device.fixed_shape import FixedShape, build_shape
from specviz.decoding.engine import record_round, step, truncate_outcome
from specviz.errors import ModelError
from specviz.models.base import LanguageModel
from specviz.models.cache.fixed import FixedModel, PassTokens
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome, Round
from specviz.verification.block import BlockRule
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import invert_cdf
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from specviz.verification.warp import build_one_hot

MASK_MULTIPLE = 16  # columns of a recorded round's cache are padded to this, for the alignment that fused attention needs
COLUMNS_MIN = 1024  # a recorded round has at least so many columns, or the model's context, so that texts of any length share it


class TensorModel(Protocol):
    """A model with a cache of fixed size, as models/cache/fixed.py has it."""

    vocabulary: int
    device: torch.device

    def read(self, row: int, ids: Sequence[int]) -> None: ...

    def copy(self, source: int, row: int) -> None: ...

    def compute_probs(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> tuple[Tensor, Tensor]: ...

    def move(self, sources: Tensor, columns: Tensor) -> None: ...


def explain_refusal(target: LanguageModel, proposer: Proposer, rule: Rule) -> str | None:
    """Why a round of these cannot stay on the device; None: it can."""
    if type(rule) not in (TokenRule, BlockRule):
        return f"the rule {rule.name} is not written for the device; token and block are"
    if type(proposer) not in (DraftModel, FixedTree, NoDraft):
        return f"the drafting method {proposer.name} is not written for the device; chains and trees of a fixed shape are"
    if isinstance(proposer, FixedTree) and proposer.siblings == "independent":
        return "independent siblings may repeat, so the number of nodes is not fixed"
    if isinstance(proposer, FixedTree) and isinstance(rule, BlockRule) and max(proposer.widths) > 1:
        return "the block rule judges chains"
    models: tuple[Any, ...] = (target, getattr(proposer, "draft", None))
    for model in filter(None, models):
        if getattr(getattr(model, "source", model), "processors", ()):
            return "the target's generation_config has logits processors, which are not written for the device"
        if not getattr(model, "plain", False):
            return "one of the models has no cache of fixed size"
        if getattr(model, "source", model).settings.warpers:
            return "the warpers of other packages are not written for the device"
        if model.device.type == "mps":
            return "mps has no float64"
    return None


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """A round's program before it is made.

    Attributes:
        shape: Of the draft tokens.
        key: The same for all requests that the program serves; None: it is not kept.
        prepare: Allocates caches and texts, and compiles at the first call if it is to be compiled.
        records: Whether it is recorded as a CUDA graph.
    """

    shape: FixedShape
    key: Hashable | None
    prepare: Callable[[], RoundProgram]
    records: bool

    def build(self) -> RoundProgram:
        """The program, ready for its first round. Raises ModelError as ``DeviceSteps``."""
        program = self.prepare()
        return program.record() if self.records else program


def plan_program(
    target: Any,
    proposer: Any,
    rule: Rule,
    rows: int = 1,
    columns: int = 1024,
    compiler: dict[str, Any] | None = None,
    records: bool = False,
    bars: int = 0,
) -> ProgramPlan:
    """Plan a round's program. Arguments as for ``DeviceSteps``."""
    is_drawn = not isinstance(proposer, FixedTree) or proposer.siblings != "top"
    widths = tuple(proposer.widths) if isinstance(proposer, FixedTree) else (1,) * getattr(proposer, "gamma", 0)
    shape = build_shape(widths, is_drawn)
    width = columns + len(shape.parents) + 2
    if records:
        width = _round_up_columns(width, len(shape.parents) + 2, target.context)

    def prepare() -> RoundProgram:
        draft = proposer.draft.open_fixed(rows, width) if widths else None
        kernel = RoundKernel(target.open_fixed(rows, width), draft, rule, shape, widths, is_drawn, rows, width, bars > 0)
        harmless = np.zeros((rows, 3 + 3 * len(shape.parents)))
        harmless[:, 0], harmless[:, 1] = 2, len(widths)
        return RoundProgram(kernel, harmless, compiler)

    key: Hashable | None = None
    if (compiler or records) and isinstance(getattr(target, "model", None), nn.Module):
        requests = tuple(map(_describe_model, (target, proposer.draft) if widths else (target,)))
        key = (*requests, type(rule), shape, is_drawn, rows, width, bool(compiler), records, bars > 0)
    return ProgramPlan(shape, key, prepare, records)


@dataclass(slots=True)
class _Slot:
    """One row on the device: the sample that it holds, and its text."""

    draw: int = -1
    ids: tuple[int, ...] = ()


class DeviceSteps:
    """``engine.step`` for one request, on the device of its models. Call it with rows as ``step`` is called.

    A round in which a tree has fewer nodes than its shape, because the draft gives too few tokens any probability, is run by the
    reference. ``by_reference`` counts these.

    Args:
        target, proposer, rule, randomness, eos_token_ids: As for ``engine.step``; ``explain_refusal`` is None for them.
        rows: Most rows of a call.
        columns: Most tokens of a row's text.
        compiler: Arguments of torch.compile, such as {"backend": "inductor"}; None: the function is not compiled.
        records: Whether the round is recorded as a CUDA graph.
        bars: As for ``engine.step``. With bars the whole distributions are fetched, in the one transfer that ends a round.
        builds: Whether a program is made where none of this kind is kept.

    Raises:
        ModelError: The round cannot be compiled or recorded, or its cache does not fit into memory.
        ProgramNotReadyError: None is kept, and none is to be made.
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
        records: bool = False,
        bars: int = 0,
        builds: bool = True,
    ):
        self.reference, self.bars = (target, proposer, rule, randomness, eos_token_ids, bars), bars
        self.proposer, self.rule, self.randomness, self.eos_token_ids = proposer, rule, randomness, eos_token_ids
        plan = plan_program(target, proposer, rule, rows, columns, compiler, records, bars)
        self.shape, self.key, self.by_reference = plan.shape, plan.key, 0
        store = ProgramStore.find_store(target.model) if plan.key else None
        self.program = store.lease(plan.key, self, plan.build if builds else None) if store is not None else plan.build()
        self.kernel: RoundKernel = self.program.kernel
        self._slots = [_Slot() for _ in range(rows)]
        self._ahead: dict[tuple[int, int, int], np.ndarray] = {}  # by draw, start and levels: random numbers of the next round

    def __call__(self, rows: Sequence[Prefix]) -> list[Round]:
        """One round of every row, as ``engine.step`` gives it; ``timing`` has the whole round's seconds.

        Raises ModelError where logits are not finite.
        """
        began = time.perf_counter()
        places = self._assign_slots(rows)
        packet, uniforms = self._build_packet(rows, places)
        record = self.program.run(packet, (lambda: self._draw_ahead(rows[0])) if len(rows) == 1 else None)
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
            if self.bars:
                tree, p = self._build_tree(kept, record[place, one.length :])
                rounds.append(record_round(self.rule, row, tree, 0, p, kept, self.randomness, timing, self.bars))
            else:
                rounds.append(Round(len(row.ids), kept.decisions, kept.accepted_path, kept.ending, (), timing))
        return rounds

    def _build_tree(self, outcome: Outcome, numbers: np.ndarray) -> tuple[DraftTree, Tensor]:
        """A row's draft tokens with their distributions, and the target's (n + 1, V), from the whole distributions as they were fetched."""
        every = torch.from_numpy(numbers).view(-1, self.kernel.target.vocabulary)
        decisions, nodes = outcome.decisions, len(self.shape.parents)
        tokens, parents, u = (
            zip(*((one.token, one.parent, one.u_draft) for one in decisions), strict=True) if decisions else ((),) * 3
        )
        q = every[: len(decisions)] if decisions else None
        return DraftTree((tokens,), (parents,), (q,), (u,), self.proposer.name, True), every[nodes : nodes + len(decisions) + 1]

    def forget_rows(self) -> None:
        """Let every row be read anew."""
        self._slots = [_Slot() for _ in self._slots]

    def count_levels(self, row: Prefix) -> int:
        """Levels that the proposer drafts for a row."""
        most, draft = len(self.shape.levels), self.proposer.draft
        levels = min(most, row.remaining - 1)
        if levels > 0 and draft.context is not None:
            levels = min(levels, draft.context - len(row.ids) + 1)
        return max(0, levels)

    def _assign_slots(self, rows: Sequence[Prefix]) -> list[int]:
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
        if len(self._slots) == 1 and self.program.read(ids):
            return
        donor = next((other for other, slot in enumerate(self._slots) if slot.ids[: len(ids)] == ids), None)
        for model in filter(None, (self.kernel.draft, self.kernel.target)):  # the target's number of threads stays
            if donor is None:
                model.read(place, ids)
            else:
                model.copy(donor, place)
        self.kernel.ids[place, : len(ids)] = torch.tensor(ids)

    def _build_packet(self, rows: Sequence[Prefix], places: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """What a round needs of the host: (B, 2 + 3 N + 1) float64 with lengths, levels and random numbers; and the last alone."""
        nodes = len(self.shape.parents)
        packet = np.zeros((len(self._slots), 2 + 3 * nodes + 1))
        packet[:, 0] = [max(1, len(slot.ids)) for slot in self._slots]  # an idle slot is written behind its text
        packet[places, 0], packet[places, 1] = [len(row.ids) for row in rows], [self.count_levels(row) for row in rows]
        levels = [int(packet[place, 1]) for place in places]
        ahead = self._ahead.get((rows[0].draw, rows[0].start, levels[0])) if len(rows) == 1 else None
        packet[places, 2:] = self._draw_uniforms(rows, levels) if ahead is None else ahead
        return packet, packet[:, 2:]

    def _draw_uniforms(self, rows: Sequence[Prefix], levels: Sequence[int]) -> np.ndarray:
        """The random numbers of each row's round, (rows, 3 N + 1)."""
        nodes = len(self.shape.parents)
        uniforms = np.zeros((len(rows), 3 * nodes + 1))
        for node, depth in enumerate(self.shape.depths):
            at = [index for index, most in enumerate(levels) if most > depth]
            if not at:
                break
            some = [rows[index] for index in at]
            for part, purpose in enumerate((Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL)):
                if purpose is not Purpose.DRAFT or self.kernel.drawn:
                    uniforms[at, part * nodes + node] = self.randomness.take(purpose, some, node, depth)
        for index, (row, most) in enumerate(zip(rows, levels, strict=True)):
            uniforms[index, -1] = self.randomness.take(Purpose.BONUS, [row], self.shape.count_nodes(most), most)[0]
        return uniforms

    def _draw_ahead(self, row: Prefix) -> None:
        """Draw the random numbers of the round after this one, for each number of tokens that this one may write.

        The host has nothing else to do while the device runs, and a number is a function of its address.
        """
        self._ahead.clear()
        for count in range(1, min(self.count_levels(row) + 1, row.remaining - 1) + 1):
            later = Prefix(row.ids + (0,) * count, row.start + count, row.remaining - count, row.draw)
            levels = self.count_levels(later)
            self._ahead[row.draw, later.start, levels] = self._draw_uniforms([later], [levels])

    def _build_outcome(self, record: _Record, row: Prefix, packet: np.ndarray, uniforms: np.ndarray) -> Outcome:
        nodes = len(self.shape.parents)
        decisions = []
        for node in range(self.shape.count_nodes(int(packet[1]))):
            p, q, checked = record.p[node], record.q[node], bool(record.checked[node])
            threshold = None
            if checked:
                threshold = self.rule.compute_threshold(p, q) if isinstance(self.rule, TokenRule) else record.edges[node]
            decisions.append(
                Decision(
                    token=int(record.tokens[node]),
                    parent=self.shape.parents[node],
                    source=self.proposer.name,
                    q=q,
                    p=p,
                    u_draft=float(uniforms[node]) if self.kernel.drawn else None,
                    u=float(uniforms[nodes + node]) if checked else None,
                    threshold=threshold,
                    accepted=bool(record.accepted[node]) if checked else None,
                )
            )
        if record.rejected < 0:
            ending = Ending("bonus", record.last, float(uniforms[-1]))
        else:
            ending = Ending("residual", record.last, float(uniforms[2 * nodes + record.rejected]))
        return Outcome(tuple(decisions), tuple(int(node) for node in record.path[: record.count]), ending)


class _Record:
    """One row of what the kernel returns."""

    def __init__(self, line: np.ndarray, shape: FixedShape):
        count = len(shape.parents)
        parts = [line[part * count : (part + 1) * count].tolist() for part in range(6)]
        self.tokens, self.p, self.q, self.edges, self.checked, self.accepted = parts
        after = line[6 * count :].tolist()
        self.count, self.rejected, self.last = (int(number) for number in after[:3])
        self.finite, self.irregular = (bool(number) for number in after[3:5])
        self.length = 6 * count + 5 + len(shape.levels)
        self.path = [int(node) for node in after[5 : 5 + len(shape.levels)]]


def _round_up_columns(needed: int, extra: int, context: int | None) -> int:
    """Columns of a recorded round: the model's context, or a power of two, and a multiple of ``MASK_MULTIPLE``."""
    columns = COLUMNS_MIN
    while columns < needed:
        columns *= 2
    if context is not None:
        columns = max(needed, min(columns, context + 1 + extra))
    return -(-columns // MASK_MULTIPLE) * MASK_MULTIPLE


def _describe_model(model: Any) -> tuple[Hashable, ...]:
    """What of an opened model decides a round's operations."""
    asked = model.settings
    return id(model.model), asked.temperature, asked.top_k, asked.top_p, asked.min_p, model.vocabulary


class RoundKernel:
    """The round as one function of a table of numbers, on texts and caches that stay on the device.

    Args:
        target: Model with a cache of B rows and S columns.
        draft: The same; None where nothing is drafted.
        rule: The token rule or the block rule.
        shape: Shape of the draft tokens, N nodes.
        widths: Children below each node of a level.
        drawn: Whether draft tokens are drawn; otherwise the most probable ones are taken.
        rows: B.
        columns: S.
        keeps_distributions: Whether a round also returns the draft's and the target's distributions.
    """

    def __init__(
        self,
        target: TensorModel,
        draft: TensorModel | None,
        rule: Rule,
        shape: FixedShape,
        widths: Sequence[int],
        drawn: bool,
        rows: int,
        columns: int,
        keeps_distributions: bool = False,
    ):
        self.keeps_distributions = keeps_distributions
        self.target, self.draft, self.shape, self.drawn = target, draft, shape, drawn
        self.widths, self.block, self.device = tuple(widths), isinstance(rule, BlockRule), target.device
        device, nodes = self.device, len(shape.parents)
        self.ids = torch.zeros(rows, columns, dtype=torch.int64, device=device)
        self.below = shape.below.to(device)
        self.above = torch.tensor(shape.parents, dtype=torch.int64, device=device) + 1
        depths = torch.tensor(shape.depths, dtype=torch.int64, device=device)
        seen, self.depths = shape.seen.to(device), depths
        self.reached = torch.cat([torch.full_like(depths[:1], -1), depths[: shape.levels[-1][0] if nodes else 0] + 1])
        every = torch.arange(nodes, device=device)
        first = torch.zeros(1, dtype=torch.int64, device=device)
        self.opening, self.reading = PassTokens.build_chain(2, device), PassTokens.build_chain(READ_CHUNK, device)
        self.scoring = PassTokens(
            torch.cat([first, every + 1]), torch.cat([first, depths + 1]), seen, torch.cat([first, depths + 1])
        )
        self.growing = [
            PassTokens(every[list(level)], depths[list(level)], seen[1:, 1:][list(level)], depths) for level in shape.levels[:-1]
        ]
        self.steps = torch.arange(len(shape.levels) + 1, device=device)

    @property
    def can_read(self) -> bool:
        """Whether ``read_chunk`` reads texts: of a single row, into caches of the models' own."""
        return len(self.ids) == 1 and all(isinstance(one, FixedModel) for one in (self.draft, self.target) if one is not None)

    def read_chunk(self, packet: Tensor) -> Tensor:
        """Read ``READ_CHUNK`` tokens of the only row's text into both caches and the text.

        packet: (1, 1 + READ_CHUNK) int64, the first column and the tokens. Tokens behind a text's end are overwritten later.
        """
        begin, tokens = packet[:, 0], packet[:, 1:]
        for model in (self.draft, self.target):
            if isinstance(model, FixedModel):
                model.read_chunk(tokens, begin, self.reading)
        self.ids.scatter_(1, begin[:, None] + self.reading.columns, tokens)
        return begin + 0

    def compile(self, compiler: dict[str, Any]) -> None:
        """Compile the parts of a round: those of the models' passes, drawing, and the decision."""
        for model in filter(None, (self.draft, self.target)):
            if isinstance(model, FixedModel):
                model.compile(compiler)
        self._draft_children, self._decide = (  # type: ignore[method-assign]
            torch.compile(part, fullgraph=True, dynamic=False, **compiler) for part in (self._draft_children, self._decide)
        )

    def round(self, packet: Tensor) -> Tensor:
        """One round of all rows.

        Args:
            packet: (B, 3 N + 3) float64: length, levels, then u of each node to draft, to accept and for a replacement, and u for
                a bonus token.

        Returns:
            (B, 6 N + 5 + K) float64 in the order in which _Record reads it; then q (N, V) and p (N + 1, V) where they are kept.
        """
        nodes = len(self.shape.parents)
        lengths, levels = packet[:, 0].long(), packet[:, 1].long()
        last = self.ids.gather(1, lengths[:, None] - 1)
        if nodes:
            tokens, q, finite, irregular = self._draft(lengths, levels, packet[:, 2 : 2 + nodes])
            fed = torch.cat([last, tokens], 1)
        else:
            finite, irregular = lengths > 0, lengths < 0
            tokens, fed, q = last[:, :0], last, None
        p, sample = self.target.compute_probs(fed, lengths - 1, self.scoring)
        record, columns = self._decide(packet, tokens, p, q, sample, finite, irregular)
        if not self.shape.is_chain:
            for model in filter(None, (self.target, self.draft)):
                model.move(*columns)
        if self.keeps_distributions:
            record = torch.cat([record, *(part.flatten(1) for part in (q, p) if part is not None)], 1)
        return record

    def _decide(
        self, packet: Tensor, tokens: Tensor, p: Tensor, q: Tensor | None, sample: Tensor, finite: Tensor, irregular: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Apply the rule, draw the last token and write the new text. Returns the record, and which columns of a tree move where."""
        nodes = len(self.shape.parents)
        lengths, levels = packet[:, 0].long(), packet[:, 1].long()
        u_accept, u_residual = packet[:, 2 + nodes : -1].split(nodes, 1) if nodes else (packet[:, :0],) * 2
        finite = finite & (sample.isfinite() | (levels[:, None] < self.scoring.depths)).all(1)
        if q is None:
            none, whole = torch.zeros_like(tokens, dtype=torch.bool), tokens.double()
            verdict = BatchVerdict(whole, whole, none, none, tokens, torch.zeros_like(levels), -torch.ones_like(levels), p[:, 0])
            at_q, u_last = whole, packet[:, -1:]
        else:
            at, drafted = gather_node_probabilities(p, q, tokens, self.above), DraftBatch(tokens, levels, u_accept)
            if self.block:
                verdict = apply_block_rule(p, q, at, drafted)
            elif self.shape.is_chain:
                verdict = apply_chain_rule(p, q, at, drafted)
            else:
                verdict = apply_token_rule(self.shape, self.below, p, q, at, drafted)
            at_q = at[1]
            replaced = u_residual.gather(1, verdict.rejected.clamp(min=0)[:, None])
            u_last = torch.where(verdict.rejected[:, None] >= 0, replaced, packet[:, -1:])
        final = invert_cdf(verdict.probs, u_last)[0]
        columns = self._commit(lengths, tokens, verdict, final)
        flags = torch.stack([verdict.count, verdict.rejected, final[:, 0], finite, irregular], 1)
        parts = (tokens, verdict.p, at_q, verdict.edges, verdict.checked, verdict.accepted, flags, verdict.path)
        return torch.cat([part.double() for part in parts], 1), columns

    def _draft(self, lengths: Tensor, levels: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draft tokens (B, N), their distributions (B, N, V), and (B,) bool: logits finite, a node without any token to take."""
        assert self.draft is not None, "a round without draft tokens has no draft"
        begin = (lengths - 2).clamp(min=0)
        probs, sample = self.draft.compute_probs(self.ids.gather(1, begin[:, None] + self.opening.columns), begin, self.opening)
        index = (lengths - 1 - begin)[:, None]
        here = probs.gather(1, index[..., None].expand(-1, 1, probs.shape[2]))  # (B, ends, V)
        tokens, q, samples, masses = [], [], [sample.gather(1, index)], []
        for level, width in enumerate(self.widths):
            first = self.shape.levels[level][0]
            uniforms = u[:, first : first + here.shape[1] * width].unflatten(1, (width, -1)) if self.drawn else None
            found, distributions, mass = self._draft_children(here, width, uniforms)
            tokens.append(found)
            q.append(distributions)
            masses.append(mass)
            if level + 1 < len(self.widths):
                here, sample = self.draft.compute_probs(found, lengths, self.growing[level])
                samples.append(sample)
        finite = (torch.cat(samples, 1).isfinite() | (levels[:, None] <= self.reached)).all(1)
        irregular = ((torch.cat(masses, 1) <= 0.0) & (levels[:, None] > self.depths)).any(1)
        return torch.cat(tokens, 1), torch.cat(q, 1), finite, irregular

    def _draft_children(self, draft_probs: Tensor, width: int, u: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Children of the nodes of one level: tokens (B, n), the distributions they come from (B, n, V), what mass was left (B, n).

        draft_probs  (B, ends, V): the draft's distributions
        u     (B, width, ends), None where nothing is drawn
        """
        if u is None:
            ordered, ids = draft_probs.sort(dim=-1, descending=True, stable=True)
            tokens, mass = ids[..., :width].flatten(1), ordered[..., :width].flatten(1)
            return tokens, build_one_hot(tokens, draft_probs.shape[-1]), mass
        tokens, q, mass, left = [], [], [], draft_probs
        if width == 1:
            found, cumulative = invert_cdf(draft_probs, u[:, 0, :, None])
            return found[..., 0], draft_probs, cumulative[..., -1]
        for sibling in range(width):
            total = left.sum(-1, keepdim=True)
            probs = left if sibling == 0 else torch.where(total > 0.0, left / total, left)
            found = invert_cdf(probs, u[:, sibling, :, None])[0]
            tokens.append(found[..., 0])
            q.append(probs)
            mass.append(total[..., 0])
            left = left.scatter(-1, found, 0.0)
        return torch.cat(tokens, 1), torch.cat(q, 1), torch.cat(mass, 1)

    def _commit(self, lengths: Tensor, tokens: Tensor, verdict: BatchVerdict, final: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new text. Returns the columns of the accepted nodes, and those behind the old text that they move to."""
        steps = self.steps[:-1]
        on_path = steps < verdict.count[:, None]
        path = verdict.path[:, : len(steps)]
        accepted = torch.cat([tokens.gather(1, path), final], 1)
        added = torch.where(self.steps < verdict.count[:, None], accepted, final)
        self.ids.scatter_(1, lengths[:, None] + self.steps, added)
        columns = lengths[:, None] + steps
        return torch.where(on_path, lengths[:, None] + path, columns), columns
