"""First difference of rejected samples from their reference: the first prefix after which the next tokens differ significantly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specviz.audit.findings.prefix_table import MIN_SAMPLES_PER_PREFIX, PrefixTable
from specviz.errors import EvidenceError
from specviz.evidence.sampling.sample_files import Sample
from specviz.evidence.testing.scores import group_by_prefix
from specviz.records import record_key
from specviz.statistics.finding import ALPHA, format_p_value
from specviz.statistics.goodness import compute_chi_square
from specviz.statistics.power import adjust_p_values
from specviz.statistics.twosample import compute_homogeneity_test

NO_IDS = (
    "Where they part, and which known mistake they look like, can only be told from token ids, which this server does not give."
)
TokenReader = Callable[[Sequence[Any]], str]  # ids -> text
MIN_SHIFT = 0.05  # a shift below this share of the largest one is not shown
MAX_SHIFTS = 5  # tokens that gain, and that lose


@dataclass(frozen=True, slots=True)
class FrequencyShift:
    """A token after a prefix.

    Attributes:
        observed: Share of the samples with the prefix that have the token after it.
        expected: Its probability by the model, or its share on the second server.
    """

    token: int
    text: str
    observed: float = field(metadata=record_key("seen"))
    expected: float = field(metadata=record_key("exact"))


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where the samples part first.

    Attributes:
        position: From 1.
        prefix: The ids before it, after the prompt.
        samples: How many have the prefix.
        p_value: Of a test of the tokens after it, corrected for all prefixes (Holm 1979).
        gains: Tokens that come too often, most first.
        loses: Too rarely.
        is_whole_text: Whether whole texts are compared, each as one token.
        second_samples: Those of the second server that have the prefix; None against weights.
    """

    position: int
    prefix: tuple[int, ...]
    text: str
    samples: int = field(metadata=record_key("n"))
    p_value: float
    gains: tuple[FrequencyShift, ...]
    loses: tuple[FrequencyShift, ...]
    is_whole_text: bool = field(default=False, metadata=record_key("whole"))
    second_samples: int | None = field(default=None, metadata=record_key("m"))

    def describe(self, reference: str = "exact") -> str:
        """In a sentence. reference: what the second number of a token is."""
        sides = _format_sides(self.gains, self.loses, reference)
        if self.is_whole_text:
            return f"Of {self.samples:,} whole texts, {sides}; {format_p_value(self.p_value)}. {NO_IDS}"
        after = (
            f"after \u201c{self.text}\u201d ({self.samples:,} samples)"
            if self.prefix
            else f"the first of {self.samples:,} samples"
        )
        return f"The samples part first at position {self.position}, {after}: {sides}; {format_p_value(self.p_value)}."


def find_first_difference(table: PrefixTable, counts: Any, text: Callable[[Sequence[int]], str]) -> FirstDifference | None:
    """The earliest position at which a prefix shows a difference by itself, and there the prefix that shows it best; None: none does.

    counts: (G, V): tokens seen after each prefix; text: ids -> text.
    """
    tested: list[_PrefixTest] = []
    for prefix, seen, p in zip(table.prefixes, counts, table.p, strict=True):
        if bool(((p <= 0.0) & (seen > 0.0)).any()):
            tested.append(_PrefixTest(prefix, 0.0, float("inf")))
            continue
        for cells, masses in group_by_prefix(seen[None], p[None]):
            found = compute_chi_square(cells, masses)
            tested.append(_PrefixTest(prefix, found.p_value, found.statistic))
    if (first := _find_first_prefix(tested)) is None:
        return None
    prefix, p_value = first
    row = table.prefixes.index(prefix)
    n = int(counts[row].sum())
    seen, p = (counts[row] / n).tolist(), table.p[row].tolist()
    gains, loses = _list_shifts({token: (seen[token], p[token]) for token in range(len(p))}, lambda token: text([token]))
    return FirstDifference(len(prefix) + 1, prefix, text(prefix), n, p_value, gains, loses)


def join_ids(ids: Sequence[Any]) -> str:
    """Tokens by their numbers, where their text is not known."""
    return " ".join(map(str, ids))


def find_first_difference_of_two(
    first: Sequence[Sample], second: Sequence[Sample], read_text: TokenReader = join_ids
) -> FirstDifference | None:
    """The same for the samples of two servers, by a homogeneity test of the next tokens after each prefix.

    Texts are compared whole, each as one token. read_text: of tokens; called for those alone that are shown.
    """
    arms = [[(one,) if isinstance(one, str) else tuple(one) for one in arm] for arm in (first, second)]
    after: dict[tuple[Any, ...], tuple[Counter[Any], Counter[Any]]] = defaultdict(lambda: (Counter(), Counter()))
    for number, arm in enumerate(arms):
        for sample in arm:
            for place, token in enumerate(sample):
                after[sample[:place]][number][token] += 1
    tested = []
    for prefix, counts in after.items():
        if min(one.total() for one in counts) < MIN_SAMPLES_PER_PREFIX:
            continue
        tokens = sorted(counts[0] | counts[1])
        try:
            found = compute_homogeneity_test(*([one[token] for token in tokens] for one in counts))
        except EvidenceError:  # nothing that could be tested
            continue
        tested.append(_PrefixTest(prefix, found.p_value, found.statistic))
    if (where := _find_first_prefix(tested)) is None:
        return None
    prefix, p_value = where
    one, two = after[prefix]
    tokens = sorted(one | two)
    is_whole_text = isinstance(first[0], str)
    named = dict(enumerate(tokens)) if is_whole_text else {token: token for token in tokens}
    shares = {number: (one[token] / one.total(), two[token] / two.total()) for number, token in named.items()}
    read = join_ids if is_whole_text else read_text
    gains, loses = _list_shifts(shares, lambda number: read([named[number]]))
    text = read(prefix) if prefix else ""
    return FirstDifference(len(prefix) + 1, prefix, text, one.total(), p_value, gains, loses, is_whole_text, two.total())


def find_text_difference(
    cells: Sequence[Mapping[str, Any]], p_value: float, text: Callable[[Sequence[int]], str]
) -> FirstDifference | None:
    """The whole texts that shift, from the cells of a report (``begins``, ``count``, ``mass``); None if only the pooled cell does."""
    n = sum(cell["count"] for cell in cells)
    shares = {number: (cell["count"] / n, cell["mass"]) for number, cell in enumerate(cells) if cell["begins"]}
    gains, loses = _list_shifts(shares, lambda number: text(cells[number]["begins"]))
    return FirstDifference(1, (), "", n, p_value, gains, loses, True) if gains or loses else None


@dataclass(frozen=True, slots=True)
class _PrefixTest:
    prefix: tuple[Any, ...]
    p_value: float
    statistic: float


def _find_first_prefix(tested: Sequence[_PrefixTest]) -> tuple[tuple[Any, ...], float] | None:
    """The prefix that parts first, and its corrected p-value: the shortest prefixes, and of these the one that shows it best."""
    if not tested:
        return None
    adjusted = adjust_p_values([one.p_value for one in tested])
    wrong = [
        (len(one.prefix), p, -one.statistic, number)
        for number, (one, p) in enumerate(zip(tested, adjusted, strict=True))
        if p <= ALPHA
    ]
    if not wrong:
        return None
    _, p_value, _, number = min(wrong)
    return tested[number].prefix, p_value


def _list_shifts(
    shares: Mapping[int, tuple[float, float]], text: Callable[[int], str]
) -> tuple[tuple[FrequencyShift, ...], tuple[FrequencyShift, ...]]:
    """Tokens that gain and that lose most. shares: token -> observed and expected."""
    order = sorted(shares, key=lambda token: (shares[token][1] - shares[token][0], token))
    least = MIN_SHIFT * max(abs(observed - expected) for observed, expected in shares.values()) if shares else 0.0
    sides = []
    for part, sign in ((order[:MAX_SHIFTS], 1), (order[::-1][:MAX_SHIFTS], -1)):
        kept = [token for token in part if sign * (shares[token][0] - shares[token][1]) >= max(least, 1e-300)]
        sides.append(tuple(FrequencyShift(token, text(token), *shares[token]) for token in kept))
    return sides[0], sides[1]


def _format_sides(gains: Sequence[FrequencyShift], loses: Sequence[FrequencyShift], reference: str) -> str:
    sides = []
    for name, shifts in (("comes too often", gains[:1]), ("too rarely", loses[:1])):
        sides += [f"\u201c{shift.text}\u201d {name} ({shift.observed:.3f}, {reference} {shift.expected:.3f})" for shift in shifts]
    return ", ".join(sides)
