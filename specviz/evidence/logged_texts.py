"""The answer of a report on logged samples, from findings and plan alone: ``check`` computes it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from specviz.statistics.finding import POWER, Finding, format_count, format_p_value
from specviz.statistics.power import adjust_p_values

LOGGED = "logged samples"  # mode of the answer


def build_log_answer(tests: Sequence[Finding], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The answer. Fields that need cells are None.

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
    return {
        "verdict": verdict,
        "sentence": sentence,
        "mode": LOGGED,
        "n": plan["n"],
        "tests": [asdict(test) | {"adjusted_p": p} for test, p in zip(tests, adjusted, strict=True)],
        "tv": None,
        "tv_null_band": None,
        "detectable_tv": gap,
        "pooled_mass": None,
        "plan": dict(plan),
        "redraw_tolerance": None,
        "cells": [],
    }
