"""Where rejected samples part from their reference: the first prefix after which the next tokens differ by themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.audit.reading import FEWEST, Reading
from specviz.errors import EvidenceError
from specviz.evidence.sample_files.reading import Sample
from specviz.evidence.scores import conditional
from specviz.statistics.finding import ALPHA, p_in_words
from specviz.statistics.goodness import chi_square
from specviz.statistics.power import holm
from specviz.statistics.twosample import homogeneity

NO_IDS = (
    "Where they part, and which known mistake they look like, can only be told from token ids, which this server does not give."
)
SLIGHT = 0.05  # a shift below this share of the largest one is not shown
SHOWN = 5  # tokens that gain, and that lose


@dataclass(frozen=True, slots=True)
class Shift:
    """A token after a prefix: how often it was seen there, and its exact probability, or how often the second server wrote it."""

    token: int
    text: str
    seen: float
    exact: float


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the samples part first.

    position  from 1; prefix  the ids before it, after the prompt; n  samples that have the prefix
    p_value   of a test of the tokens after it, corrected for all prefixes (Holm 1979)
    gains     tokens that come too often, most first; loses  too rarely
    whole     whether whole texts are compared, each as one token
    m         samples of the second server that have the prefix; None against weights
    """

    position: int
    prefix: tuple[int, ...]
    text: str
    n: int
    p_value: float
    gains: tuple[Shift, ...]
    loses: tuple[Shift, ...]
    whole: bool = False
    m: int | None = None

    def where(self, reference: str = "exact") -> str:
        """In a sentence. reference: what the second number of a token is."""
        sides = _sides(self.gains, self.loses, reference)
        if self.whole:
            return f"Of {self.n:,} whole texts, {sides}; {p_in_words(self.p_value)}. {NO_IDS}"
        after = f"after \u201c{self.text}\u201d ({self.n:,} samples)" if self.prefix else f"the first of {self.n:,} samples"
        return f"The samples part first at token {self.position}, {after}: {sides}; {p_in_words(self.p_value)}."


def parting(reading: Reading, counts: Any, text: Callable[[Sequence[int]], str]) -> Parting | None:
    """The earliest position at which a prefix shows a difference by itself, and there the prefix that shows it best; None: none does.

    counts  (G, V): tokens seen after each prefix; text  ids -> text
    """
    tested: list[_Tested] = []
    for prefix, seen, p in zip(reading.prefixes, counts, reading.p, strict=True):
        if bool(((p <= 0.0) & (seen > 0.0)).any()):
            tested.append(_Tested(prefix, 0.0, float("inf")))
            continue
        for cells, masses in conditional(seen[None], p[None]):
            found = chi_square(cells, masses)
            tested.append(_Tested(prefix, found.p_value, found.statistic))
    if (first := _first(tested)) is None:
        return None
    prefix, p_value = first
    row = reading.prefixes.index(prefix)
    n = int(counts[row].sum())
    seen, p = (counts[row] / n).tolist(), reading.p[row].tolist()
    gains, loses = _shifts({token: (seen[token], p[token]) for token in range(len(p))}, lambda token: text([token]))
    return Parting(len(prefix) + 1, prefix, text(prefix), n, p_value, gains, loses)


def parting_of_two(first: Sequence[Sample], second: Sequence[Sample]) -> Parting | None:
    """The same for the samples of two servers, by a homogeneity test of the next tokens after each prefix. Without weights tokens are
    shown by their ids; texts are compared whole, each as one token."""
    arms = [[(one,) if isinstance(one, str) else tuple(one) for one in arm] for arm in (first, second)]
    after: dict[tuple[Any, ...], tuple[Counter[Any], Counter[Any]]] = defaultdict(lambda: (Counter(), Counter()))
    for number, arm in enumerate(arms):
        for sample in arm:
            for place, token in enumerate(sample):
                after[sample[:place]][number][token] += 1
    tested = []
    for prefix, counts in after.items():
        if min(one.total() for one in counts) < FEWEST:
            continue
        tokens = sorted(counts[0] | counts[1])
        try:
            found = homogeneity(*([one[token] for token in tokens] for one in counts))
        except EvidenceError:  # nothing that could be tested
            continue
        tested.append(_Tested(prefix, found.p_value, found.statistic))
    if (where := _first(tested)) is None:
        return None
    prefix, p_value = where
    one, two = after[prefix]
    tokens = sorted(one | two)
    whole = isinstance(first[0], str)
    named = dict(enumerate(tokens)) if whole else {token: token for token in tokens}
    shares = {number: (one[token] / one.total(), two[token] / two.total()) for number, token in named.items()}
    gains, loses = _shifts(shares, lambda number: str(named[number]))
    text = " ".join(map(str, prefix))
    return Parting(len(prefix) + 1, prefix, text, one.total(), p_value, gains, loses, whole, two.total())


def parting_of_texts(cells: Sequence[Mapping[str, Any]], p_value: float, text: Callable[[Sequence[int]], str]) -> Parting | None:
    """The whole texts that shift, from the cells of a report (``begins``, ``count``, ``mass``); None if only the pooled cell does."""
    n = sum(cell["count"] for cell in cells)
    shares = {number: (cell["count"] / n, cell["mass"]) for number, cell in enumerate(cells) if cell["begins"]}
    gains, loses = _shifts(shares, lambda number: text(cells[number]["begins"]))
    return Parting(1, (), "", n, p_value, gains, loses, True) if gains or loses else None


@dataclass(frozen=True, slots=True)
class _Tested:
    prefix: tuple[Any, ...]
    p_value: float
    statistic: float


def _first(tested: Sequence[_Tested]) -> tuple[tuple[Any, ...], float] | None:
    """The prefix that parts first, and its corrected p-value: the shortest prefixes, and of these the one that shows it best."""
    if not tested:
        return None
    adjusted = holm([one.p_value for one in tested])
    wrong = [
        (len(one.prefix), p, -one.statistic, number)
        for number, (one, p) in enumerate(zip(tested, adjusted, strict=True))
        if p <= ALPHA
    ]
    if not wrong:
        return None
    _, p_value, _, number = min(wrong)
    return tested[number].prefix, p_value


def _shifts(shares: Mapping[int, tuple[float, float]], text: Callable[[int], str]) -> tuple[tuple[Shift, ...], tuple[Shift, ...]]:
    """Tokens that gain and that lose most. shares: token -> seen and exact."""
    order = sorted(shares, key=lambda token: (shares[token][1] - shares[token][0], token))
    least = SLIGHT * max(abs(seen - exact) for seen, exact in shares.values()) if shares else 0.0
    sides = []
    for part, sign in ((order[:SHOWN], 1), (order[::-1][:SHOWN], -1)):
        kept = [token for token in part if sign * (shares[token][0] - shares[token][1]) >= max(least, 1e-300)]
        sides.append(tuple(Shift(token, text(token), *shares[token]) for token in kept))
    return sides[0], sides[1]


def _sides(gains: Sequence[Shift], loses: Sequence[Shift], reference: str) -> str:
    sides = []
    for name, shifts in (("comes too often", gains[:1]), ("too rarely", loses[:1])):
        sides += [f"\u201c{shift.text}\u201d {name} ({shift.seen:.3f}, {reference} {shift.exact:.3f})" for shift in shifts]
    return ", ".join(sides)
