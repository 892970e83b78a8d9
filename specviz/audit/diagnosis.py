"""How rejected samples are wrong: where they part from the target's distribution, and which known mistake predicts them best.

Each known mistake (known.py) gives every token a probability after every prefix, so the samples have a likelihood under it. The
likeliest one is named if it beats a correct decoder by far, and a goodness-of-fit test says whether it explains all that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.audit.known import (
    DRAFTS,
    SETTINGS,
    Edges,
    Known,
    Next,
    Schedule,
    heated,
    known,
    next_token,
    probabilities,
    schedules,
)
from specviz.audit.reading import Reading, after, read
from specviz.decoding.samples import Samples
from specviz.evidence.mutants.builders import uncut, unwarped
from specviz.evidence.mutants.mistakes import MISTAKES
from specviz.evidence.scores import conditional
from specviz.models.pairs.pair import LoadedPair
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA, p_in_words, plural
from specviz.statistics.goodness import chi_square, conditional_chi_square
from specviz.statistics.power import holm

STRAY = 1e-3  # every mistake is mixed with this much of the correct decoder, so that one stray sample refutes none
TINY = 1e-300  # in place of a probability of 0
OFTEN = 5  # times that a token was seen, to be a cell of its own where shares are explained
MOSTLY = 0.8  # share of the deviation that a mistake must explain to be named where its fit is not perfect
APART = log(100.0)  # log likelihood ratio at which two mistakes are told apart
SLIGHT = 0.05  # a shift below this share of the largest one is not shown
SHOWN, LISTED = 5, 5  # tokens that gain and that lose; mistakes in the list
REFINED, FITTED = 3, 30  # halvings between two temperatures; rounds of expectation maximization
DRAFTLESS = (
    "pass-temperature",
    "R4",
    SETTINGS,
)  # what they write depends on the draft only through the number of accepted tokens
NO_DRAFT = "The server's draft is not known here, so only mistakes that hardly depend on it were compared; --draft gives it."
MIXED = "a temperature of its own for each verified token"


@dataclass(frozen=True, slots=True)
class Shift:
    """A token after a prefix: how often it was seen there, and its exact probability."""

    token: int
    text: str
    seen: float
    exact: float


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the samples part first.

    position  from 1; prefix  the ids before it, after the prompt; n  samples that have the prefix
    p_value   of a chi-square test of the tokens after it, corrected for all prefixes (Holm 1979)
    gains     tokens that come too often, most first; loses  too rarely
    """

    position: int
    prefix: tuple[int, ...]
    text: str
    n: int
    p_value: float
    gains: tuple[Shift, ...]
    loses: tuple[Shift, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """One mistake and the samples.

    mistake     its id, or SETTINGS; name  in words; words  the draft, the schedule and what else makes it fit best
    log10_ratio likelihood of the samples over that under a correct decoder, as a power of ten
    explained   share of the deviation that is gone if this mistake is taken as the truth, in [0, 1]
    fit         p-value of the samples under it (conditional chi-square); None: not tested
    """

    mistake: str
    name: str
    words: str
    log10_ratio: float
    explained: float
    fit: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """samples, prefixes, compared: how many samples and prefixes were read, and how many decoders were compared; matches: best first."""

    samples: int
    prefixes: int
    compared: int
    parting: Parting | None
    matches: tuple[Match, ...]
    named: tuple[str, ...]
    sentence: str

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Scored:
    one: Known
    schedule: Schedule
    score: float  # log likelihood ratio (nats) against a correct decoder, less a penalty for parameters that were fitted


def diagnose(
    pair: LoadedPair,
    settings: Settings,
    prompt: Sequence[int],
    samples: Samples,
    total: int,
    drafting: bool = True,
    watch: Callable[[float], None] = lambda share: None,
) -> Diagnosis:
    """Compare all known mistakes on samples that were rejected.

    settings  under which the samples were asked for
    total     tokens that each request asked for (max_tokens); the tokens of a sample may be fewer
    drafting  whether the pair's draft is the server's; if not, only mistakes are compared that hardly depend on it
    """
    target, draft = pair.open(settings)
    reading = read(target, draft, prompt, samples, lambda share: watch(0.4 * share))
    soft_target, soft_draft = pair.open(unwarped(settings))
    warped = unwarped(settings) != settings
    soft = (
        tuple(after(model, prompt, reading.prefixes) for model in (soft_target, soft_draft)) if warped else (reading.p, reading.q)
    )
    whole = after(pair.open(uncut(settings))[1], prompt, reading.prefixes) if uncut(settings) != settings else reading.q
    watch(0.5)
    found = compared(reading, settings, (soft[0], soft[1]), whole, total, drafting, lambda share: watch(0.5 + 0.5 * share))
    diagnosis = told(reading, found, pair.decode)
    return diagnosis if drafting else replace(diagnosis, sentence=f"{diagnosis.sentence} {NO_DRAFT}")


def compared(
    reading: Reading,
    settings: Settings,
    soft: tuple[Tensor, Tensor],
    whole: Tensor,
    total: int,
    drafting: bool = True,
    watch: Callable[[float], None] = lambda share: None,
) -> list[_Scored]:
    """Every mistake under every schedule, as far as the samples tell; the temperatures of a verifying pass are fitted too."""
    ways, plans = known(reading, settings, soft, whole), schedules(reading.length, total)
    ways = ways if drafting else [one for one in ways if one.mistake in DRAFTLESS]
    exact, found = reading.at(reading.p), []
    heats: dict[bool, dict[Known, Edges]] = {False: {}, True: {}}
    for number, one in enumerate(ways):
        edges = Edges.of(one, reading)
        if one.factor is not None:
            heats[one.greedy][one] = edges
        for plan in plans if one.mistake != SETTINGS else plans[:1]:
            found.append(_Scored(one, plan, log_ratio(probabilities(edges, reading, plan)[0], exact, reading.count)))
        watch(number / len(ways))
    for sure, _ in DRAFTS:
        if mine := heats[sure]:
            found += _refined([one for one in found if one.one in mine], reading, settings)
            found += [_mixture(mine, reading, plan) for plan in plans]
    return found


def log_ratio(written: np.ndarray, exact: np.ndarray, count: np.ndarray) -> float:
    """Log likelihood ratio (nats) of the tokens seen: a decoder that writes them with ``written`` against one that is exact; (E,) each."""
    mixed = (1.0 - STRAY) * written + STRAY * exact
    return float(count @ (np.log(np.maximum(mixed, TINY)) - np.log(np.maximum(exact, TINY))))


def _refined(found: Sequence[_Scored], reading: Reading, settings: Settings) -> Iterator[_Scored]:
    """The best temperature of a grid, improved between its neighbors."""
    best = max((one for one in found if one.one.factor), key=lambda one: one.score)
    exact = reading.at(reading.p)
    scores = {one.one.factor: one.score for one in found if one.schedule == best.schedule and one.one.factor}
    for _ in range(REFINED):
        grid = sorted(scores)
        place = grid.index(max(scores, key=lambda factor: scores[factor]))
        for low, high in pairwise(grid[max(0, place - 1) : place + 2]):
            one = heated(best.one.greedy, sqrt(low * high), settings.temperature)
            ratio = log_ratio(probabilities(Edges.of(one, reading), reading, best.schedule)[0], exact, reading.count)
            scores[one.factor] = ratio
            yield _Scored(one, best.schedule, ratio)


def _mixture(heats: dict[Known, Edges], reading: Reading, plan: Schedule) -> _Scored:
    """Each verified token meets a temperature of its own: how often which, by expectation maximization (Dempster et al. 1977)."""
    ways = list(heats)
    accepted, last = (np.stack([getattr(heats[one], name)[0] for one in ways]) for name in ("accepted", "last"))
    exact, weights = reading.at(reading.p), np.full(len(ways), 1.0 / len(ways))
    drafting = plan.drafting(reading.length)[reading.place][reading.edge]
    written = exact
    for _ in range(FITTED):
        edges = Edges((weights @ accepted)[None], (weights @ last)[None], exact)
        written, states = probabilities(edges, reading, plan)
        judging = (states[0][reading.edge] * drafting).sum(-1)
        shares = reading.count * judging / np.maximum(written, TINY)
        grown = weights * ((accepted + last) @ shares)
        if not grown.sum() > 0.0:
            break
        weights = grown / grown.sum()
    heavy = sorted(((w, one) for w, one in zip(weights.tolist(), ways, strict=True) if w >= 0.05), key=lambda pair: -pair[0])
    temperatures = ", ".join(f"{one.words.removeprefix('temperature ')} ({w:.0%})" for w, one in heavy)

    def way(reading: Reading) -> list[Next]:
        parts = [(w, part) for w, one in zip(weights.tolist(), ways, strict=True) if w > 0.0 for part in one.way(reading)]
        return [Next(sum(w * part.accepted for w, part in parts), sum(w * part.last for w, part in parts), reading.p)]

    one = Known("pass-temperature", ways[0].greedy, way, words=f"{MIXED}: {temperatures}")
    penalty = (len(ways) - 1) / 2 * log(max(2, int(reading.count.sum())))  # Schwarz 1978
    return _Scored(one, plan, log_ratio(written, exact, reading.count) - penalty)


# What is said -----------------------------------------------------------------------------------------------------------------


def told(reading: Reading, found: Sequence[_Scored], text: Callable[[Sequence[int]], str]) -> Diagnosis:
    """The diagnosis: where the samples part, the best variant of each mistake, and a sentence. text: ids -> text."""
    best: dict[str, list[_Scored]] = {}
    for one in sorted(found, key=lambda one: -one.score):
        best.setdefault(one.one.mistake, []).append(one)
    counts = torch.stack([reading.counts(prefix) for prefix in range(len(reading.prefixes))])
    variants = list(best.values())[:LISTED]
    plain = [ones for ones in variants if ones[0].one.mistake == SETTINGS and variants[0][0].score - ones[0].score < APART]
    variants = plain + [ones for ones in variants if ones not in plain]  # the simpler explanation first, where no sample tells
    first = [ones[0] for ones in variants]
    top = max(one.score for one in first)
    matches = tuple(_match(ones, reading, counts, top - ones[0].score < APART) for ones in variants)
    needed = log(1.0 / ALPHA) + log(max(1, len(found)))
    fits = matches[0].fit is not None and matches[0].fit > ALPHA
    sure = top > needed and (fits or matches[0].explained >= MOSTLY)
    named = [m for m, one in zip(matches, first, strict=True) if sure and top - one.score < APART]
    place = parting(reading, counts, text)
    return Diagnosis(
        reading.n, len(reading.prefixes), len(found), place, matches, tuple(m.mistake for m in named), _sentence(named, matches)
    )


def _match(variants: Sequence[_Scored], reading: Reading, counts: Tensor, tested: bool) -> Match:
    """The best variant of one mistake. variants: all of them, best first; tested: whether its fit is asked for."""
    scored, one = variants[0], variants[0].one
    written, states = probabilities(Edges.of(one, reading), reading, scored.schedule)
    name = MISTAKES[one.mistake].name if one.mistake in MISTAKES else "plain sampling under other settings"
    fit = goodness(next_token(one, reading, scored.schedule, states), counts) if tested else None
    return Match(one.mistake, name, _particulars(variants), scored.score / log(10.0), explained(reading, written), fit)


def goodness(probs: Tensor, counts: Tensor) -> float | None:
    """p-value of the tokens after each prefix under a decoder's distributions, (G, V) each; None where there is nothing to test."""
    if bool(((probs <= 0.0) & (counts > 0.0)).any()):
        return 0.0
    groups = list(conditional(counts, probs / probs.sum(-1, keepdim=True)))
    return conditional_chi_square(groups).p_value if groups else None


def _particulars(variants: Sequence[_Scored]) -> str:
    """What the samples tell of the draft and of the rounds: only what no other variant of the mistake explains about as well."""
    best, parts = variants[0], [variants[0].one.words]

    def tells(what: Callable[[_Scored], object]) -> bool:
        others = [one for one in variants if what(one) != what(best)]
        return bool(others) and all(best.score - one.score >= APART for one in others)

    if best.one.mistake != SETTINGS:
        if tells(lambda one: one.one.greedy):
            parts.append("the draft takes its likeliest token" if best.one.greedy else "the draft draws its tokens")
        if tells(lambda one: one.schedule.gamma):
            parts.append(f"{plural(best.schedule.gamma, 'draft token')} per round")
        if best.schedule.lead and tells(lambda one: one.schedule.lead):
            parts.append("drafting begins at the second token")
    return "; ".join(filter(None, parts))


def explained(reading: Reading, written: np.ndarray) -> float:
    """1 - (G - df) / (G0 - df): share of the deviation from the exact distribution that a decoder's probabilities (E,) take away.

    G is the likelihood-ratio statistic with a cell for each token that was seen OFTEN after its prefix, and one for all others.
    """
    deviations = []
    for probs in (reading.at(reading.p), written):
        statistic, df = 0.0, 0
        for prefix in range(len(reading.prefixes)):
            mine = (reading.edge == prefix) & (reading.count >= OFTEN)
            n = int(reading.count[reading.edge == prefix].sum())
            seen, masses = reading.count[mine].astype(float), probs[mine]
            seen, masses = np.append(seen, n - seen.sum()), np.append(masses, max(TINY, 1.0 - masses.sum()))
            there = seen > 0.0
            statistic += 2.0 * float(seen[there] @ np.log(seen[there] / (n * np.maximum(masses[there], TINY))))
            df += max(0, len(seen) - 1)
        deviations.append(max(0.0, statistic - df))
    return float(np.clip(1.0 - deviations[1] / deviations[0], 0.0, 1.0)) if deviations[0] > 0.0 else 0.0


def parting(reading: Reading, counts: Tensor, text: Callable[[Sequence[int]], str]) -> Parting | None:
    """The earliest position at which a prefix shows a difference by itself, and there the prefix that shows it best; None: none does."""
    tested: list[tuple[int, float, float]] = []
    for prefix, (seen, p) in enumerate(zip(counts, reading.p, strict=True)):
        if bool(((p <= 0.0) & (seen > 0.0)).any()):
            tested.append((prefix, 0.0, float("inf")))
            continue
        for cells, masses in conditional(seen[None], p[None]):
            found = chi_square(cells, masses)
            tested.append((prefix, found.p_value, found.statistic))
    if not tested:
        return None
    adjusted = holm([p_value for _, p_value, _ in tested])
    seen_at = [
        (len(reading.prefixes[prefix]), p, -statistic, prefix) for (prefix, _, statistic), p in zip(tested, adjusted, strict=True)
    ]
    wrong = sorted(one for one in seen_at if one[1] <= ALPHA)
    if not wrong:
        return None
    place, p_value, _, prefix = wrong[0]
    n = int(counts[prefix].sum())
    seen, p = counts[prefix] / n, reading.p[prefix]
    order = (seen - p).argsort(descending=True, stable=True).tolist()
    shifts = [
        Shift(token, text([token]), float(seen[token]), float(p[token])) for token in (*order[:SHOWN], *order[: -SHOWN - 1 : -1])
    ]
    ids = reading.prefixes[prefix]
    least = SLIGHT * max(abs(one.seen - one.exact) for one in shifts)
    gains, loses = (
        tuple(s for s in part if sign * (s.seen - s.exact) >= least) for part, sign in ((shifts[:SHOWN], 1), (shifts[SHOWN:], -1))
    )
    return Parting(place + 1, ids, text(ids), n, p_value, gains, loses)


def _sentence(named: Sequence[Match], matches: Sequence[Match]) -> str:
    if not named:
        nearest = (
            f" The nearest is {_called(matches[0])}, which explains {matches[0].explained:.0%} of the deviation."
            if matches
            else ""
        )
        return f"None of the known mistakes explains these samples.{nearest}"
    first, others = named[0], [m for m in matches if m not in named]
    said = f"Looks like {' or '.join(map(_called, named))}: likelihood ratio {power_of_ten(first.log10_ratio)} against a correct decoder"
    if others:
        said += f"; the next, {others[0].mistake}, is {power_of_ten(first.log10_ratio - others[0].log10_ratio)} times less likely"
    if first.fit is not None and first.fit > ALPHA:
        return f"{said}. It explains all that was seen (goodness of fit, {p_in_words(first.fit)})."
    return f"{said}. It explains {first.explained:.0%} of the deviation, not all of it."


def _called(match: Match) -> str:
    if match.mistake == SETTINGS:
        return f"{match.name} ({match.words})"
    return f"{match.mistake}, {match.name}" + (f" ({match.words})" if match.words else "")


def power_of_ten(exponent: float) -> str:
    """A ratio given by its logarithm: 35, 1e+12, 1e+3456."""
    return f"{10.0**exponent:.2g}" if abs(exponent) < 3 else f"1e{exponent:+.0f}"
