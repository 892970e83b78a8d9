"""Reports on sample files: one against the exact distribution of a pair's target, or two against each other without any weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.errors import EvidenceError
from specviz.evidence.decoder import TARGET, build_decoder
from specviz.evidence.hypothesis_tests import TestPlan
from specviz.evidence.report import build_answer_without_cells, seal_report
from specviz.evidence.sample_files.reader import (
    Sample,
    SampleFile,
    convert_to_samples,
    describe_running_on,
    find_period,
    join_names,
    refuse_repeats,
)
from specviz.evidence.sampling.session import Session
from specviz.evidence.scores import score_samples
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.settings import SAMPLING_FIELDS, Settings
from specviz.statistics.finding import ALPHA, POWER, Finding, format_count, format_p_value
from specviz.statistics.power import adjust_p_values, correct_level, count_draws_needed
from specviz.statistics.twosample import MOST, compute_homogeneity_test, compute_permutation_test

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
    name, permutations = "permutation of two files", int(1.5 / level)
    tests = [
        compute_permutation_test(
            left, right, permutations=permutations, seed=seed, alpha=level, name=name, on_progress=on_progress
        )
    ]
    tests += compare_prefixes(first.samples, second.samples, level)
    n, m = len(first.samples), len(second.samples)
    one = build_comparison(tests, {"n": n, "m": m, "tv": tv, "alpha": alpha, "level": level})
    settings, files = Settings(prompt=first.prompt, seed=seed), [first.describe(), second.describe()]
    return seal_report(join_names((first, second)), [one], " ".join(notes), settings, files, {})


def build_comparison(tests: Sequence[Finding], plan: dict[str, Any]) -> dict[str, Any]:
    """One answer of a report, from the findings and the plan. Fields that need a distribution are None."""
    adjusted, n = adjust_p_values([test.p_value for test in tests]), plan["n"] + plan["m"]
    seen = min((test.detectable_tv for test in tests if test.detectable_tv is not None), default=1.0)
    if min(adjusted) <= plan["alpha"]:
        verdict = "rejected"
        sentence = (
            f"Rejected: the two files were not drawn from one distribution ({format_p_value(min(adjusted))} after correction)."
        )
    elif seen <= plan["tv"]:
        verdict = "consistent"
        sentence = f"Consistent with one distribution: {n:,} samples would have shown a total variation of {seen:.2g} with power {POWER:.0%}."
    else:
        needed = 2 * count_draws_needed(plan["tv"], FEWEST_DF, plan["alpha"] / 2)
        verdict = "too few samples"
        sentence = f"Too few samples: {n:,} samples can detect a total variation of {seen:.2g}; {plan['tv']:g} needs {needed:,} in each file."
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
