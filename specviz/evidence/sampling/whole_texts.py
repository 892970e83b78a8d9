"""Whole texts of a file or a log against the exact distribution of every token: tests that see whole rounds of a server, and pages of its cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.samples import NONE
from specviz.evidence.sampling.sample_files import SampleFile, convert_to_samples
from specviz.evidence.testing.report import build_answer_without_cells
from specviz.evidence.testing.scores import find_tokens_after_end
from specviz.models.base import LanguageModel
from specviz.models.continuations import NODES, draw_continuations, limit_rows
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.randomness import Prefix
from specviz.settings import GAMMA_MAX, Settings
from specviz.statistics.along_texts import (
    TRANSFORM,
    Moments,
    TokenScores,
    compute_round_weights,
    count_tests,
    run_tests_along_texts,
)
from specviz.statistics.finding import ALPHA, POWER, Finding, format_count, format_p_value
from specviz.statistics.power import adjust_p_values, correct_level, find_detectable_distance
from specviz.statistics.random_streams import RandomUse, make_generator
from specviz.verification.draft_tree import ROOT, build_token_tree

MAX_TEXTS = 4000  # texts that are read: the first ones
PAGE = 16  # tokens of a page of the cache, the default of most servers
IN_PAGE = " of a page"  # of a test's name
CLASSES = 127  # tokens that are classes of their own: the likeliest ones; tokens that end a text have one more
CLASS_TEXTS, CLASS_TOKENS = 16, 16  # texts that the target writes to find them, and the tokens of each
LOG_FLOOR = log(1e-9)  # log probabilities are cut off here, so that no single token decides
WHOLE_TEXTS, LOGGED = "whole texts", "logged samples"  # modes of the answers
BONUS = "bonus token of a round"
MAX_PLACES = PAGE + 8  # places that a forecast reckons with: a page, and a round of five draft tokens
ROUNDS = {
    "told": "The server showed its rounds.",
    "inferred": "Places in a round of {gamma} draft tokens are inferred from target and draft, which takes more texts than a server that shows its rounds.",
    "unknown": "Places in a round were not tested: neither the server nor --gamma says how long a round is, or the draft is not known.",
    "unbroken": "Places in a round were not tested: the server streamed each text in one piece, which hides its rounds.",
}
CUTS_REASON = (
    "Whole texts were not tested: a cut such as top-p falls on another token where two probabilities are equal up to rounding, and in so many "
    "tokens that happens."
)
NO_IDS = "Whole texts were not tested: the server gives no token ids."


@dataclass(frozen=True, slots=True)
class RoundPlaces:
    """Where the tokens stand in their rounds.

    Attributes:
        weights: (N, gamma + 1) of all tokens, in the order of the texts; the last column is the bonus token.
        after_all, after_rejection: (N,) weights of the first token of a round after a fully accepted one, and after a rejection.
        is_told: Whether the server showed its rounds; else the weights are probabilities.
    """

    weights: np.ndarray
    after_all: np.ndarray
    after_rejection: np.ndarray
    is_told: bool

    @property
    def gamma(self) -> int:
        return self.weights.shape[1] - 1

    def list_places(self) -> dict[str, np.ndarray]:
        """Name -> weights."""
        found = {f"place {k + 1} of a round": self.weights[:, k] for k in range(self.gamma)}
        found[BONUS] = self.weights[:, self.gamma]
        found["first token after a fully accepted round"] = self.after_all
        found["first token after a rejection"] = self.after_rejection
        return found


def name_places_in_page(offset: int, place: np.ndarray) -> dict[str, np.ndarray]:
    """Weights of the tokens at each position of a page of the whole text, prompt included. offset: tokens of the prompt."""
    where = (offset + place) % PAGE
    return {f"position {k + 1}{IN_PAGE}": (where == k).astype(np.float64) for k in range(PAGE)}


def read_reported_rounds(rounds: Sequence[Sequence[int]], lengths: Sequence[int], known_gamma: int | None = None) -> RoundPlaces:
    """Places from the numbers of tokens that each target pass wrote.

    A pass that writes as many tokens as the longest one is taken to be fully accepted. Where a token stands depends on earlier tokens
    alone: a pass ends with its own last token. Where every text begins with a pass of one token, that is the prompt's. A busy server may
    send two passes in one event: tokens beyond a round of ``known_gamma`` draft tokens are at no place.
    """
    gamma = max(1, min(GAMMA_MAX, max((size for text in rounds for size in text), default=1) - 1))
    if known_gamma and gamma > known_gamma + 1:  # by one more, the mean of the counters was rounded down
        gamma = known_gamma
    has_prompt_pass = all(text[0] == 1 for text in rounds if text)
    total = sum(lengths)
    weights, after_all, after_rejection = np.zeros((total, gamma + 1)), np.zeros(total), np.zeros(total)
    begin = 0
    for text, length in zip(rounds, lengths, strict=True):
        at = begin
        for number, size in enumerate(text):
            for k in range(min(size, begin + length - at)):
                if k <= gamma and (number or not has_prompt_pass):
                    weights[at, k] = 1.0
                if k == 0 and number > has_prompt_pass:
                    (after_all if text[number - 1] == gamma + 1 else after_rejection)[at] = 1.0
                at += 1
        begin += length
    return RoundPlaces(weights, after_all, after_rejection, True)


def infer_rounds(
    acceptance: np.ndarray, greedy: np.ndarray, lengths: Sequence[int], gamma: int, accepted_share: float | None = None
) -> RoundPlaces:
    """Places by Bayes' rule, for a draft that draws its tokens or for one that takes its likeliest token.

    acceptance: (N,) min(1, q / p) of each token; greedy: (N,) whether it is the draft's likeliest token; accepted_share: of the server's
    draft tokens, which tells the two apart. None: half of each.
    """
    ends = np.cumsum(lengths)[:-1]
    kinds = [one.astype(np.float64) for one in (acceptance, greedy)]
    both = [compute_round_weights(np.split(one, ends), gamma) for one in kinds]
    weights = (both[0] + both[1]) / 2.0
    if accepted_share is not None:
        expected = [
            float(one[:, :gamma].sum(1) @ kind) / max(1.0, gamma * float(one[:, 0].sum()))
            for one, kind in zip(both, kinds, strict=True)
        ]
        weights = both[int(abs(expected[1] - accepted_share) < abs(expected[0] - accepted_share))]
    first = np.zeros(len(weights), dtype=bool)
    first[np.concatenate(([0], ends)).astype(np.int64)] = True
    shifted = np.vstack((np.zeros((1, gamma + 1)), weights[:-1]))
    after_all = np.where(first, 0.0, shifted[:, gamma])
    return RoundPlaces(weights, after_all, np.where(first, 0.0, np.maximum(0.0, weights[:, 0] - after_all)), False)


@dataclass(frozen=True, slots=True)
class TextScores:
    """Every token of the texts, in turn: scores, and what places are computed from. (N,) each.

    Attributes:
        place: Index in its text.
        acceptance: min(1, q / p) of the token; None without a draft.
        greedy: Whether it is the draft's likeliest token; None without a draft.
        lengths: Tokens of each text.
    """

    scores: TokenScores
    place: np.ndarray
    acceptance: np.ndarray | None
    greedy: np.ndarray | None
    lengths: np.ndarray


def score_texts(
    target: LanguageModel,
    draft: LanguageModel | None,
    prompt: Sequence[int],
    tokens: np.ndarray,
    eos_token_ids: frozenset[int],
    seed: int,
    on_progress: ProgressCallback = ignore_progress,
    members: Tensor | None = None,
) -> TextScores:
    """Score every token of whole texts. tokens: (N, L), NONE after the end. Texts that begin alike share their passes.

    Tokens after an end token have probability 0. members: of ``choose_classes``; None: no token is in a class.
    """
    after_end = find_tokens_after_end(tokens, eos_token_ids)
    lengths = (tokens != NONE).sum(1)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    total = int(starts[-1])
    found = {
        name: np.zeros(total)
        for name in (
            "above",
            "mass",
            "score",
            "mean",
            "variance",
            "third",
            "top",
            "top_mass",
            "favored",
            "favored_mass",
            "share",
            "greedy",
        )
    }
    if members is None:
        members = torch.full((target.vocabulary,), CLASSES + 1)
    member, class_masses = np.zeros(total, dtype=np.int64), np.zeros((total, CLASSES + 1), dtype=np.float32)
    order = np.lexsort(tokens.T[::-1])
    limit, done = limit_rows(NODES, target.vocabulary), 0
    for group, nodes in _group_texts(tokens[order], lengths[order], limit):
        p = _read_tree(target, prompt, nodes)
        q = None if draft is None else _read_tree(draft, prompt, nodes)
        row = np.concatenate([rows for rows in nodes.rows])
        texts = order[group]
        ids = torch.from_numpy(np.concatenate([tokens[text, : lengths[text]] for text in texts]).astype(np.int64))
        where = np.concatenate([np.arange(starts[text], starts[text + 1]) for text in texts])
        _score_group(found, where, torch.from_numpy(row), ids, p, q)
        pi = torch.zeros(len(p), CLASSES + 2, dtype=torch.float64).index_add_(1, members, p)[:, :-1]
        class_masses[where], member[where] = pi[torch.from_numpy(row)].numpy(), members[ids].numpy()
        done += len(texts)
        on_progress(done / len(tokens))
    never = np.concatenate([after_end[text, : lengths[text]] for text in range(len(tokens))])
    found["mass"][never] = 0.0
    uniform = make_generator(seed, RandomUse.WHOLE_TEXTS).random(total)
    moments = Moments(*(found[name] for name in ("score", "mean", "variance", "third")))
    scores = TokenScores(
        found["above"] + uniform * found["mass"],
        found["mass"] <= 0.0,
        moments,
        Moments.of_events(found["top"] > 0.0, np.clip(found["top_mass"], 0.0, 1.0)),
        None if draft is None else Moments.of_events(found["favored"] > 0.0, np.clip(found["favored_mass"], 0.0, 1.0)),
        member,
        class_masses,
    )
    place = np.concatenate([np.arange(length) for length in lengths])
    acceptance, greedy = (None, None) if draft is None else (found["share"], found["greedy"] > 0.0)
    return TextScores(scores, place, acceptance, greedy, lengths)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The prefixes of some texts as one tree. rows: of each text (L,), which distribution each of its tokens follows."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    rows: list[np.ndarray]


def _group_texts(tokens: np.ndarray, lengths: np.ndarray, limit: int) -> Iterator[tuple[slice, _Nodes]]:
    """Texts in lexicographic order, as many at a time as fit into a pass; at least one."""
    begin = 0
    while begin < len(tokens):
        ids: list[int] = []
        parents: list[int] = []
        rows: list[np.ndarray] = []
        path: list[tuple[int, int]] = []
        end = begin
        while end < len(tokens):
            text = tokens[end, : lengths[end] - 1].tolist()  # the last token is only judged
            shared = 0
            while shared < min(len(path), len(text)) and path[shared][0] == text[shared]:
                shared += 1
            if rows and len(ids) + len(text) - shared > limit:
                break
            del path[shared:]
            for token in text[shared:]:
                parents.append(path[-1][1] if path else ROOT)
                path.append((token, len(ids)))
                ids.append(token)
            rows.append(np.array([0, *(node + 1 for _, node in path)], dtype=np.int64))
            end += 1
        yield slice(begin, end), _Nodes(tuple(ids), tuple(parents), rows)
        begin = end


def _read_tree(model: LanguageModel, prompt: Sequence[int], nodes: _Nodes) -> Tensor:
    """(n + 1, V) float64 on the CPU: the distributions after the prompt and after each node, rescaled."""
    row = Prefix(tuple(prompt), 0, len(nodes.tokens) + 1)
    probs = model.compute_distributions([row], build_token_tree([nodes.tokens], [nodes.parents]))[0].cpu()
    return probs / probs.sum(-1, keepdim=True)


def _score_group(scores: dict[str, np.ndarray], where: np.ndarray, row: Tensor, ids: Tensor, p: Tensor, q: Tensor | None) -> None:
    """Write the scores of the tokens at ``where``; token j follows distribution row[j]."""
    mass = p[row, ids]
    mine = p[row]
    scores["mass"][where] = mass.numpy()
    scores["above"][where] = ((mine > mass[:, None]) * mine).sum(-1).numpy()
    # Of tokens that are equally likely, those with a smaller id come first.
    ties = (mine == mass[:, None]) & (torch.arange(p.shape[-1]) < ids[:, None])
    scores["above"][where] += (ties * mine).sum(-1).numpy()
    top_mass, top = p.max(-1)
    scores["top"][where], scores["top_mass"][where] = (top[row] == ids).numpy(), top_mass[row].numpy()
    logs = p.log().clamp(min=LOG_FLOOR)
    mean = (p * logs).sum(-1)
    centered = logs - mean[:, None]
    square = centered**2 * p
    scores["score"][where] = logs[row, ids].numpy()
    scores["mean"][where] = mean[row].numpy()
    scores["variance"][where] = square.sum(-1)[row].numpy()
    scores["third"][where] = (square * centered).sum(-1)[row].numpy()
    if q is None:
        return
    favored = q > p
    scores["favored"][where] = favored[row, ids].numpy()
    scores["favored_mass"][where] = (p * favored).sum(-1)[row].numpy()
    scores["share"][where] = torch.where(mass > 0.0, (q[row, ids] / mass).clamp(max=1.0), 0.0).numpy()
    scores["greedy"][where] = (q.argmax(-1)[row] == ids).numpy()


def choose_classes(
    target: LanguageModel, prompts: Sequence[Sequence[int]], length: int, eos_token_ids: frozenset[int], seed: int
) -> Tensor:
    """(V,) the class of each token, without a look at the tested texts: one for each of the likeliest tokens along texts that the target writes.

    Tokens that end a text share the class CLASSES. All others are in none, CLASSES + 1. length: tokens that may follow each prompt.
    """
    dice, often = make_generator(seed, RandomUse.CLASSES), torch.zeros(target.vocabulary, dtype=torch.float64)
    chosen = list(prompts)[:CLASS_TEXTS]
    for prompt in chosen:
        _, probs, times = draw_continuations(target, prompt, max(1, CLASS_TEXTS // len(chosen)), min(length, CLASS_TOKENS), dice)
        often += torch.from_numpy(times).double() @ probs
    ends = torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
    often[ends] = -1.0
    likeliest = often.topk(min(CLASSES, target.vocabulary)).indices
    members = torch.full((target.vocabulary,), CLASSES + 1)
    members[likeliest] = torch.arange(len(likeliest))
    members[ends] = CLASSES
    return members


# The test ----------------------------------------------------------------------------------------------------------------------


def explain_no_test(file: SampleFile, settings: Settings) -> str:
    """Why whole texts cannot be tested; '' where they can."""
    if not file.tokens:
        return NO_IDS
    return CUTS_REASON if settings.cuts or settings.temperature == 0.0 else ""


def run_whole_text_tests(
    file: SampleFile,
    settings: Settings,
    pair: LoadedPair,
    *,
    gamma: int | None = None,
    accepted_share: float | None = None,
    has_draft: bool = True,
    alpha: float = ALPHA,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[str, Any]:
    """Test the first MAX_TEXTS samples of a file, token by token. Returns an answer of a report, JSON-ready, without cells.

    Args:
        file: With token ids.
        settings: Of the requests; ``max_new_tokens`` are the tokens that each asked for.
        pair: The reference.
        gamma: Draft tokens of a round, where the server tells or the user says; None: not known.
        accepted_share: Of the server's draft tokens, where it counts them.
        has_draft: Whether the pair's draft is the server's.
        alpha: False-alarm rate of all tests together.
        on_progress: Called with the share done; may raise to stop.

    Raises:
        EvidenceError: As ``convert_to_samples``.
    """
    assert not explain_no_test(file, settings)
    samples = convert_to_samples(file, settings, pair.vocabulary, pair.eos_token_ids).slice_samples(0, MAX_TEXTS)
    target, draft = pair.open(settings)
    prompt = pair.encode(settings.prompt)
    members = choose_classes(target, [prompt], samples.tokens.shape[1], pair.eos_token_ids, settings.seed)
    scored = score_texts(
        target, draft if has_draft else None, prompt, samples.tokens, pair.eos_token_ids, settings.seed, on_progress, members
    )
    reported = file.rounds[: len(samples)]
    rounds = None
    is_unbroken = bool(reported) and not gamma and max(map(len, reported)) <= 1 < max(map(sum, reported))
    if reported and not is_unbroken:
        rounds = read_reported_rounds(reported, scored.lengths.tolist(), gamma)
    elif gamma and scored.acceptance is not None and scored.greedy is not None:
        rounds = infer_rounds(scored.acceptance, scored.greedy, scored.lengths.tolist(), gamma, accepted_share)
    places = (rounds.list_places() if rounds else {}) | name_places_in_page(len(prompt), scored.place)
    level = correct_level(alpha, count_tests(len(places), scored.scores.favored is not None))
    plan = {
        "texts": len(samples),
        "tokens": len(scored.place),
        "max_tokens": settings.max_new_tokens,
        "gamma": rounds.gamma if rounds else gamma,
        "rounds": ("unbroken" if is_unbroken else "unknown") if rounds is None else "told" if rounds.is_told else "inferred",
        "alpha": alpha,
        "level": level,
    }
    return build_whole_text_answer(run_tests_along_texts(scored.scores, places, alpha=level), plan)


def build_whole_text_answer(tests: Sequence[Finding], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a report, from the findings and the plan."""
    adjusted = adjust_p_values([test.p_value for test in tests])
    verdict = "rejected" if min(adjusted) <= plan["alpha"] else "consistent"
    pooled = next((test.detectable_tv for test in tests if test.detectable_tv is not None), None)
    sentence, seen = _describe_answer(tests, adjusted, verdict, plan), 1.0 if pooled is None else pooled
    return build_answer_without_cells(WHOLE_TEXTS, plan["texts"], verdict, sentence, tests, seen, plan)


def _describe_answer(tests: Sequence[Finding], adjusted: Sequence[float], verdict: str, plan: Mapping[str, Any]) -> str:
    """The result in words: which tests reject and where, or what they would have detected."""
    read = f"{plan['texts']:,} whole texts ({plan['tokens']:,} tokens, each against its own distribution)"
    if verdict == "rejected":
        worst = sorted(zip(adjusted, tests, strict=True), key=lambda one: (one[0], -abs(one[1].statistic)))
        p, first = worst[0]
        others = [test.name for value, test in worst[1:4] if value <= plan["alpha"]]
        also = f" Also rejected: {'; '.join(others)}." if others else ""
        return f"Rejected: {read} do not follow the target's distribution ({first.name}, {format_p_value(p)} after correction).{also}"
    gaps = {test.name.removesuffix(f": {TRANSFORM}"): test.detectable_tv for test in tests if test.detectable_tv is not None}
    page = [gap for name, gap in gaps.items() if name.endswith(IN_PAGE)]
    said = [f"{gaps['all tokens']:.2g} over all tokens"] if "all tokens" in gaps else []
    said += [f"{max(page):.2g} at one position of a page of {PAGE} tokens"] if page else []
    said += [f"{gaps[BONUS]:.2g} at the bonus token"] if BONUS in gaps else []
    detects = (
        f" A gap in the order of probability of {', of '.join(said)} would have shown with power {POWER:.0%}." if said else ""
    )
    return f"Consistent: {read}.{detects} {ROUNDS[plan['rounds']].format(gamma=plan['gamma'])}"


def build_log_answer(tests: Sequence[Finding], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a report on logged samples, from the findings and the plan.

    Args:
        tests: Of all tokens.
        plan: n: texts; prompts; tokens; tv: gap between distribution functions that must be detected; alpha; level: of each test.
    """
    adjusted = adjust_p_values([test.p_value for test in tests])
    gap = next((test.detectable_tv for test in tests if test.name.startswith("all tokens") and test.detectable_tv), None) or 1.0
    read = f"{format_count(plan['n'], 'logged text')} of {format_count(plan['prompts'], 'prompt')}, {plan['tokens']:,} tokens,"
    detected = f"a gap of {gap:.2g} in the order of probability over all tokens"
    if min(adjusted) <= plan["alpha"]:
        p, test = min(zip(adjusted, tests, strict=True), key=lambda one: (one[0], -abs(one[1].statistic)))
        verdict, sentence = (
            "rejected",
            (
                f"Rejected: {read} do not follow the target's distribution ({test.name}, {format_p_value(p)} after correction for "
                f"{len(tests)} tests)."
            ),
        )
    elif gap <= plan["tv"]:
        verdict, sentence = (
            "consistent",
            f"Consistent with the target's distribution: {read} would have shown {detected} with power {POWER:.0%}.",
        )
    else:
        verdict, sentence = "too few samples", f"Too few samples: {read} can detect {detected}; {plan['tv']:g} is asked for."
    return build_answer_without_cells(LOGGED, plan["n"], verdict, sentence, tests, gap, plan)


def describe_text_power(texts: int, max_tokens: int, share: float, alpha: float = ALPHA) -> str:
    """What so many texts detect, known before the first request. share: of all tokens, those at the place of a fault."""
    level = correct_level(alpha, count_tests(MAX_PLACES, True))
    gap = find_detectable_distance(max(1, int(texts * max_tokens * share)), level)
    return (
        f"{texts:,} whole texts of {max_tokens} tokens detect a gap of {gap:.2g} in the order of probability at places that hold "
        f"{share:.0%} of the tokens, with power {POWER:.0%}."
    )
