"""Samples that a server wrote in use, from a log: any prompts, any lengths, no requests of our own.

Every logged token is tested against the exact distribution after its own prefix, so texts after different prompts are tested together.
A text may end anywhere, as long as what ended it does not depend on a token that the log leaves out.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from specviz.audit.findings.verdict import describe_speculation
from specviz.audit.protocol.body_fields import find_distribution_fields
from specviz.audit.record import AuditRecord
from specviz.audit.run import AuditReport, check_folder, save_report
from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError, SettingsError
from specviz.evidence.sampling.sample_files import ENDED, LARGEST, LINES, parse_sample_line
from specviz.evidence.sampling.whole_texts import (
    TextScores,
    build_log_answer,
    choose_classes,
    infer_rounds,
    name_places_in_page,
    score_texts,
)
from specviz.evidence.testing.report import seal_report
from specviz.models.pairs.families import find_context
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.settings import Settings, check_number
from specviz.statistics.along_texts import Moments, TokenScores, count_tests, run_tests_along_texts
from specviz.statistics.finding import ALPHA, Finding, format_count
from specviz.statistics.power import correct_level

CHANCE = 1e-6  # two equal texts less probable than this are no chance
MAX_SENTENCES = 20  # sentences on lines that are shown
SETTINGS_READ = {"temperature", "max_tokens", "seed"}  # of a line


@dataclass(frozen=True, slots=True)
class LoggedText:
    """One line. line: its number; ids: tokens of the text, the one that ends it included where it was logged; stop: reason."""

    line: int
    ids: tuple[int, ...]
    stop: str


@dataclass(frozen=True, slots=True)
class SampleLog:
    """The lines of a log that can be tested.

    Attributes:
        groups: (prompt, temperature) -> its texts.
        left_out: Reason -> numbers of the lines that it excludes. No reason depends on what a sampled token is.
    """

    name: str
    sha256: str
    groups: dict[tuple[str, float], list[LoggedText]]
    left_out: dict[str, list[int]]

    @property
    def texts(self) -> int:
        return sum(map(len, self.groups.values()))

    def list_sentences(self) -> list[str]:
        """A sentence for each reason, with the numbers of the first lines."""
        found = []
        for reason, lines in self.left_out.items():
            shown = ", ".join(map(str, lines[:8])) + (", ..." if len(lines) > 8 else "")
            found.append(f"{format_count(len(lines), 'line')} left out ({shown}): {reason.rstrip('.')}.")
        return found[:MAX_SENTENCES]


def read_sample_log(path: Path, temperature: float, vocabulary: int) -> SampleLog:
    """Read a log: JSON lines as in a sample file, where prompt and settings may differ from line to line.

    Args:
        path: Of the file.
        temperature: Of lines that name none.
        vocabulary: Number of ids.

    Raises:
        EvidenceError: The file cannot be read, or no line can be tested.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise EvidenceError(f"'{path.name}' is too large: at most {LARGEST >> 20} MB are read.")
        content = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"'{path}' could not be read ({error.strerror}).") from error
    if content.count(b"\n") > LINES:
        raise EvidenceError(f"'{path.name}' has too many lines: at most {LINES:,} are read.")
    groups: dict[tuple[str, float], list[LoggedText]] = defaultdict(list)
    left_out: dict[str, list[int]] = defaultdict(list)
    seeds = set[tuple[Any, ...]]()
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            sample = parse_sample_line(line, "it")
            heat = _read_temperature(sample, temperature, vocabulary)
        except (EvidenceError, SettingsError) as error:
            left_out[str(error)].append(number)
            continue
        key = sample["prompt"], heat, repr(sample["seed"]), sample["sample"]
        if sample["seed"] is not None and key in seeds:
            left_out["the same seed and text as in an earlier line, so it is the same sample"].append(number)
            continue
        seeds.add(key)
        whole = sample["length"] == len(sample["sample"])
        groups[sample["prompt"], heat].append(LoggedText(number, sample["sample"], sample["stop"] if whole else ""))
    log = SampleLog(path.name, hashlib.sha256(content).hexdigest(), dict(groups), dict(left_out))
    if not log.texts:
        raise EvidenceError(f"'{path.name}' holds no line that can be tested. {' '.join(log.list_sentences())}".strip())
    return log


def _read_temperature(sample: dict[str, Any], temperature: float, vocabulary: int) -> float:
    """The temperature of a line. Raises EvidenceError or SettingsError with the reason why it cannot be tested."""
    if isinstance(sample["sample"], str):
        raise EvidenceError("it holds text without token ids, and other tokens may write the same text. Log the ids")
    if not sample["sample"]:
        raise EvidenceError("it holds no token")
    if not sample["prompt"]:
        raise EvidenceError("its prompt is empty")
    if max(sample["sample"]) >= vocabulary:
        raise EvidenceError(f"it holds an id outside the vocabulary of {vocabulary:,} tokens")
    settings = sample["settings"] or {}
    fields = [name for name in find_distribution_fields(settings) if name not in SETTINGS_READ]
    if fields:
        raise EvidenceError(f"it was sampled with {', '.join(sorted(fields))}, which the exact distribution would need")
    heat = settings.get("temperature", temperature)
    check_number("its temperature", heat, 0.0, 1000.0, "above 0 and at most 1000: greedy text tests nothing here", above=True)
    return float(heat)


def audit_log(
    path: Path,
    settings: Settings,
    folder: Path,
    *,
    min_tv: float,
    has_draft: bool,
    gamma: int | None = None,
    command: Sequence[str] = (),
    on_progress: ProgressCallback = ignore_progress,
    show_line: Callable[[str], None] = lambda line: None,
) -> AuditReport:
    """Test a log against local weights, without a server. Record and report are written to a folder.

    Args:
        path: Of the log.
        settings: Pair, device, number type, seed, and the temperature of lines that name none.
        folder: New, or of an earlier audit.
        min_tv: Gap between distribution functions that must be detected for the verdict "consistent".
        has_draft: Whether the pair's draft is the server's.
        gamma: Draft tokens of a round of the server; None: not known.
        command: Words of the command line.
        on_progress: Called with the share done; may raise to stop.
        show_line: Called with a sentence for each reason why lines are left out.

    Raises:
        SettingsError: The folder holds something else.
        EvidenceError: Nothing can be tested.
    """
    from specviz.models.pairs.loading import load_pair

    check_folder(folder)
    pair = load_pair(settings.pair, settings.device, settings.dtype).without_rules()
    log = read_sample_log(path, settings.temperature, pair.vocabulary)
    for sentence in log.list_sentences():
        show_line(sentence)
    record = report_log(log, settings, pair, min_tv, has_draft=has_draft, gamma=gamma, command=command, on_progress=on_progress)
    report = AuditReport(cast(AuditRecord, record))
    folder.mkdir(parents=True, exist_ok=True)
    save_report(folder, report)
    return report


def report_log(
    log: SampleLog,
    settings: Settings,
    pair: LoadedPair,
    min_tv: float,
    *,
    has_draft: bool,
    gamma: int | None = None,
    command: Sequence[str] = (),
    on_progress: ProgressCallback = ignore_progress,
) -> dict[str, Any]:
    """The sealed report on a log, in the schema of an audit.

    Arguments as for ``audit_log``; pair: without the rules of its generation_config.

    Raises:
        EvidenceError: Texts end without the token that ended them, or equal texts show a log that was written twice.
    """
    scored, places = [], list[dict[str, np.ndarray]]()
    prompts = [pair.encode(prompt) for prompt, _ in log.groups]
    arranged = [arrange_texts(texts, pair, len(ids)) for ids, texts in zip(prompts, log.groups.values(), strict=True)]
    shortest = min(tokens.shape[1] for tokens in arranged)
    members = choose_classes(pair.open(settings)[0], prompts, shortest, pair.eos_token_ids, settings.seed)
    for number, ((prompt, heat), texts) in enumerate(log.groups.items()):
        ids, tokens = prompts[number], arranged[number]
        target, draft = pair.open(replace(settings, prompt=prompt, temperature=heat))
        part = scale_progress(on_progress, number / len(log.groups), (number + 1) / len(log.groups))
        one = score_texts(
            target, draft if has_draft else None, ids, tokens, pair.eos_token_ids, settings.seed + number, part, members
        )
        _refuse_copies(one, tokens, texts, log.name)
        scored.append(one)
        places.append(_list_places(one, len(ids), gamma))
    scores, tokens_read = merge_scores([one.scores for one in scored]), sum(len(one.place) for one in scored)
    weights = {name: np.concatenate([one[name] for one in places]) for name in places[0]}
    level = correct_level(ALPHA, count_tests(len(weights), scores.favored is not None))
    tests = run_tests_along_texts(scores, weights, alpha=level)
    return _build_report(log, tests, settings, pair, min_tv, tokens_read, command)


def arrange_texts(texts: Sequence[LoggedText], pair: LoadedPair, prompt_tokens: int) -> np.ndarray:
    """(N, L) ids of the texts, NONE after their end, as long as the target's context allows. A missing end token is added.

    Raises EvidenceError where it is missing and the model has several.
    """
    context = find_context(pair.target.config)
    room = None if context is None else max(1, context - prompt_tokens)
    rows = []
    for text in texts:
        ids = text.ids
        if text.stop in ENDED and not pair.eos_token_ids & set(ids):
            if len(pair.eos_token_ids) != 1:
                raise EvidenceError(
                    f"Line {text.line} ended by itself, and its last token is missing: this model has {len(pair.eos_token_ids)} tokens that end a "
                    "text, so log the token that did. Without them, texts that end are left out one-sidedly."
                )
            ids = (*ids, *pair.eos_token_ids)
        rows.append(ids[:room])
    tokens = np.full((len(rows), max(map(len, rows))), NONE, dtype=np.int32)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    return tokens


def _refuse_copies(scored: TextScores, tokens: np.ndarray, texts: Sequence[LoggedText], name: str) -> None:
    """Raise EvidenceError where two equal texts are no chance: a cache of answers, or lines that were written twice."""
    ends = np.cumsum(scored.lengths)
    rows, counts = Counter(map(tuple, tokens.tolist())), len(tokens)
    first = dict[tuple[int, ...], int]()
    for row, ids in enumerate(map(tuple, tokens.tolist())):
        if rows[ids] > 1 and ids in first:
            log_probability = scored.scores.log_probability.score[ends[row] - scored.lengths[row] : ends[row]].sum()
            if log_probability + np.log(counts * (counts - 1) / 2) < np.log(CHANCE):
                raise EvidenceError(
                    f"'{name}', lines {texts[first[ids]].line} and {texts[row].line} hold the same text, which is no chance: a cache of answers, or a "
                    "log that was written twice. Each sample must stand there once."
                )
        first.setdefault(ids, row)


def _list_places(scored: TextScores, prompt_tokens: int, gamma: int | None) -> dict[str, np.ndarray]:
    found = name_places_in_page(prompt_tokens, scored.place)
    if gamma and scored.acceptance is not None and scored.greedy is not None:
        found = infer_rounds(scored.acceptance, scored.greedy, scored.lengths.tolist(), gamma).list_places() | found
    return found


def merge_scores(parts: Sequence[TokenScores]) -> TokenScores:
    """The scores of all tokens of several prompts."""

    def join(moments: Sequence[Moments]) -> Moments:
        return Moments(*(np.concatenate(columns) for columns in zip(*moments, strict=True)))

    favored = [one.favored for one in parts if one.favored is not None]
    return TokenScores(
        np.concatenate([one.values for one in parts]),
        np.concatenate([one.impossible for one in parts]),
        join([one.log_probability for one in parts]),
        join([one.likeliest for one in parts]),
        join(favored) if favored else None,
        np.concatenate([one.member for one in parts]),
        np.concatenate([one.class_masses for one in parts]),
    )


def _build_report(
    log: SampleLog,
    tests: Sequence[Finding],
    settings: Settings,
    pair: LoadedPair,
    min_tv: float,
    tokens: int,
    command: Sequence[str],
) -> dict[str, Any]:
    plan = {
        "n": log.texts,
        "prompts": len({prompt for prompt, _ in log.groups}),
        "tokens": tokens,
        "tv": min_tv,
        "alpha": ALPHA,
        "level": tests[0].alpha,
    }
    answer = build_log_answer(tests, plan)
    where = None
    if answer["verdict"] == "rejected":
        strongest = min(tests, key=lambda test: (test.p_value, -abs(test.statistic)))
        where = f"The strongest sign: {strongest.name}. {strongest.note}".strip()
    audit = {
        "command": shlex.join(map(str, command)),
        "speculation": describe_speculation([None]),
        "precision": None,
        "texts": None,
        "where": where,
        "diagnosis": None,
        "reproduction": None,
    }
    files = [{"name": log.name, "sha256": log.sha256, "draws": log.texts, "kind": "tokens", "settings": {}}]
    models = pair.describe() | hash_pair(pair)
    return seal_report(log.name, [answer], " ".join(log.list_sentences()), settings, files, models, audit=audit)
