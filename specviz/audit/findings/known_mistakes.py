"""What each known mistake writes after a prefix, computed from the distributions of target and draft there.

A round judges draft tokens until one of them is rejected or there are none left. So a decoder is known by three distributions after
each prefix: of a token that is drafted and accepted, of one that ends a round in which a draft token was judged, and of one that is
drawn where nothing is drafted. With a schedule of rounds they give the exact distribution of its samples, token by token.

Left out: R10 (no mass), no-bonus (exact), R35, kept-rest and best-drawn (what they write depends on draft tokens that no sample shows).
Of no-rollback only the variant with a greedy draft is compared: there the prefix determines the rejected token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf

import numpy as np
import torch
from torch import Tensor

from specviz.audit.findings.other_rows import OtherRows
from specviz.audit.findings.prefix_table import PrefixTable
from specviz.evidence.mistakes.components import (
    change_temperature,
    concentrate_on_argmax,
    penalize_again,
    round_probs_to_bfloat16,
)
from specviz.evidence.mistakes.registry import LEAST, SIBLINGS
from specviz.evidence.mistakes.rules import ListResidualRule
from specviz.settings import Settings
from specviz.verification.token import EmptyResidualError, compute_residual
from specviz.verification.typical import compute_typical_bound
from specviz.verification.warp import warp

TEMPERATURE_FACTORS = (0.02, 0.1, 0.25, 0.5, 0.75, 1.5, 2.0, 4.0, 50.0)  # temperatures of a verifying pass over the one asked for
STRANGE_FACTORS = {
    inf: "infinite",
    -1e-6: "negative",
}  # further ones, which memory that was never written holds as well, and their names
LENIENCES = (2.0, 1.1, 1 / 0.7, 4.0)  # factors of p / q with which lenient rules accept
DRAFT_FACTORS = (0.5, 0.7, 1.5, 2.0)  # temperatures of another request over this one's, by which its q is computed
SHARED_UNIFORMS = 32  # values of a random number that a whole sample shares
OTHER_SETTINGS = (  # sampling settings that servers have by default
    Settings(temperature=0.0), Settings(temperature=0.5), Settings(temperature=0.7), Settings(temperature=0.8), Settings(temperature=1.2),
    Settings(temperature=1.5), Settings(temperature=2.0), Settings(top_k=20), Settings(top_k=40), Settings(top_k=50), Settings(top_p=0.8),
    Settings(top_p=0.9), Settings(top_p=0.95), Settings(min_p=0.05), Settings(min_p=0.1), Settings(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05),
)  # fmt: skip
SETTINGS = "settings"  # in place of a mistake's id: plain sampling under other settings


DRAFT_KINDS: tuple[tuple[bool, Callable[[Tensor], Tensor]], ...] = (
    (False, lambda q: q),
    (True, concentrate_on_argmax),
)  # greedy or not; the distribution that draft tokens come from


@dataclass(frozen=True, slots=True)
class NextTokenSplit:
    """The next token after G prefixes; ``accepted`` and ``last`` together sum to 1, and ``bonus`` does.

    Attributes:
        accepted: (G, V) drafted here and accepted: the round goes on.
        last: (G, V) a draft token was judged here, and this one ends the round.
        bonus: (G, V) nothing is drafted here.
        later: The same after one, two, ... accepted draft tokens of the round; the last one holds for all more. Empty: no difference.
        after_rejection: The same where the round before ended with a judged token that was not accepted; None: no difference.
    """

    accepted: Tensor
    last: Tensor
    bonus: Tensor
    later: tuple[NextTokenSplit, ...] = ()
    after_rejection: NextTokenSplit | None = None

    @property
    def variants(self) -> tuple[NextTokenSplit, ...]:
        """This split, those of later places, and the one after a rejection."""
        return (self, *self.later, *([] if self.after_rejection is None else [self.after_rejection]))

    def list_variants_of_states(self, length: int) -> np.ndarray:
        """(L + 1,) index into ``variants`` by the number of draft tokens accepted just before, and last for a round after a rejection."""
        by_place = [min(count, len(self.later)) for count in range(length)]
        return np.array([*by_place, 0 if self.after_rejection is None else len(self.later) + 1])


# One split, or one for each value of a random number that a round or a whole sample shares.
MistakeModel = Callable[[PrefixTable], Iterable[NextTokenSplit]]


@dataclass(frozen=True, slots=True)
class KnownMistake:
    """One mistake on one kind of draft.

    Attributes:
        id: Its name in docs/reference/mistakes.md, or SETTINGS.
        greedy: Whether the draft takes its likeliest token.
        factor: Of pass-temperature: the temperature of the verifying pass over the one asked for; None for other mistakes.
        words: What else is particular, such as "temperature 0.5"; may be ''.
        renews_number: Whether every round has a shared number of its own; else one number serves the whole sample.
    """

    id: str
    greedy: bool
    model: MistakeModel
    factor: float | None = None
    words: str = ""
    renews_number: bool = False


@dataclass(frozen=True, slots=True)
class DraftSchedule:
    """Which tokens are drafted.

    Attributes:
        lead: Tokens that are written before the first draft.
        total: Tokens of the whole text, the last of which is never drafted; 0: it may be.
    """

    lead: int
    gamma: int
    total: int

    def count_draft_tokens(self, start: int) -> int:
        """Draft tokens of a round that begins at token ``start``, from 0."""
        wanted = 0 if start < self.lead else self.gamma
        return max(0, min(wanted, self.total - start - 1)) if self.total else wanted

    def build_drafting_mask(self, length: int) -> np.ndarray:
        """(L, L) bool: whether a draft token is judged at a place (row), by the number of those accepted just before (column)."""
        return np.array(
            [[k <= place and k < self.count_draft_tokens(place - k) for k in range(length)] for place in range(length)]
        )


def list_schedules(length: int, total: int) -> list[DraftSchedule]:
    """Every schedule that differs from the others in the first ``length`` of ``total`` tokens; something is drafted in each."""
    found: dict[bytes, DraftSchedule] = {}
    for lead in (0, 1):
        for gamma in range(1, length + 1):
            for cap in (total, 0):
                one = DraftSchedule(lead, gamma, cap)
                if (table := one.build_drafting_mask(length)).any():
                    found.setdefault(table.tobytes(), one)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class FurtherDistributions:
    """What mistakes need beside the distributions of a table, (G, V) each.

    Attributes:
        soft: Of target and draft at temperature 1 without cuts.
        uncut: The draft's with its temperature and without cuts.
        after_rejected: The target's after each prefix and a token that was rejected there, of a draft that draws and of a greedy one; None: not
            known.
        kept_rejected: The target's after each prefix with the draft's likeliest token before its last one, as if a state had kept the token
            that this one replaced; None: not known.
        frequency_penalty: Of the requests.
        other_rows: The draft's along other requests.
    """

    soft: tuple[Tensor, Tensor]
    uncut: Tensor
    after_rejected: tuple[Tensor, Tensor] | None = None
    kept_rejected: Tensor | None = None
    frequency_penalty: float = 0.0
    other_rows: Sequence[OtherRows] = ()


def list_known_mistakes(table: PrefixTable, settings: Settings, further: FurtherDistributions) -> list[KnownMistake]:
    """Every mistake that changes anything under these settings, each on a draft that draws and on one that takes its likeliest token."""
    soft, uncut = further.soft, further.uncut
    cuts = bool(settings.cuts)
    greedy = settings.temperature == 0.0
    warped = cuts or settings.temperature != 1.0
    found = [KnownMistake("R3", True, lambda table: [split_argmax_after_softmax(*soft)])] if greedy else []
    if not greedy:
        found += [
            KnownMistake("R1", True, lambda table: [apply_token_rule(table.p, concentrate_on_argmax(table.q), table.q)]),
            KnownMistake("R6", False, lambda table: [split_same_noise(table.p, table.q)]),
            KnownMistake("R8", False, lambda table: [split_dropped_drafts(table.p, table.q, LEAST)]),
            KnownMistake("R16", False, lambda table: [apply_token_rule(table.p, round_probs_to_bfloat16(table.q), table.q)]),
            KnownMistake("R20", True, lambda table: [split_per_path(table.p, table.q, SIBLINGS)]),
            KnownMistake("R21", True, lambda table: [split_typical(table.p, table.q, settings.typical_epsilon)]),
        ]
        found.append(KnownMistake("one-hot-residual", False, lambda table: [split_one_hot_residual(table.p, table.q)]))
        found += _list_shifted_rows(further)
        found += [build_draft_settings(factor) for factor in DRAFT_FACTORS]
        found += [one for rows in further.other_rows for one in build_draft_rows(rows, table.length)]
        if cuts:
            found.append(KnownMistake("R2", False, lambda table: [apply_token_rule(table.p, table.q, uncut)]))
        found += [build_other_settings(one, settings.temperature) for one in OTHER_SETTINGS]
    if warped:
        found.append(
            KnownMistake(SETTINGS, False, lambda table: [split_without_draft(soft[0])], words="temperature 1 without cuts")
        )
    for is_greedy, drawn in DRAFT_KINDS:
        found += _list_draft_mistakes(is_greedy, drawn, settings, soft, cuts, warped, greedy)
        if further.frequency_penalty and not cuts and not greedy:
            found.append(build_penalty_twice(is_greedy, further.frequency_penalty, settings.temperature))
    return found


def _list_shifted_rows(further: FurtherDistributions) -> list[KnownMistake]:
    """The mistakes that read the target after a rejected token."""
    found = []
    if (after := further.after_rejected) is not None:
        for (is_greedy, drawn), rows in zip(DRAFT_KINDS, after, strict=True):
            found.append(build_row_after_rejected(is_greedy, drawn, rows))
    if (kept := further.kept_rejected) is not None:
        found.append(KnownMistake("no-rollback", True, lambda table: [split_kept_rejected(table.p, table.q, kept)]))
    return found


def _list_draft_mistakes(
    is_greedy: bool,
    choose_draft: Callable[[Tensor], Tensor],
    settings: Settings,
    soft: tuple[Tensor, Tensor],
    cuts: bool,
    warped: bool,
    greedy: bool,
) -> list[KnownMistake]:
    """The mistakes that both kinds of draft can meet. choose_draft: the draft's distribution -> the one that its tokens are drawn from."""

    def apply_gate(table: PrefixTable) -> list[NextTokenSplit]:
        return [apply_token_rule(table.p, choose_draft(table.q), choose_draft(table.shift_rows(True)))]

    def apply_late_target(table: PrefixTable) -> list[NextTokenSplit]:
        return [apply_token_rule(table.shift_rows(False), choose_draft(table.q), choose_draft(table.q))]

    def replace_from_target(table: PrefixTable) -> list[NextTokenSplit]:
        return [apply_token_rule(table.p, choose_draft(table.q), choose_draft(table.q), table.p)]

    def accept_always(table: PrefixTable) -> list[NextTokenSplit]:
        return [apply_token_rule(table.p, choose_draft(table.q), choose_draft(table.q), share=(table.p > 0.0).double())]

    def share_number(table: PrefixTable) -> Iterator[NextTokenSplit]:
        q = choose_draft(table.q)
        share, replaced = _compute_acceptance(table.p, q), _compute_residual(table.p, q)
        for number in range(SHARED_UNIFORMS):
            yield apply_token_rule(table.p, q, q, replaced, ((number + 0.5) / SHARED_UNIFORMS < share).double())

    found = [
        KnownMistake("gate", is_greedy, apply_gate),
        KnownMistake("R11", is_greedy, apply_late_target),
        KnownMistake("R18", is_greedy, accept_always),
    ]
    if greedy:
        return found
    found += [KnownMistake("R5", is_greedy, replace_from_target), KnownMistake("R7", is_greedy, share_number)]
    found.append(KnownMistake("one-uniform", is_greedy, share_number, renews_number=True))
    found += [
        KnownMistake("rejecting-number", is_greedy, lambda table: [split_rejecting_number(table.p, choose_draft(table.q))]),
        KnownMistake("greedy-bonus", is_greedy, lambda table: [split_greedy_bonus(table.p, choose_draft(table.q))]),
        KnownMistake("first-unverified", is_greedy, lambda table: [split_first_unverified(table.p, choose_draft(table.q))]),
    ]
    found += [build_lenience(is_greedy, factor) for factor in LENIENCES]
    found += [
        build_pass_temperature(is_greedy, factor, settings.temperature) for factor in (*TEMPERATURE_FACTORS, *STRANGE_FACTORS)
    ]
    found += [build_undefined_temperature()] if is_greedy else []
    if warped:
        found.append(
            KnownMistake("R4", is_greedy, lambda table: [apply_token_rule(soft[0], choose_draft(table.q), choose_draft(table.q))])
        )
    if cuts:
        found.append(KnownMistake("R9", is_greedy, lambda table: [split_by_place(table.p, choose_draft(table.q))]))
    return found


def build_pass_temperature(is_greedy: bool, factor: float, temperature: float) -> KnownMistake:
    """pass-temperature at one temperature of the verifying pass."""
    drawn = dict(DRAFT_KINDS)[is_greedy]

    def split_tokens(table: PrefixTable) -> list[NextTokenSplit]:
        q = drawn(table.q)
        return [replace(apply_token_rule(change_temperature(table.p, factor), q, q), bonus=table.p)]

    words = f"temperature {STRANGE_FACTORS.get(factor, f'{factor * temperature:.3g}')}"
    return KnownMistake("pass-temperature", is_greedy, split_tokens, factor=factor, words=words)


def build_lenience(is_greedy: bool, factor: float) -> KnownMistake:
    """Lenience with one factor."""
    drawn = dict(DRAFT_KINDS)[is_greedy]

    def split_tokens(table: PrefixTable) -> list[NextTokenSplit]:
        q = drawn(table.q)
        share = torch.where(q > 0.0, (factor * table.p / q).clamp(max=1.0), 0.0)
        return [apply_token_rule(table.p, q, q, share=share)]

    return KnownMistake("lenience", is_greedy, split_tokens, words=f"factor {factor:.3g}")


def build_row_after_rejected(is_greedy: bool, drawn: Callable[[Tensor], Tensor], after: Tensor) -> KnownMistake:
    """row-after-rejected: the replacement comes from the target's row after the rejected token. after: (G, V)."""
    return KnownMistake(
        "row-after-rejected", is_greedy, lambda table: [apply_token_rule(table.p, drawn(table.q), drawn(table.q), after)]
    )


def build_penalty_twice(is_greedy: bool, frequency_penalty: float, temperature: float) -> KnownMistake:
    """penalty-twice: after k accepted draft tokens of the round, each of them is penalized once more."""
    drawn = dict(DRAFT_KINDS)[is_greedy]
    weight = exp(-frequency_penalty / temperature)

    def split_tokens(table: PrefixTable) -> list[NextTokenSplit]:
        q = drawn(table.q)
        later = []
        for accepted in range(1, table.length):
            counts = torch.zeros_like(table.p)
            for row, prefix in enumerate(table.prefixes):
                for token in prefix[-accepted:]:
                    counts[row, token] += 1.0
            p = penalize_again(table.p, counts, weight)
            later.append(apply_token_rule(p, q, q))
        return [replace(apply_token_rule(table.p, q, q), later=tuple(later))]

    return KnownMistake("penalty-twice", is_greedy, split_tokens)


def build_draft_settings(factor: float) -> KnownMistake:
    """draft-settings with q at one temperature."""
    return KnownMistake(
        "draft-settings",
        False,
        lambda table: [apply_token_rule(table.p, table.q, change_temperature(table.q, factor))],
        words=f"q at {factor:g} times its temperature",
    )


def build_draft_rows(rows: OtherRows, length: int) -> Iterator[KnownMistake]:
    """draft-row with the rows of one other request, by where it stands.

    Its texts do not depend on the tested one, so the next token follows the mean of the token rule's distributions over its rows.
    """
    for where, weights in rows.weigh(length).items():
        words = f"q of a request after {rows.name}, {where}"
        yield KnownMistake(
            "draft-row", False, partial(_split_other_rows, rows=rows, weights=torch.from_numpy(weights)), words=words
        )


def _split_other_rows(table: PrefixTable, rows: OtherRows, weights: Tensor) -> list[NextTokenSplit]:
    """weights: (L, M), of each row by the length of the prefix."""
    mine = weights[torch.from_numpy(table.prefix_lengths)]
    accepted, last = torch.zeros_like(table.p), torch.zeros_like(table.p)
    for claimed, weight in zip(rows.q, mine.T, strict=True):
        here = (weight > 0.0).nonzero().flatten()
        if len(here):
            part = apply_token_rule(table.p[here], table.q[here], claimed.expand(len(here), -1))
            accepted[here] += weight[here, None] * part.accepted
            last[here] += weight[here, None] * part.last
    return [NextTokenSplit(accepted, last, table.p)]


def build_undefined_temperature() -> KnownMistake:
    """pass-temperature at 0, or so near it that logits overflow: all probabilities are no numbers, and so is every comparison with them.

    The draft token is rejected. With a greedy draft it is also its own replacement, because a server that draws from the residual of a
    one-hot q sets the draft token's mass to 0, the one number that is left (vLLM, ``sample_recovered_tokens_kernel``). So it is written,
    and ends the round.
    """
    return KnownMistake(
        "pass-temperature",
        True,
        lambda table: [NextTokenSplit(torch.zeros_like(table.p), concentrate_on_argmax(table.q), table.p)],
        factor=0.0,
        words="temperature 0",
    )


def build_other_settings(changed: Settings, temperature: float) -> KnownMistake:
    """Target-only sampling under other settings. changed: its temperature over the one asked for, and cuts on top of those asked for."""
    parts = [f"temperature {changed.temperature * temperature:.3g}"] if changed.temperature != 1.0 else []
    parts += [f"{name.replace('_', '-')} {value:g}" for name, value in changed.cuts.items()]
    return KnownMistake(
        SETTINGS, False, lambda table: [split_without_draft(warp(table.p.log(), changed))], words=", ".join(parts)
    )


# The three distributions of a mistake. p, drawn, claimed: (G, V), rows sum to 1 --------------------------------------------------


def apply_token_rule(
    p: Tensor, draft_probs: Tensor, claimed_probs: Tensor, replaced: Tensor | None = None, share: Tensor | None = None
) -> NextTokenSplit:
    """The token rule. draft_probs: what draft tokens come from; claimed_probs: what the rule believes they come from.

    replaced: the distribution of a replacement; None: the residual; share: probability of acceptance by token; None: min(1, p /
    claimed_probs).
    """
    share = _compute_acceptance(p, claimed_probs) if share is None else share
    accepted = draft_probs * share
    replaced = _compute_residual(p, claimed_probs) if replaced is None else replaced
    return NextTokenSplit(accepted, (1.0 - accepted.sum(-1, keepdim=True)).clamp(min=0.0) * replaced, p)


def split_without_draft(p: Tensor) -> NextTokenSplit:
    """Nothing is drafted, or nothing of it shows."""
    return NextTokenSplit(torch.zeros_like(p), p, p)


def split_argmax_after_softmax(p: Tensor, q: Tensor) -> NextTokenSplit:
    """R3. p, q: not warped, at temperature 1."""
    return replace(
        apply_token_rule(p, concentrate_on_argmax(q), q, concentrate_on_argmax(_compute_residual(p, q))),
        bonus=concentrate_on_argmax(p),
    )


def split_same_noise(p: Tensor, q: Tensor) -> NextTokenSplit:
    """R6: the random number that drew a rejected draft token draws its replacement, so tokens of the residual meet the draft's in order."""
    share, left = _compute_acceptance(p, q), _compute_residual(p, q)
    of_q, of_left = (probs.cumsum(-1) / probs.sum(-1, keepdim=True) for probs in (q, left))
    edges = torch.cat((torch.zeros_like(of_q[:, :1]), of_q, of_left), -1).sort(-1).values
    middles, widths = (edges[:, 1:] + edges[:, :-1]) / 2, edges.diff(dim=-1)
    last = p.shape[-1] - 1
    drafted, written = (torch.searchsorted(one.contiguous(), middles, right=True).clamp(max=last) for one in (of_q, of_left))
    rejected = widths * (1.0 - share.gather(-1, drafted))
    return NextTokenSplit(q * share, torch.zeros_like(p).scatter_add_(-1, written, rejected), p)


def split_one_hot_residual(p: Tensor, q: Tensor) -> NextTokenSplit:
    """one-hot-residual: after x was rejected, token y other than x is drawn with probability p(y) / (1 - p(x))."""
    share = _compute_acceptance(p, q)
    rejected = q * (1.0 - share)
    others = 1.0 - p
    weight = torch.where(others > 0.0, rejected / others, 0.0)
    last = p * (weight.sum(-1, keepdim=True) - weight)
    return NextTokenSplit(q * share + torch.where(others > 0.0, 0.0, rejected), last, p)


def split_rejecting_number(p: Tensor, q: Tensor) -> NextTokenSplit:
    """rejecting-number: x was rejected by a number above its bound a(x), and that number draws from the residual.

    Its token is y where the number lies between the residual's cumulative masses on either side of y. So y has the mass H(upper end) -
    H(lower end), where H(c) is the sum of q(x) max(0, c - a(x)).
    """
    share, left = _compute_acceptance(p, q), _compute_residual(p, q)
    bound, order = share.sort(-1)
    mass = q.gather(-1, order).cumsum(-1)
    moment = (q * share).gather(-1, order).cumsum(-1)
    ends = left.cumsum(-1)
    ends = torch.cat((torch.zeros_like(ends[:, :1]), ends / ends[:, -1:]), -1)
    place = torch.searchsorted(bound.contiguous(), ends.contiguous())
    below = (place - 1).clamp(min=0)
    height = torch.where(place > 0, ends * mass.gather(-1, below) - moment.gather(-1, below), 0.0)
    return NextTokenSplit(q * share, height.diff(dim=-1).clamp(min=0.0), p)


def split_greedy_bonus(p: Tensor, q: Tensor) -> NextTokenSplit:
    """greedy-bonus: whatever is drawn where nothing is drafted is the target's likeliest token."""
    return replace(apply_token_rule(p, q, q), bonus=concentrate_on_argmax(p))


def split_first_unverified(p: Tensor, q: Tensor) -> NextTokenSplit:
    """first-unverified: the first draft token of a round is accepted as it is."""
    return NextTokenSplit(q, torch.zeros_like(q), p, later=(apply_token_rule(p, q, q),))


def split_kept_rejected(p: Tensor, q: Tensor, kept: Tensor) -> NextTokenSplit:
    """no-rollback with a greedy draft: the first token after a rejection follows another distribution. kept: (G, V)."""
    likeliest = concentrate_on_argmax(q)
    return replace(apply_token_rule(p, likeliest, likeliest), after_rejection=apply_token_rule(kept, likeliest, likeliest))


def split_dropped_drafts(p: Tensor, q: Tensor, least: float) -> NextTokenSplit:
    """R8: a draft token with a smaller q than ``least`` is thrown away, and the target draws."""
    is_kept = q >= least
    found = apply_token_rule(p, q * is_kept, q)  # a token that is not kept is neither accepted nor rejected
    dropped = (q * ~is_kept).sum(-1, keepdim=True)
    rejected = (q * is_kept).sum(-1, keepdim=True) - found.accepted.sum(-1, keepdim=True)
    return replace(found, last=rejected.clamp(min=0.0) * _compute_residual(p, q) + dropped * p)


def split_by_place(p: Tensor, q: Tensor) -> NextTokenSplit:
    """R9, with the rule of the mutant, row by row."""
    rule, rows = ListResidualRule(), []
    for of_target, of_draft in zip(p, q, strict=True):
        try:
            rows.append(rule.compute_replacement(of_target, of_draft))
        except EmptyResidualError:
            rows.append(of_target)
    return apply_token_rule(p, q, q, torch.stack(rows))


def split_per_path(p: Tensor, q: Tensor, siblings: int) -> NextTokenSplit:
    """R20: the draft's likeliest tokens side by side, each accepted with probability p of it, and p stays p."""
    order = q.argsort(dim=-1, descending=True, stable=True)[:, :siblings]
    masses = p.gather(-1, order) * (q.gather(-1, order) > 0.0)
    missed = torch.cat((torch.ones_like(masses[:, :1]), (1.0 - masses).cumprod(-1)), -1)
    accepted = torch.zeros_like(p).scatter_(-1, order, masses * missed[:, :-1])
    return NextTokenSplit(accepted, missed[:, -1:] * p, p)


def split_typical(p: Tensor, q: Tensor, epsilon: float) -> NextTokenSplit:
    """R21, with the draft's likeliest token."""
    bar = torch.tensor([compute_typical_bound(row, epsilon) for row in p], dtype=p.dtype)[:, None]
    accepted = concentrate_on_argmax(q) * (p > bar)
    return NextTokenSplit(accepted, (1.0 - accepted.sum(-1, keepdim=True)) * concentrate_on_argmax(p), concentrate_on_argmax(p))


def _compute_acceptance(p: Tensor, q: Tensor) -> Tensor:
    """min(1, p / q) where q is above 0, else whether p is."""
    return torch.where(q > 0.0, (p / q).clamp(max=1.0), (p > 0.0).double())


def _compute_residual(p: Tensor, q: Tensor) -> Tensor:
    """The production residual; p itself in rows where nothing is ever rejected."""
    return compute_residual(p, q.masked_fill((p <= q).all(-1, keepdim=True), 0.0))


# Samples -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EdgeProbabilities:
    """What a decoder gives the tokens that were seen, (U, K, E) each: for U values of a shared random number and K variants of the split.

    variants: (L + 1,) which variant holds in each state; renews_number: as of a KnownMistake.
    """

    accepted: np.ndarray
    last: np.ndarray
    bonus: np.ndarray
    variants: np.ndarray
    renews_number: bool = False

    @classmethod
    def from_mistake(cls, mistake: KnownMistake, table: PrefixTable) -> EdgeProbabilities:
        splits = list(mistake.model(table))
        accepted, last, bonus = (
            np.stack([[table.gather(getattr(variant, name)) for variant in split.variants] for split in splits])
            for name in ("accepted", "last", "bonus")
        )
        return cls(accepted, last, bonus, splits[0].list_variants_of_states(table.length), mistake.renews_number)


def build_state_mask(schedule: DraftSchedule, length: int) -> np.ndarray:
    """(L, L + 1) bool: as ``build_drafting_mask``; the last column is a round after a rejection."""
    mask = schedule.build_drafting_mask(length)
    return np.hstack((mask, mask[:, :1]))


def compute_edge_probabilities(
    edges: EdgeProbabilities, table: PrefixTable, schedule: DraftSchedule
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of each edge's token after its prefix, (E,), and how likely each state is there, (U, G, L + 1).

    A state is the number of draft tokens just accepted, and L for a fresh round after one that ended with a judged token; how likely, given
    the prefix. A prefix that the decoder cannot write keeps the state of a fresh round.
    """
    length = table.length
    drafting = build_state_mask(schedule, length)
    numbers = len(edges.accepted)
    states = np.zeros((numbers, len(table.prefixes), length + 1))
    states[:, :, 0] = 1.0 / numbers
    found = np.zeros(len(table.edge))
    for here, (mine, child, at) in enumerate(table.levels):
        before = states[:, table.edge[mine]]
        judging = before * drafting[here]
        accepted, last, bonus = (part[:, edges.variants, mine[:, None]] for part in (edges.accepted, edges.last, edges.bonus))
        goes_on = judging * accepted
        judged_last = (judging * last).sum(-1)
        idle = ((before - judging) * bonus).sum(-1)
        if edges.renews_number:
            judged_last, idle = (np.broadcast_to(one.mean(0), one.shape) for one in (judged_last, idle))
        total = (judged_last + idle + goes_on.sum(-1)).sum(0)
        found[mine] = total
        child, at = child[total[at] > 0.0], at[total[at] > 0.0]
        after = np.zeros((numbers, len(child), length + 1))
        after[..., 0], after[..., length] = idle[:, at], judged_last[:, at]
        after[..., 1:length] = goes_on[:, at, : length - 1]
        after[..., 1] += goes_on[:, at, length]
        states[:, child] = after / total[at][:, None]
    return found, states


def compute_next_token(mistake: KnownMistake, table: PrefixTable, schedule: DraftSchedule, states: np.ndarray) -> Tensor:
    """(G, V): the whole distribution of the next token after each prefix, from the states that ``compute_edge_probabilities`` found."""
    drafting = build_state_mask(schedule, table.length)[table.prefix_lengths]
    result = torch.zeros_like(table.p)
    for weights, split in zip(states, mistake.model(table), strict=True):
        variants = split.list_variants_of_states(table.length)
        for number, found in enumerate(split.variants):
            mine = weights[:, variants == number]
            mask = drafting[:, variants == number]
            judging, idle = (torch.from_numpy(part.sum(-1))[:, None] for part in (mine * mask, mine * ~mask))
            result += judging * (found.accepted + found.last) + idle * found.bonus
    return result
