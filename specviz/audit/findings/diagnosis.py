"""How rejected samples are wrong: where they part from the target's distribution, and which known mistake predicts them best.

Each known mistake (known_mistakes.py) gives every token a probability after every prefix, so the samples have a likelihood under it. The
likeliest one is named if it beats a correct decoder by far, and a goodness-of-fit test says whether it explains all that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.audit.findings.first_difference import FirstDifference, find_first_difference
from specviz.audit.findings.known_mistakes import (
    DRAFT_KINDS,
    SETTINGS,
    TEMPERATURE_FACTORS,
    DraftSchedule,
    EdgeProbabilities,
    FurtherDistributions,
    KnownMistake,
    build_pass_temperature,
    compute_edge_probabilities,
    compute_next_token,
    list_known_mistakes,
    list_schedules,
)
from specviz.audit.findings.other_rows import MAX_PROMPTS, OtherRows, draw_other_rows, read_own_rows
from specviz.audit.findings.prefix_table import (
    PrefixTable,
    build_prefix_table,
    compute_after_rejected,
    compute_distributions,
    compute_kept_rejected,
)
from specviz.audit.findings.temperature_chain import MIXED, fit_temperature_chains
from specviz.decoding.samples import Samples
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.mistakes.registry import drop_warpers
from specviz.evidence.testing.scores import group_by_prefix
from specviz.models.base import LanguageModel
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import record_key, to_json_fields
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA, format_count, format_p_value
from specviz.statistics.goodness import compute_conditional_chi_square

CORRECT_SHARE = 1e-3  # every mistake is mixed with this much of the correct decoder, so that one stray sample refutes none
MIN_PROBABILITY = 1e-300  # in place of a probability of 0
MIN_CELL_COUNT = 5  # times that a token was seen, to be a cell of its own where shares are explained
MIN_EXPLAINED = 0.8  # share of the deviation that a mistake must explain to be named where its fit is not perfect
BEYOND_DOUBT = 30  # power of ten above which a likelihood ratio is not written out
MIN_LOG_RATIO = log(100.0)  # log likelihood ratio from which two mistakes are distinguished
MAX_MATCHES = 5  # mistakes in the list
HALVINGS = 3  # halvings between two temperatures
# The texts of these depend on the draft only through the number of accepted tokens.
DRAFT_INDEPENDENT = ("pass-temperature", "R4", SETTINGS)
NO_DRAFT = "The server's draft is not known here, so only mistakes that hardly depend on it were compared; --draft gives it."


@dataclass(frozen=True, slots=True)
class MistakeMatch:
    """One mistake and the samples.

    Attributes:
        mistake: Its id, or SETTINGS.
        words: The draft, the schedule and what else makes it fit best.
        log10_ratio: Likelihood of the samples over that under a correct decoder, as a power of ten.
        explained: Share of the deviation that is gone if this mistake is taken as the truth, in [0, 1].
        fit: P-value of the samples under it (conditional chi-square); None: not tested.
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
    first_difference: FirstDifference | None = field(metadata=record_key("parting"))
    matches: tuple[MistakeMatch, ...]
    named: tuple[str, ...]
    sentence: str

    def to_record(self) -> dict[str, Any]:
        return to_json_fields(self)


@dataclass(frozen=True, slots=True)
class _ScoredMistake:
    mistake: KnownMistake
    schedule: DraftSchedule
    score: float  # log likelihood ratio (nats) against a correct decoder, less a penalty for parameters that were fitted


def diagnose(
    pair: LoadedPair,
    settings: Settings,
    prompt: Sequence[int],
    samples: Samples,
    total: int,
    drafting: bool = True,
    on_progress: ProgressCallback = ignore_progress,
    other_prompts: Sequence[str] = (),
) -> Diagnosis:
    """Compare all known mistakes on samples that were rejected.

    settings: of the requests; total: tokens that each request asked for (max_tokens); the tokens of a
    sample may be fewer; drafting: whether the pair's draft is the server's; if not, only mistakes are compared that hardly depend
    on it; other_prompts: of other requests that the server answered meanwhile.
    """
    target, draft = pair.open(settings)
    table = build_prefix_table(target, draft, prompt, samples, scale_progress(on_progress, 0.0, 0.4))
    soft_target, soft_draft = pair.open(drop_warpers(settings))
    warped = drop_warpers(settings) != settings
    soft = table.p, table.q
    if warped:
        soft = (
            compute_distributions(soft_target, prompt, table.prefixes),
            compute_distributions(soft_draft, prompt, table.prefixes),
        )
    whole = (
        compute_distributions(pair.open(settings.without_cuts())[1], prompt, table.prefixes)
        if settings.without_cuts() != settings
        else table.q
    )
    on_progress(0.5)
    knows_rejected = drafting and settings.temperature > 0.0
    further = FurtherDistributions(
        soft,
        whole,
        compute_after_rejected(target, prompt, table) if knows_rejected else None,
        compute_kept_rejected(target, prompt, table) if knows_rejected else None,
        frequency_penalty=float(pair.rules.applied.get("frequency_penalty", 0.0)),
        other_rows=_list_other_rows(pair, target, draft, table, other_prompts, settings.seed) if knows_rejected else (),
    )
    found = score_mistakes(table, settings, further, total, drafting, scale_progress(on_progress, 0.5, 1.0))
    diagnosis = build_diagnosis(table, found, pair.decode, drafting)
    return diagnosis if drafting else replace(diagnosis, sentence=f"{diagnosis.sentence} {NO_DRAFT}")


def _list_other_rows(
    pair: LoadedPair, target: LanguageModel, draft: LanguageModel, table: PrefixTable, prompts: Sequence[str], seed: int
) -> list[OtherRows]:
    """The draft's rows of requests that the server answered beside a tested one: after the same prompt, and after others."""
    found = [draw_other_rows(target, draft, one, pair.encode(one), table.length, seed) for one in prompts[:MAX_PROMPTS]]
    return [read_own_rows(table), *found]


def score_mistakes(
    table: PrefixTable,
    settings: Settings,
    further: FurtherDistributions,
    total: int,
    drafting: bool = True,
    on_progress: ProgressCallback = ignore_progress,
) -> list[_ScoredMistake]:
    """Every mistake under every schedule, as far as the samples tell; the temperatures of a verifying pass are fitted too."""
    ways, plans = list_known_mistakes(table, settings, further), list_schedules(table.length, total)
    ways = ways if drafting else [one for one in ways if one.id in DRAFT_INDEPENDENT]
    exact, found = table.gather(table.p), []
    heats: dict[bool, dict[KnownMistake, EdgeProbabilities]] = {False: {}, True: {}}
    for number, one in enumerate(ways):
        edges = EdgeProbabilities.from_mistake(one, table)
        if one.factor is not None:
            heats[one.greedy][one] = edges
        for plan in plans if one.id != SETTINGS else plans[:1]:
            found.append(
                _ScoredMistake(
                    one, plan, compute_log_ratio(compute_edge_probabilities(edges, table, plan)[0], exact, table.count)
                )
            )
        on_progress(number / len(ways))
    for is_greedy, _ in DRAFT_KINDS:
        if mine := heats[is_greedy]:
            found += _refine_temperature([one for one in found if one.mistake in mine], table, settings)
            found += _score_chains(mine, table, plans)
    return found


def compute_log_ratio(written: np.ndarray, exact: np.ndarray, count: np.ndarray) -> float:
    """Log likelihood ratio (nats) of the tokens seen: a decoder that writes them with ``written`` against one that is exact; (E,) each."""
    mixed = (1.0 - CORRECT_SHARE) * written + CORRECT_SHARE * exact
    return float(count @ (np.log(np.maximum(mixed, MIN_PROBABILITY)) - np.log(np.maximum(exact, MIN_PROBABILITY))))


def _refine_temperature(candidates: Sequence[_ScoredMistake], table: PrefixTable, settings: Settings) -> Iterator[_ScoredMistake]:
    """The best temperature of a grid, improved between its neighbors."""
    candidates = [one for one in candidates if one.mistake.factor in TEMPERATURE_FACTORS]
    best = max(candidates, key=lambda one: one.score)
    exact = table.gather(table.p)
    scores = {
        one.mistake.factor: one.score for one in candidates if one.schedule == best.schedule and one.mistake.factor is not None
    }
    for _ in range(HALVINGS):
        grid = sorted(scores)
        place = grid.index(max(scores, key=lambda factor: scores[factor]))
        for low, high in pairwise(grid[max(0, place - 1) : place + 2]):
            one = build_pass_temperature(best.mistake.greedy, middle := sqrt(low * high), settings.temperature)
            ratio = compute_log_ratio(
                compute_edge_probabilities(EdgeProbabilities.from_mistake(one, table), table, best.schedule)[0],
                exact,
                table.count,
            )
            scores[middle] = ratio
            yield _ScoredMistake(one, best.schedule, ratio)


def _score_chains(
    heats: dict[KnownMistake, EdgeProbabilities], table: PrefixTable, plans: Sequence[DraftSchedule]
) -> list[_ScoredMistake]:
    """Each verified token meets a temperature of its own. The score is less the penalty of Schwarz 1978 for the fitted probabilities."""
    found, exact = [], table.gather(table.p)
    for plan, chain in zip(plans, fit_temperature_chains(heats, table, plans), strict=True):
        penalty = chain.num_parameters / 2 * log(max(2, int(table.count.sum())))
        found.append(_ScoredMistake(chain.mistake, plan, compute_log_ratio(chain.written, exact, table.count) - penalty))
    return found


# Sentences --------------------------------------------------------------------------------------------------------------------


def build_diagnosis(
    table: PrefixTable, candidates: Sequence[_ScoredMistake], text: Callable[[Sequence[int]], str], drafting: bool = True
) -> Diagnosis:
    """The diagnosis: where the samples part, the best variant of each mistake, and a sentence.

    text: ids -> text; drafting: whether the pair's draft is the server's.
    """
    counts = torch.stack([table.count_tokens(prefix) for prefix in range(len(table.prefixes))])
    best: dict[str, list[_ScoredMistake]] = {}
    for one in sorted(_drop_loose_chains(candidates, table, counts), key=lambda one: -one.score):
        best.setdefault(one.mistake.id, []).append(one)
    variants = list(best.values())[:MAX_MATCHES]
    plain = [ones for ones in variants if ones[0].mistake.id == SETTINGS and variants[0][0].score - ones[0].score < MIN_LOG_RATIO]
    variants = plain + [
        ones for ones in variants if ones not in plain
    ]  # the simpler explanation first, where the samples do not decide
    first = [ones[0] for ones in variants]
    top = max(one.score for one in first)
    matches = tuple(_build_match(ones, table, counts, top - ones[0].score < MIN_LOG_RATIO, drafting) for ones in variants)
    needed = log(1.0 / ALPHA) + log(max(1, len(candidates)))
    fits = matches[0].fit is not None and matches[0].fit > ALPHA
    sure = top > needed and (fits or matches[0].explained >= MIN_EXPLAINED)
    named = [m for m, one in zip(matches, first, strict=True) if sure and top - one.score < MIN_LOG_RATIO]
    place = find_first_difference(table, counts, text)
    return Diagnosis(
        table.n,
        len(table.prefixes),
        len(candidates),
        place,
        matches,
        tuple(m.mistake for m in named),
        _format_sentence(named, matches),
    )


def _drop_loose_chains(candidates: Sequence[_ScoredMistake], table: PrefixTable, counts: Tensor) -> list[_ScoredMistake]:
    """All but the chains of temperatures that do not fit.

    With so many free numbers a chain explains most of many other mistakes; it is a candidate only where it explains everything.
    """
    return [one for one in candidates if not one.mistake.words.startswith(MIXED) or _compute_fit(one, table, counts) > ALPHA]


def _compute_fit(scored: _ScoredMistake, table: PrefixTable, counts: Tensor) -> float:
    """The p-value of the goodness of fit; 0 where there is nothing to test."""
    splits = list(scored.mistake.model(table))
    mistake = replace(scored.mistake, model=lambda _: splits)
    _, states = compute_edge_probabilities(EdgeProbabilities.from_mistake(mistake, table), table, scored.schedule)
    return compute_goodness_of_fit(compute_next_token(mistake, table, scored.schedule, states), counts) or 0.0


def _build_match(
    variants: Sequence[_ScoredMistake], table: PrefixTable, counts: Tensor, tested: bool, drafting: bool
) -> MistakeMatch:
    """The best variant of one mistake. variants: all of them, best first; tested: whether to test its fit; drafting: as above."""
    scored, one = variants[0], variants[0].mistake
    _, states = compute_edge_probabilities(EdgeProbabilities.from_mistake(one, table), table, scored.schedule)
    probs = compute_next_token(one, table, scored.schedule, states)
    name = PUBLISHED_MISTAKES[one.id].name if one.id in PUBLISHED_MISTAKES else "plain sampling under other settings"
    fit = compute_goodness_of_fit(probs, counts) if tested else None
    return MistakeMatch(
        one.id,
        name,
        _describe_variant(variants, drafting),
        scored.score / log(10.0),
        compute_explained_share(table, counts, probs),
        fit,
    )


def compute_goodness_of_fit(probs: Tensor, counts: Tensor) -> float | None:
    """p-value of the tokens after each prefix under a decoder's distributions, (G, V) each; None where there is nothing to test."""
    if bool(((probs <= 0.0) & (counts > 0.0)).any()):
        return 0.0
    groups = list(group_by_prefix(counts, probs / probs.sum(-1, keepdim=True)))
    return compute_conditional_chi_square(groups).p_value if groups else None


def _describe_variant(variants: Sequence[_ScoredMistake], drafting: bool) -> str:
    """What the samples tell of the draft and of the rounds: only what no other variant of the mistake explains about as well.

    Nothing of a draft that is not known.
    """
    best, parts = variants[0], [variants[0].mistake.words]

    def is_determined(read_value: Callable[[_ScoredMistake], object]) -> bool:
        others = [one for one in variants if read_value(one) != read_value(best)]
        return bool(others) and all(best.score - one.score >= MIN_LOG_RATIO for one in others)

    if best.mistake.id != SETTINGS and drafting:
        if is_determined(lambda one: one.mistake.greedy):
            parts.append("the draft takes its likeliest token" if best.mistake.greedy else "the draft draws its tokens")
        if is_determined(lambda one: one.schedule.gamma):
            parts.append(f"{format_count(best.schedule.gamma, 'draft token')} per round")
        if best.schedule.lead and is_determined(lambda one: one.schedule.lead):
            parts.append("drafting begins at the second token")
    return "; ".join(filter(None, parts))


def compute_explained_share(table: PrefixTable, counts: Tensor, probs: Tensor) -> float:
    """1 - (G - df) / (G0 - df): share of the deviation from the exact distribution that a decoder's distributions take away.

    counts, probs: (G, V): tokens seen after each prefix, and the decoder's distributions there.

    G is the likelihood-ratio statistic with a cell for each token that was seen or expected MIN_CELL_COUNT times after its prefix, and one for all others.
    """
    n = counts.sum(-1, keepdim=True)
    cells = (counts >= MIN_CELL_COUNT) | (n * table.p >= MIN_CELL_COUNT)
    seen, df = _pool_cells(counts, cells), int(cells.sum())
    ratios = [torch.xlogy(seen, seen / (n * _pool_cells(one, cells)).clamp(min=MIN_PROBABILITY)) for one in (table.p, probs)]
    before, left = (max(0.0, 2.0 * float(ratio.sum()) - df) for ratio in ratios)
    return float(np.clip(1.0 - left / before, 0.0, 1.0)) if before > 0.0 else 0.0


def _pool_cells(values: Tensor, cells: Tensor) -> Tensor:
    """(G, V + 1): the values in the cells, 0 outside, and in the last column what lies outside."""
    outside = (values * ~cells).sum(-1, keepdim=True)
    return torch.cat((values * cells, outside), -1)


def _format_sentence(named: Sequence[MistakeMatch], matches: Sequence[MistakeMatch]) -> str:
    if not named:
        nearest = (
            f" The nearest is {_format_match(matches[0])}, which explains {format_share(matches[0].explained)} of the deviation."
            if matches
            else ""
        )
        return f"None of the known mistakes explains these samples.{nearest}"
    first, others = named[0], [m for m in matches if m not in named]
    said = f"Looks like {' or '.join(map(_format_match, named))}: likelihood ratio {format_power_of_ten(first.log10_ratio)} against a correct decoder"
    if others:
        said += f"; the next, {others[0].mistake}, is {format_power_of_ten(first.log10_ratio - others[0].log10_ratio)} times less likely"
    if first.fit is not None and first.fit > ALPHA:
        return f"{said}. It explains all that was seen (goodness of fit, {format_p_value(first.fit)})."
    return f"{said}. It explains {format_share(first.explained)} of the deviation, not all of it."


def _format_match(match: MistakeMatch) -> str:
    if match.mistake == SETTINGS:
        return f"{match.name} ({match.words})"
    return f"{match.mistake}, {match.name}" + (f" ({match.words})" if match.words else "")


def format_share(share: float) -> str:
    """A share that is not all: 74%, over 99%."""
    return "over 99%" if share > 0.99 else f"{share:.0%}"


def format_power_of_ten(exponent: float) -> str:
    """A ratio given by its logarithm: 35, 1e+12; in words where it says no more than certainty."""
    if exponent > BEYOND_DOUBT:
        return f"above 1e+{BEYOND_DOUBT}"
    return f"{10.0**exponent:.2g}" if abs(exponent) < 3 else f"1e{exponent:+.0f}"
