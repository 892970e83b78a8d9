"""The published mistakes as small programs on fractions: written from their descriptions in docs/reference/mistakes.md, with nothing of the package.

A program is handed a ``Chance`` and returns the text that it writes. ``distribution_of`` runs it once for every way that chance can go; each way
has its probability as a fraction. A number that a mistake uses twice is picked once, from cells so fine that no comparison cuts one.

A table maps ids (prompt included) to a tuple of Fractions. ``programs(p, q)`` gives each mistake's program, and the target's table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import exp, frexp, ldexp, log, sqrt

Distribution = tuple[Fraction, ...]
Table = Callable[[tuple[int, ...]], Distribution]
Round = Callable[["Chance", tuple[int, ...], int], tuple[int, ...]]  # chance, ids so far, room -> tokens that join them
PROMPT = (0,)
ZERO, ONE = Fraction(0), Fraction(1)


class Chance:
    """One way that chance can go. Ways that were not taken here wait in ``others``."""

    def __init__(self, begun: tuple[int, ...], others: list):
        self.begun, self.others, self.taken, self.mass, self.numbers = begun, others, (), ONE, {}

    def pick(self, probs: Sequence[Fraction]) -> int:
        possible = [x for x, mass in enumerate(probs) if mass]
        if len(self.taken) < len(self.begun):
            choice = self.begun[len(self.taken)]
        else:
            choice = possible[0]
            self.others += [(*self.taken, other) for other in possible[1:]]
        self.taken, self.mass = (*self.taken, choice), self.mass * probs[choice]
        return choice

    def below(self, edge: Fraction) -> bool:
        """Whether a fresh number lies below an edge in [0, 1]."""
        return self.pick((edge, ONE - edge)) == 0

    def number(self, name: tuple, edges: Iterable[Fraction]) -> Fraction:
        """A number that may be asked for again by its name: the middle of one of the cells between edges."""
        if name not in self.numbers:
            cells = list(pairwise(sorted({ZERO, ONE, *(edge for edge in edges if 0 < edge < 1)})))
            low, high = cells[self.pick([high - low for low, high in cells])]
            self.numbers[name] = (low + high) / 2
        return self.numbers[name]


def distribution_of(program: Callable[[Chance], tuple[int, ...]]) -> dict[tuple[int, ...], Fraction]:
    result, waiting = defaultdict(Fraction), [()]
    while waiting:
        chance = Chance(waiting.pop(), waiting)
        text = program(chance)
        result[text] += chance.mass
    return dict(result)


def run(round_: Round, length: int, wanted: int | None = None) -> Callable[[Chance], tuple[int, ...]]:
    """Rounds until ``length`` tokens are written, or the first ``wanted`` of them."""

    def program(chance: Chance) -> tuple[int, ...]:
        ids, end = PROMPT, len(PROMPT) + (wanted or length)
        while len(ids) < end:
            ids += round_(chance, ids, len(PROMPT) + length - len(ids))
        return ids[len(PROMPT) : end]

    return program


def norm(masses: Iterable[Fraction]) -> Distribution:
    masses = tuple(masses)
    total = sum(masses)
    return tuple(mass / total for mass in masses)


def residual(p: Distribution, q: Distribution) -> Distribution | None:
    """None where nothing is left: then nothing is rejected."""
    left = [max(ZERO, a - b) for a, b in zip(p, q, strict=True)]
    return norm(left) if any(left) else None


def share(p: Fraction, q: Fraction) -> Fraction:
    return min(ONE, p / q) if q else Fraction(p > 0)


def first_largest(probs: Distribution) -> int:
    return probs.index(max(probs))


def certain(probs: Distribution) -> Distribution:
    return tuple(Fraction(x == first_largest(probs)) for x in range(len(probs)))


def quantile(probs: Distribution, u: Fraction) -> int:
    return next(x for x, end in enumerate(accumulate(probs)) if end > u)


def squared(probs: Distribution) -> Distribution:
    """Temperature one half."""
    return norm(mass**2 for mass in probs)


def top(probs: Distribution, count: int) -> Distribution:
    """The ``count`` largest alone; no ties at the cut."""
    least = sorted(probs, reverse=True)[:count][-1]
    return norm(mass if mass >= least else ZERO for mass in probs)


def bfloat16(probs: Distribution) -> Distribution:
    """Eight bits to each mass, ties to even, rescaled."""
    parts = [frexp(float(mass)) for mass in probs]
    return norm(Fraction(ldexp(round(fraction * 256), power - 8)) for fraction, power in parts)


def row_before(table: Table) -> Table:
    return lambda ids: table(ids[:-1] if len(ids) > 1 else ids)


def cut_nowhere(chance: Chance, ids: tuple[int, ...], node: int, edge: Fraction) -> bool:
    return chance.below(edge)


def chain(
    gamma: int,
    p: Table,
    q: Table,
    claimed: Table | None = None,
    replaced=residual,
    bonus=lambda probs: probs,
    accepted=cut_nowhere,
    judging: Table | None = None,
):
    """Algorithm 1 with a thing or two done otherwise. q is drawn from, ``claimed`` is the distribution that the rule reads.

    ``judging`` stands in place of p wherever a draft token is judged or replaced.
    """
    claimed, judging = claimed or q, judging or p

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        drafts: tuple[int, ...] = ()
        for _ in range(min(gamma, remaining - 1)):
            drafts += (chance.pick(q(ids + drafts)),)
        for node, x in enumerate(drafts):
            probs, said = judging(ids + drafts[:node]), claimed(ids + drafts[:node])
            if not accepted(chance, ids, node, share(probs[x], said[x])) and (left := replaced(probs, said)):
                return (*drafts[:node], chance.pick(left))
        return (*drafts, chance.pick(bonus(p(ids + drafts))))

    return round_


def by_place(p: Distribution, q: Distribution) -> Distribution | None:
    """R9: the lists of possible tokens, subtracted place by place."""
    of_p, of_q = ([x for x, mass in enumerate(probs) if mass] for probs in (p, q))
    left = [ZERO] * len(p)
    for place, x in enumerate(of_p):
        left[x] = max(ZERO, p[x] - (q[of_q[place]] if place < len(of_q) else ZERO))
    return norm(left) if any(left) else None


def draft_number_again(p: Table, q: Table) -> Round:
    """R6: the number that drew the rejected token draws its replacement."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        if remaining == 1:
            return (chance.pick(p(ids)),)
        probs, said = p(ids), q(ids)
        left = residual(probs, said)
        u = chance.number((len(ids),), [*accumulate(said), *accumulate(left or ())])
        x = quantile(said, u)
        if not chance.below(share(probs[x], said[x])) and left:
            return (quantile(left, u),)
        return x, chance.pick(p((*ids, x)))

    return round_


def one_accept_number(edges: Sequence[Fraction]):
    """R7: every acceptance test of a run meets the same number. ``edges``: all acceptance probabilities that there are."""
    return lambda chance, ids, node, edge: chance.number(("accept",), edges) < edge


def acceptance_probabilities(p: Table, q: Table, length: int) -> list[Fraction]:
    size = len(p(PROMPT))
    places = [(*PROMPT, *text) for count in range(length) for text in product(range(size), repeat=count)]
    return [share(a, b) for ids in places for a, b in zip(p(ids), q(ids), strict=True)]


def dropped_below(least: Fraction, p: Table, q: Table) -> Round:
    """R8: a drawn token of less q than that is thrown away."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        probs, said = p(ids), q(ids)
        x = chance.pick(said) if remaining > 1 else None
        if x is None or said[x] < least:
            return (chance.pick(probs),)
        if not chance.below(share(probs[x], said[x])) and (left := residual(probs, said)):
            return (chance.pick(left),)
        return x, chance.pick(p((*ids, x)))

    return round_


def draw_per_path(width: int, p: Table, q: Table) -> Round:
    """R20: the draft's likeliest tokens side by side, each accepted with p of it, and p stays p."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        probs, said = p(ids), q(ids)
        likeliest = sorted(range(len(said)), key=lambda x: -said[x])[:width] if remaining > 1 else []
        for x in likeliest:
            if chance.below(probs[x]):
                return x, chance.pick(p((*ids, x)))
        return (chance.pick(probs),)

    return round_


def typical(epsilon: float, p: Table, q: Table) -> Round:
    """R21, with the draft's likeliest token."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        probs, x = p(ids), first_largest(q(ids))
        entropy = -sum(float(mass) * log(mass) for mass in probs if mass)
        if remaining > 1 and probs[x] > min(epsilon, sqrt(epsilon) * exp(-entropy)):
            return x, first_largest(p((*ids, x)))
        return (first_largest(probs),)

    return round_


def best_drawn(width: int, handed: int, p: Table, q: Table) -> Round:
    """``width`` siblings are drawn without replacement; the rule sees the ``handed`` likeliest, each with the distribution it was drawn from."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        probs, said, drawn = p(ids), q(ids), []
        while remaining > 1 and len(drawn) < min(width, sum(mass > 0 for mass in said)):
            left = norm(ZERO if x in [token for token, _ in drawn] else mass for x, mass in enumerate(said))
            drawn.append((chance.pick(left), left))
        best = sorted(drawn, key=lambda pair: -said[pair[0]])[:handed]
        for x, its in [pair for pair in drawn if pair in best]:
            rest = residual(probs, its)
            if chance.below(share(probs[x], its[x])) or rest is None:
                return x, chance.pick(p((*ids, x)))
            probs = rest
        return (chance.pick(probs),)

    return round_


def kept_rest(gamma: int, p: Table, q: Table) -> Round:
    """A rejected token is replaced where it stands; what followed it is judged as it was drafted."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        drafts, written = (), []
        for _ in range(min(gamma, remaining - 1)):
            drafts += (chance.pick(q(ids + drafts)),)
        for node, x in enumerate(drafts):
            probs, said = p(ids + drafts[:node]), q(ids + drafts[:node])
            left = residual(probs, said)
            written.append(x if chance.below(share(probs[x], said[x])) or not left else chance.pick(left))
        return (*written, chance.pick(p(ids + drafts)))

    return round_


def no_bonus(gamma: int, p: Table, q: Table) -> Round:
    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        drafts: tuple[int, ...] = ()
        for _ in range(min(gamma, remaining - 1)):
            x = chance.pick(q(ids + drafts))
            probs, said = p(ids + drafts), q(ids + drafts)
            if not chance.below(share(probs[x], said[x])) and (left := residual(probs, said)):
                return (*drafts, chance.pick(left))
            drafts += (x,)
        return drafts or (chance.pick(p(ids)),)

    return round_


def one_hot_residual(p: Table, q: Table) -> Round:
    """A rejected token alone is taken out of p, as a one-hot q would."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        if remaining == 1:
            return (chance.pick(p(ids)),)
        probs, said = p(ids), q(ids)
        x = chance.pick(said)
        others = [ZERO if y == x else mass for y, mass in enumerate(probs)]
        if not chance.below(share(probs[x], said[x])) and any(others):
            return (chance.pick(norm(others)),)
        return x, chance.pick(p((*ids, x)))

    return round_


def rejecting_number_again(p: Table, q: Table) -> Round:
    """The number that rejected the draft token draws its replacement."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        if remaining == 1:
            return (chance.pick(p(ids)),)
        probs, said = p(ids), q(ids)
        x = chance.pick(said)
        left, edge = residual(probs, said), share(probs[x], said[x])
        u = chance.number((len(ids),), [edge, *accumulate(left or ())])
        if u >= edge and left:
            return (quantile(left, u),)
        return x, chance.pick(p((*ids, x)))

    return round_


def row_after_rejected(p: Table, q: Table) -> Round:
    """The replacement comes from the target's row after the rejected token."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        if remaining == 1:
            return (chance.pick(p(ids)),)
        probs, said = p(ids), q(ids)
        x = chance.pick(said)
        after = chance.pick(p((*ids, x)))
        return (x, after) if chance.below(share(probs[x], said[x])) else (after,)

    return round_


def one_number_of_a_round(edges: Sequence[Fraction]):
    """All acceptance tests of a round meet the same number."""
    return lambda chance, ids, node, edge: chance.number(("accept", len(ids)), edges) < edge


def block_by_position(gamma: int, p: Distribution, q: Distribution, thresholds: Sequence[Fraction]) -> Round:
    """R35: block verification (Sun et al. 2024, Algorithm 2) whose numbers are addressed by output position alone; one p and one q.

    thresholds  all that an acceptance number can meet; what is left after a rejection is p or certain
    """

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        at, joint, left, kept, drafts = len(ids), ONE, [], 0, []
        for node in range(min(gamma, remaining - 1)):
            drafts.append(quantile(q, chance.number(("draft", at + node), accumulate(q))))
        weights = [ONE]
        for x in drafts:
            weights.append(min(ONE, weights[-1] * p[x] / q[x]))
        left = [[max(ZERO, w * a - b) for a, b in zip(p, q, strict=True)] for w in weights]
        for count in range(1, len(drafts) + 1):
            joint, mass = weights[count], sum(left[count])
            edge = joint if count == len(drafts) else mass / (mass + 1 - joint) if mass + 1 - joint else ONE
            if chance.number(("accept", at + count - 1), thresholds) < edge:
                kept = count
        last = p if kept == len(drafts) or not any(left[kept]) else norm(left[kept])
        assert last == p or max(last) == 1
        use = "bonus" if kept == len(drafts) else "residual"
        return (*drafts[:kept], quantile(last, chance.number((use, at + kept), accumulate(p))))

    return round_


def penalized_twice(gamma: int, weight: Fraction, p: Table, q: Table) -> Round:
    """Each draft token of the round takes ``weight`` off itself wherever it could come again in that round."""

    def judge(ids: tuple[int, ...], drafts: tuple[int, ...]) -> Distribution:
        return norm(mass * weight ** drafts.count(x) for x, mass in enumerate(p(ids + drafts)))

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        drafts: tuple[int, ...] = ()
        for _ in range(min(gamma, remaining - 1)):
            drafts += (chance.pick(q(ids + drafts)),)
        for node, x in enumerate(drafts):
            probs, said = judge(ids, drafts[:node]), q(ids + drafts[:node])
            if not chance.below(share(probs[x], said[x])) and (left := residual(probs, said)):
                return (*drafts[:node], chance.pick(left))
        return (*drafts, chance.pick(judge(ids, drafts)))

    return round_


def without_rollback(p: Table, q: Table) -> Round:
    """One draft token, the likeliest. Where it was rejected, the next distribution is computed as if it stood before its replacement."""

    def round_(chance: Chance, ids: tuple[int, ...], remaining: int) -> tuple[int, ...]:
        kept = chance.numbers.get(("rejected", len(ids)))
        probs = p(ids) if kept is None else p((*ids[:-1], kept, ids[-1]))
        if remaining == 1:
            return (chance.pick(probs),)
        x = first_largest(q(ids))
        if chance.below(probs[x]):
            return x, chance.pick(p((*ids, x)))
        chance.numbers["rejected", len(ids) + 1] = x
        return (chance.pick(norm(ZERO if y == x else mass for y, mass in enumerate(probs))),)

    return round_


def programs(p: Table, q: Table) -> dict[str, tuple[Round, int, Table]]:
    """mistake -> (a round of it, length of the text, the target's own table), at the settings of docs/reference/mistakes.md."""
    sure = lambda ids: certain(q(ids))  # noqa: E731
    return {
        "R1": (chain(1, p, sure, q), 2, p),
        "R2": (chain(1, lambda ids: top(p(ids), 3), lambda ids: top(q(ids), 3), q), 2, lambda ids: top(p(ids), 3)),
        "R3": (
            chain(1, p, sure, q, lambda a, b: certain(left) if (left := residual(a, b)) else None, certain),
            2,
            lambda ids: certain(p(ids)),
        ),
        "R4": (chain(1, p, lambda ids: squared(q(ids))), 2, lambda ids: squared(p(ids))),
        "R5": (chain(1, p, q, replaced=lambda a, b: a), 2, p),
        "R6": (draft_number_again(p, q), 2, p),
        "R7": (chain(2, p, q, accepted=one_accept_number(acceptance_probabilities(p, q, 3))), 3, p),
        "R8": (dropped_below(Fraction(1, 5), p, q), 2, p),
        "R9": (chain(1, p, q, replaced=by_place), 2, p),
        "R10": (chain(1, p, q), 2, p),
        "R11": (chain(2, row_before(p), q), 3, p),
        "R16": (chain(1, p, lambda ids: bfloat16(q(ids)), q), 2, p),
        "R18": (chain(1, p, q, accepted=lambda chance, ids, node, edge: edge > 0), 2, p),
        "R20": (draw_per_path(3, p, q), 2, p),
        "R21": (typical(0.09, p, q), 2, p),
        "best-drawn": (best_drawn(2, 1, p, q), 2, p),
        "gate": (chain(2, p, q, row_before(q)), 3, p),
        "pass-temperature": (chain(1, p, q, judging=lambda ids: squared(p(ids))), 2, p),
        "kept-rest": (kept_rest(2, p, q), 3, p),
        "no-bonus": (no_bonus(2, p, q), 3, p),
        "one-hot-residual": (one_hot_residual(p, q), 2, p),
        "rejecting-number": (rejecting_number_again(p, q), 2, p),
        "lenience": (chain(1, p, q, accepted=lambda chance, ids, node, edge: chance.below(min(ONE, edge * 2))), 2, p),
        "row-after-rejected": (row_after_rejected(p, q), 2, p),
        "greedy-bonus": (chain(1, p, q, bonus=certain), 2, p),
        "first-unverified": (chain(2, p, q, accepted=lambda chance, ids, node, edge: not node or chance.below(edge)), 3, p),
        "one-uniform": (chain(2, p, q, accepted=one_number_of_a_round(acceptance_probabilities(p, q, 3))), 3, p),
        "draft-settings": (chain(1, p, q, lambda ids: squared(q(ids))), 2, p),
        "draft-row": (chain(1, p, q, lambda ids: q((1,))), 2, p),
        "penalty-twice": (penalized_twice(2, Fraction(1, 2), p, q), 3, p),
        "no-rollback": (without_rollback(p, q), 2, p),
    }
