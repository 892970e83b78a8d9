"""Samples of any server in a file with one JSON object per line: {"prompt": str, "tokens": [ids] or "text": str, "stop": reason}.

A line may also hold ``settings``, an object that must be equal in every line except for its seed. Other keys are ignored. Text
without ids is compared as text and never tokenized, because other tokens may have written the same text. Reports compare one file
with the exact distribution of a pair's target, or two files with each other without any weights.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from specviz.decoding.samples import NONE, Samples
from specviz.errors import MAX_SHOWN, EvidenceError, SettingsError
from specviz.evidence.decoder import TARGET, build_decoder
from specviz.evidence.sampling.session import Session
from specviz.evidence.testing.hypothesis_tests import TestPlan
from specviz.evidence.testing.report import build_answer_without_cells, seal_report
from specviz.evidence.testing.scores import find_tokens_after_end, score_samples
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import refuse_constant
from specviz.settings import SAMPLING_FIELDS, Settings
from specviz.statistics.finding import ALPHA, POWER, Finding, format_count, format_p_value
from specviz.statistics.power import adjust_p_values, correct_level, count_draws_needed
from specviz.statistics.twosample import MOST, compute_homogeneity_test, compute_permutation_test

LARGEST = 200 * 2**20  # bytes of a file
LINES = 2_000_000  # of a file, blank ones included: each costs memory many times its length
LINE = 2**20  # bytes of a line: JSON in memory is up to forty times as long
DEPTH, SETTINGS_MAX = 8, 16_384  # levels of the settings of a line, and their characters
TOKENS_MAX, TEXT_MAX = 256, 4096  # tokens or characters of a sample that are read; the rest is ignored
HIGHEST_ID = 2**31 - 1
ENDED = ("stop", "eos", "eos_token", "end", "end_turn")  # stop reasons that mean: the text ended by itself
STRIDE = 2_000  # lines between two reports of progress
FEWEST = 20  # fewest samples to compare with a distribution
CHANCE = 1e-6  # a repetition less probable than this is not chance

Sample = tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class SampleFile:
    """The samples of one file."""

    name: str
    prompt: str
    samples: tuple[Sample, ...]  # tuples of ids, or texts; at most TOKENS_MAX and TEXT_MAX long
    lengths: tuple[int, ...]  # tokens (characters) of each sample as it was written
    stop_reasons: tuple[str, ...]  # stop reason of each; '' if there is none
    lines: tuple[int, ...]  # line number of each, for error messages
    settings: dict[str, Any]  # sampling settings named in the file, without the seed
    sha256: str
    # tokens that each target pass of a sample wrote, where every line says it; else empty
    rounds: tuple[tuple[int, ...], ...] = ()

    @property
    def tokens(self) -> bool:
        """Whether the samples are token ids rather than text."""
        return not isinstance(self.samples[0], str)

    def describe(self) -> dict[str, Any]:
        """The file's entry in a report."""
        kind = "tokens" if self.tokens else "text"
        return {"name": self.name, "sha256": self.sha256, "draws": len(self.samples), "kind": kind, "settings": self.settings}


def read_samples(path: Path) -> SampleFile:
    """Read the samples of a file. Raises EvidenceError with the number of the line that cannot be used."""
    try:
        if path.is_file() and path.stat().st_size > LARGEST:
            raise EvidenceError(f"'{path.name}' is too large: at most {LARGEST >> 20} MB are read.")
        with path.open("rb") as file:
            return parse_samples(file.read(LARGEST + 1), path.name)
    except OSError as error:
        raise EvidenceError(f"'{path}' could not be read ({error.strerror}).") from error


def parse_samples(content: bytes, name: str, on_progress: ProgressCallback = ignore_progress) -> SampleFile:
    """Read samples from bytes, such as an upload. on_progress: called with the fraction read, in [0, 1]. Raises as ``read``."""
    if len(content) > LARGEST:
        raise EvidenceError(f"'{name}' is too large: at most {LARGEST >> 20} MB are read.")
    found: list[tuple[int, dict[str, Any]]] = []
    first: dict[str, Any] | None = None
    if content.count(b"\n") > LINES:
        raise EvidenceError(f"'{name}' has too many lines: at most {LINES:,} are read.")
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not number % STRIDE:
            on_progress(number / len(lines))
        if not line.strip():
            continue
        sample = parse_sample_line(line, f"'{name}', line {number}")
        first = first or sample
        _check_same_kind(first, sample, f"'{name}', line {number}")
        found.append((number, sample))
    if first is None:
        raise EvidenceError(f"'{name}' holds no samples.")
    samples, lengths, stops = (tuple(sample[key] for _, sample in found) for key in ("sample", "length", "stop"))
    numbers, digest = tuple(number for number, _ in found), hashlib.sha256(content).hexdigest()
    every = [sample["rounds"] for _, sample in found]
    rounds = tuple(map(tuple, every)) if all(every) and max(lengths) <= TOKENS_MAX else ()
    return SampleFile(name, first["prompt"], samples, lengths, stops, numbers, first["settings"] or {}, digest, rounds)


def parse_sample_line(line: bytes, where: str) -> dict[str, Any]:
    """Prompt, sample, length, stop reason, settings without the seed, and the seed of a line. Raises EvidenceError; where: for its sentence."""
    if len(line) > LINE:
        raise EvidenceError(f"{where} is too long: {len(line):,} bytes, at most {LINE:,} are read.")
    try:
        record = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_reject_duplicate_keys, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # Python's own bounds on depth and on digits are among them
        raise EvidenceError(f"{where} is not valid JSON; perhaps it is cut off ({str(error)[:MAX_SHOWN]}).") from error
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise EvidenceError(f'{where} is not a sample: an object with "prompt" and "tokens" or "text" is needed.')
    stop, settings = record.get("stop"), record.get("settings")
    if not isinstance(stop, str | None) or not isinstance(settings, dict | None):
        raise EvidenceError(f'{where}: "stop" must be text and "settings" an object.')
    _check_storable([record["prompt"], record.get("text"), stop, settings], settings, where)
    if (settings or {}).get("uniforms"):
        raise EvidenceError(f"{where} was drawn with random numbers chosen by hand: such a run is an illustration, not a sample.")
    if (tokens := record.get("tokens")) is not None:
        if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token <= HIGHEST_ID for token in tokens):
            raise EvidenceError(f'{where}: "tokens" must be a list of ids, whole numbers from 0.')
        content: Sample = tuple(tokens[:TOKENS_MAX])
    elif isinstance(tokens := record.get("text"), str):
        content = tokens[:TEXT_MAX]
    else:
        raise EvidenceError(f'{where} has neither "tokens" nor "text".')
    rounds = record.get("rounds")
    if rounds is not None and (
        not isinstance(rounds, list) or not all(type(size) is int and size > 0 for size in rounds) or sum(rounds) != len(tokens)
    ):
        raise EvidenceError(f'{where}: "rounds" must be a list of whole numbers that add up to the number of tokens.')
    plain = None if settings is None else {key: value for key, value in settings.items() if key != "seed"}
    return {
        "prompt": record["prompt"],
        "sample": content,
        "length": len(tokens),
        "stop": stop or "",
        "settings": plain,
        "rounds": rounds,
        "seed": (settings or {}).get("seed"),
    }


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different: of two equal ones, two readers may take different values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _check_storable(texts: list[Any], settings: dict[str, Any] | None, where: str) -> None:
    """Raises where a text or the settings could not be written again: half a character, a number that is not finite, too deep or long."""
    try:
        json.dumps(texts, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise EvidenceError(
            f"{where} holds half a character, a number that is not finite, or nesting that is too deep; none can be kept in a report."
        ) from error
    level: list[Any] = [settings] if settings else []
    for _ in range(DEPTH):
        level = [
            value for one in level for value in (one.values() if isinstance(one, dict) else one) if isinstance(value, dict | list)
        ]
    if level or (settings and len(json.dumps(settings)) > SETTINGS_MAX):
        raise EvidenceError(f'{where}: "settings" may be {DEPTH} levels deep and {SETTINGS_MAX:,} characters long at most.')


def _check_same_kind(first: dict[str, Any], sample: dict[str, Any], where: str) -> None:
    if sample["prompt"] != first["prompt"]:
        raise EvidenceError(f"{where} has another prompt than the first sample: all samples must continue the same text.")
    if isinstance(sample["sample"], str) != isinstance(first["sample"], str):
        raise EvidenceError(
            f"{where} holds {'text' if isinstance(sample['sample'], str) else 'tokens'}, the first sample does not."
        )
    if sample["settings"] != first["settings"]:
        raise EvidenceError(
            f"{where} was drawn under other settings than the first sample: {str(sample['settings'])[:MAX_SHOWN]}."
        )


def convert_to_samples(file: SampleFile, settings: Settings, vocabulary: int, eos_token_ids: frozenset[int]) -> Samples:
    """The samples as token ids, truncated to ``settings.max_new_tokens``, ready to be tested against a distribution.

    If a sample says that it ended by itself but has no end-of-sequence token, the token is added, provided that there is only one.
    Tokens after an end token stay: they are evidence (``describe_running_on``).
    Raises EvidenceError if a sample is too short and did not end.
    """
    if not file.tokens:
        raise EvidenceError(
            f"'{file.name}' holds text without token ids. A test against local weights needs ids; two files of text can be compared "
            "with each other."
        )
    if len(file.samples) < FEWEST:
        raise EvidenceError(f"'{file.name}' holds {format_count(len(file.samples), 'sample')}; at least {FEWEST} are needed.")
    refuse_other_settings(file, settings)
    length = settings.max_new_tokens
    tokens = np.full((len(file.samples), length), NONE, dtype=np.int32)
    for row, (sample, stop, line) in enumerate(zip(file.samples, file.stop_reasons, file.lines, strict=True)):
        where = f"'{file.name}', line {line}"
        assert not isinstance(sample, str)
        if sample and max(sample) >= vocabulary:
            raise EvidenceError(f"{where} holds the id {max(sample)}, outside the vocabulary of {vocabulary} tokens.")
        ids = _truncate(sample[:length], stop, length, eos_token_ids, where)
        tokens[row, : len(ids)] = ids
    return Samples(tokens, settings.to_record(), file.name)


def _truncate(sample: Sequence[int], stop: str, length: int, eos_token_ids: frozenset[int], where: str) -> Sequence[int]:
    if len(sample) == length or any(token in eos_token_ids for token in sample):
        return sample
    if stop in ENDED and len(eos_token_ids) == 1:
        return (*sample, *eos_token_ids)
    if stop in ENDED:
        raise EvidenceError(
            f"{where} ended by itself; it must include its last token, because {len(eos_token_ids)} different tokens can end a text."
        )
    raise EvidenceError(
        f"{where} has {format_count(len(sample), 'token')} and the stop reason {stop[:MAX_SHOWN]!r}; {length} are needed, "
        f'or the reason "stop". Collect longer samples, or ask for a smaller length.'
    )


def describe_running_on(samples: Samples, eos_token_ids: frozenset[int]) -> str:
    """A sentence where samples go on after an end token, which an exact decoder never writes; else ''."""
    rows = find_tokens_after_end(samples.tokens, eos_token_ids).any(1)
    if not rows.any():
        return ""
    return f"{int(rows.sum()):,} of {format_count(len(rows), 'sample')} go on after the token that ends a text: an exact decoder never does."


def refuse_other_settings(file: SampleFile, settings: Settings) -> None:
    """Raise SettingsError if the file names other sampling settings than those of the test."""
    neutral = {"top_k": (0, -1, None), "top_p": (1, None), "min_p": (0, None), "temperature": (None,)}
    for key in SAMPLING_FIELDS:
        recorded, wanted = file.settings.get(key), getattr(settings, key)
        if key in file.settings and recorded != wanted and not (wanted in (None, 1.0) and recorded in neutral[key]):
            raise SettingsError(key.replace("_", "-"), wanted, f"{repr(recorded)[:MAX_SHOWN]}, as '{file.name}' says")


def find_period(samples: Sequence[Sample]) -> int:
    """The smallest period of the samples, if at least two full periods fit; else their number (Knuth, Morris and Pratt 1977).

    One sample repeated n times, as from a single seed, gives 1.
    """
    n, border = len(samples), [0] * len(samples)
    for place in range(1, n):
        k = border[place - 1]
        while k and samples[place] != samples[k]:
            k = border[k - 1]
        border[place] = k + (samples[place] == samples[k])
    period = n - border[-1]
    return period if 2 * period <= n else n


def refuse_repeats(file: SampleFile, log_chance: Sequence[float] | None = None) -> str:
    """Raise EvidenceError if one sample, or a sequence of samples, repeats again and again: they are not independent.

    ``log_chance``: log probability of each sample under the exact distribution; None: estimated by its frequency in the file.

    Returns a sentence if every sample is the same and this may be chance, else ''.
    """
    n, period = len(file.samples), find_period(file.samples)
    if period == n:
        return ""
    if log_chance is None:
        frequencies = Counter(file.samples)
        log_chance = [math.log(frequencies[sample] / n) for sample in file.samples]
    if sum(log_chance[period:]) < math.log(CHANCE):
        what = "one sample" if period == 1 else f"a sequence of {period:,} samples"
        raise EvidenceError(
            f"'{file.name}' is {what} repeated, {n:,} lines in all: the server got the same seed again, or answered from a cache. "
            "Give every request its own seed."
        )
    return (
        f"All samples of '{file.name}' are the same: one text is almost certain, or all requests used one seed."
        if period == 1
        else ""
    )


def join_names(files: Iterable[SampleFile]) -> str:
    """Names of files, for a sentence."""
    return " and ".join(f"'{file.name}'" for file in files)


FILE, TWO_FILES = "file", "two files"  # modes of the reports
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)  # lengths of the counted prefixes, in tokens or characters
OFTEN = 10  # samples of both files together that make a prefix frequent
FEWEST_DF = 15  # degrees of freedom for which the number of samples needed is stated


def report_against_weights(
    file: SampleFile,
    settings: Settings,
    make_plan: Callable[[int, int], TestPlan],
    pair: LoadedPair,
    on_progress: ProgressCallback,
) -> dict[str, Any]:
    """The report of one file, JSON-ready. ``settings.prompt`` is the file's.

    ``make_plan`` gives the plan for a number of samples and their length.

    Raises:
        EvidenceError: If the file cannot be tested.
        SettingsError: If it was sampled from another distribution.
    """
    samples, ids = convert_to_samples(file, settings, pair.vocabulary, pair.eos_token_ids), pair.encode(settings.prompt)
    note = describe_running_on(samples, pair.eos_token_ids)
    if find_period(file.samples) < len(samples):
        checkpoint = scale_progress(on_progress, 0.0, 0.0)  # shows no progress, but lets the work be stopped
        with np.errstate(divide="ignore"):
            scores = score_samples(pair.open(settings)[0], None, ids, samples, pair.eos_token_ids, checkpoint)
            note = " ".join(filter(None, (note, refuse_repeats(file, np.nansum(np.log(scores.mass), axis=1).tolist()))))
    decoder = build_decoder(TARGET, pair, settings, ids)
    decoder = replace(decoder, name=FILE, label=file.name, engine_only="its samples come from a file")
    session = Session(decoder)
    session.keep(FILE, samples)
    session.test(FILE, on_progress, make_plan(len(samples), settings.max_new_tokens))
    return session.report(files=[file.describe()], note=note)


def report_file(
    pair: LoadedPair, file: SampleFile, settings: Settings, tv: float, on_progress: ProgressCallback
) -> dict[str, Any]:
    """``report_against_weights`` with the largest plan that a file's samples allow, for a total variation ``tv``. Pure."""
    return report_against_weights(file, settings, lambda n, length: TestPlan.for_samples(n, length, tv), pair, on_progress)


def compare_files(
    first: SampleFile,
    second: SampleFile,
    tv: float,
    seed: int,
    on_progress: ProgressCallback = ignore_progress,
    alpha: float = ALPHA,
) -> dict[str, Any]:
    """The report of two files, JSON-ready, with tests and no cells. Raises EvidenceError if they cannot be compared.

    A permutation test of the first 4,000 samples of each file, whose p-values have a smallest value, and a homogeneity test of the
    prefixes of all samples, whose p-values have none.
    """
    _check_comparable(first, second)
    notes = dict.fromkeys(note for file in (first, second) if (note := refuse_repeats(file)))
    level = correct_level(alpha, 2)
    left, right = first.samples[:MOST], second.samples[:MOST]
    name = "permutation of two files"
    tests = [compute_permutation_test(left, right, seed=seed, alpha=level, name=name, on_progress=on_progress)]
    tests += compare_prefixes(first.samples, second.samples, level)
    n, m = len(first.samples), len(second.samples)
    one = build_comparison(tests, {"n": n, "m": m, "tv": tv, "alpha": alpha, "level": level})
    settings, files = Settings(prompt=first.prompt, seed=seed), [first.describe(), second.describe()]
    return seal_report(join_names((first, second)), [one], " ".join(notes), settings, files, {})


def build_comparison(tests: Sequence[Finding], plan: dict[str, Any]) -> dict[str, Any]:
    """One answer of a report, from the findings and the plan. Fields that need a distribution are None."""
    adjusted, n = adjust_p_values([test.p_value for test in tests]), plan["n"] + plan["m"]
    each = f"{plan['n']:,} and {plan['m']:,}"
    seen = min((test.detectable_tv for test in tests if test.detectable_tv is not None), default=1.0)
    if min(adjusted) <= plan["alpha"]:
        verdict = "rejected"
        sentence = f"Rejected: the two sets of samples were not drawn from one distribution ({format_p_value(min(adjusted))} after correction)."
    elif seen <= plan["tv"]:
        verdict = "consistent"
        sentence = f"Consistent with one distribution: {each} samples would have shown a total variation of {seen:.2g} with power {POWER:.0%}."
    else:
        needed = 2 * count_draws_needed(plan["tv"], FEWEST_DF, plan["alpha"] / 2)
        verdict = "too few samples"
        sentence = f"Too few samples: {each} samples can detect a total variation of {seen:.2g}; {plan['tv']:g} needs {needed:,} of each."
    return build_answer_without_cells(TWO_FILES, n, verdict, sentence, tests, seen, plan)


def compare_prefixes(first: Sequence[Sample], second: Sequence[Sample], level: float) -> list[Finding]:
    """A homogeneity test of prefixes, as long as possible while most samples have a frequent prefix; empty if none do.

    The length is chosen from the counts of both files together, which carry no information about a difference between them.
    """
    total = len(first) + len(second)
    fitting = []
    for cut in CUTS:
        shared = Counter(sample[:cut] for arm in (first, second) for sample in arm)
        if 2 * sum(count for count in shared.values() if count >= OFTEN) >= total:
            fitting.append((cut, shared))
    if not fitting:
        return []
    cut, shared = fitting[-1]
    place = {begin: number for number, begin in enumerate(sorted(shared))}
    tables = [np.bincount([place[sample[:cut]] for sample in arm], minlength=len(place)) for arm in (first, second)]
    unit = format_count(cut, "character" if isinstance(first[0], str) else "token")
    try:
        return [compute_homogeneity_test(*tables, alpha=level, name=f"homogeneity of the first {unit}")]
    except EvidenceError:  # only one prefix
        return []


def _check_comparable(first: SampleFile, second: SampleFile) -> None:
    if first.prompt != second.prompt:
        raise EvidenceError(f"{join_names((first, second))} continue different prompts: nothing can be compared.")
    if first.tokens != second.tokens:
        kinds = ["token ids" if file.tokens else "text" for file in (first, second)]
        raise EvidenceError(f"'{first.name}' holds {kinds[0]}, '{second.name}' {kinds[1]}: collect both in the same form.")
    for key in (*SAMPLING_FIELDS, "max_tokens"):
        values = [file.settings.get(key) for file in (first, second)]
        if values[0] != values[1] and None not in values:
            raise EvidenceError(
                f"{join_names((first, second))} were drawn under different settings: {key} {values[0]} and {values[1]}."
            )
