"""Compare two sample files without any weights: speculative decoding on against off, on any server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from specviz.errors import EvidenceError
from specviz.evidence.certificate.seal import seal
from specviz.evidence.report import SCHEMA
from specviz.evidence.sample_files.reading import Sample, SampleFile, names, refuse_repeats
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import list_versions
from specviz.settings import SAMPLING_FIELDS, Settings
from specviz.statistics.finding import ALPHA, POWER, Finding, p_in_words, plural
from specviz.statistics.power import corrected, draws_needed, holm
from specviz.statistics.twosample import MOST, homogeneity, permutation_test

MODE = "two files"
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)  # lengths of the counted prefixes, in tokens or characters
OFTEN = 10  # samples of both files together that make a prefix frequent
FEWEST_DF = 15  # degrees of freedom for which the number of samples needed is stated


def compare_files(
    first: SampleFile, second: SampleFile, tv: float, seed: int, on_progress: ProgressCallback = ignore_progress
) -> dict[str, Any]:
    """The report of two files, JSON-ready, with tests and no cells. Raises EvidenceError if they cannot be compared.

    A permutation test of the first 4,000 samples of each file. If a file has more, also a homogeneity test of all prefixes.
    """
    _comparable(first, second)
    notes = dict.fromkeys(note for file in (first, second) if (note := refuse_repeats(file)))
    larger = max(len(first.samples), len(second.samples)) > MOST
    level = corrected(ALPHA, 2 if larger else 1)
    arms, permutations = [file.samples[:MOST] for file in (first, second)], int(1.5 / level)
    named = {"name": "permutation of two files", "on_progress": on_progress}
    tests = [permutation_test(*arms, permutations=permutations, seed=seed, alpha=level, **named)]
    if larger:
        tests += compare_prefixes(first.samples, second.samples, level)
    n, m = len(first.samples), len(second.samples)
    one = build_comparison(tests, {"n": n, "m": m, "tv": tv, "alpha": ALPHA, "level": level})
    settings = Settings(prompt=first.prompt, seed=seed)
    return seal(
        {
            "schema": SCHEMA,
            "decoder": names((first, second)),
            **{name: value for name, value in one.items() if name != "cells"},
            "note": " ".join(notes),
            "analytic_tv": None,
            "seed": seed,
            "settings": settings.to_record(),
            "answers": [one],
            "pieces": {},
            "files": [first.describe(), second.describe()],
            "models": {},
            "versions": list_versions(),
        }
    )


def build_comparison(tests: Sequence[Finding], plan: dict[str, Any]) -> dict[str, Any]:
    """One answer of a report, from the findings and the plan. Fields that need a distribution are None."""
    adjusted, n = holm([test.p_value for test in tests]), plan["n"] + plan["m"]
    seen = min((test.detectable_tv for test in tests if test.detectable_tv is not None), default=1.0)
    if min(adjusted) <= plan["alpha"]:
        verdict = "rejected"
        sentence = f"Rejected: the two files were not drawn from one distribution ({p_in_words(min(adjusted))} after correction)."
    elif seen <= plan["tv"]:
        verdict = "consistent"
        sentence = f"Consistent with one distribution: {n:,} samples would have shown a total variation of {seen:.2g} with power {POWER:.0%}."
    else:
        needed = 2 * draws_needed(plan["tv"], FEWEST_DF, plan["alpha"] / 2)
        verdict = "too few samples"
        sentence = f"Too few samples: {n:,} samples can detect a total variation of {seen:.2g}; {plan['tv']:g} needs {needed:,} in each file."
    return {
        "verdict": verdict,
        "sentence": sentence,
        "mode": MODE,
        "n": n,
        "tests": [asdict(test) | {"adjusted_p": p} for test, p in zip(tests, adjusted, strict=True)],
        "tv": None,
        "tv_null_band": None,
        "detectable_tv": seen,
        "pooled_mass": None,
        "plan": plan,
        "redraw_tolerance": None,
        "cells": [],
    }


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
    unit = plural(cut, "character" if isinstance(first[0], str) else "token")
    try:
        return [homogeneity(*tables, alpha=level, name=f"homogeneity of the first {unit}")]
    except EvidenceError:  # only one prefix
        return []


def _comparable(first: SampleFile, second: SampleFile) -> None:
    if first.prompt != second.prompt:
        raise EvidenceError(f"{names((first, second))} continue different prompts: nothing can be compared.")
    if first.tokens != second.tokens:
        kinds = ["token ids" if file.tokens else "text" for file in (first, second)]
        raise EvidenceError(f"'{first.name}' holds {kinds[0]}, '{second.name}' {kinds[1]}: collect both in the same form.")
    for key in (*SAMPLING_FIELDS, "max_tokens"):
        values = [file.settings.get(key) for file in (first, second)]
        if values[0] != values[1] and None not in values:
            raise EvidenceError(
                f"{names((first, second))} were drawn under different settings: {key} {values[0]} and {values[1]}."
            )
