"""A report of ``verify`` in words, for a terminal."""

from __future__ import annotations

from typing import Any

from specviz.commands.options import in_words
from specviz.settings import Settings
from specviz.statistics.findings import plural

SAID = (
    "chi-square",
    "permutation of two files",
)  # tests whose notes are said: that a test is one of equality, that nothing is told


def as_text(record: dict[str, Any]) -> str:
    """The report for a terminal: verdicts first, then every test with what it could have seen."""
    lines = [*_who(record), *(f"{one['mode']}: {one['sentence']}{_eased(one, record)}" for one in record["answers"])]
    if record["note"]:
        lines.append(record["note"])
    if record["analytic_tv"] is not None:
        where = "without any draws, the distribution of the decoder with its caches, prefix by prefix"
        lines.append(
            f"{where}: within TV {record['analytic_tv']:.1e} of a fresh pass of the target (float32 rounds by about 1e-6)"
        )
    for one in record["answers"]:
        lines += ["", *_distance(one)]
        for test in one["tests"]:
            seen = "" if test["detectable_tv"] is None else f"sees {test['detectable_tv']:.2g}"
            lines.append(f"  {test['name']:<45} p {test['p_value']:<9.3g} corrected {test['adjusted_p']:<9.3g} {seen}")
        lines += [f"  {note}" for note in dict.fromkeys(test["note"] for test in one["tests"] if test["name"] in SAID) if note]
    return "\n".join(lines)


def _who(record: dict[str, Any]) -> list[str]:
    """Proposer and rule where they are not the usual ones, and why only the engine drew."""
    from specviz.evidence.sources import engine_alone

    if record["decoder"] != "speculative":
        return []
    settings = Settings.from_record(record["settings"])
    why = engine_alone("speculative", settings)
    return [*in_words(settings).splitlines(), *([f"drawn through the engine alone: {why}"] if why else [])]


def _eased(one: dict[str, Any], record: dict[str, Any]) -> str:
    """That an answer was judged by what its draws can see, where that is less than what was asked for."""
    first, here = record["answers"][0]["plan"]["tv"], one["plan"]["tv"]
    return f" (Asked of so few draws: no more than {here:.2g}.)" if here > first else ""


def _distance(one: dict[str, Any]) -> list[str]:
    if not one["cells"]:
        return [f"{one['mode']}, {one['n']:,} draws"]
    band = one["tv_null_band"]
    return [
        f"{one['mode']}, {one['n']:,} draws in {plural(len(one['cells']), 'cell')}; {one['pooled_mass']:.0%} of the mass lies in cells of several texts",
        f"  distance on the cells {one['tv']:.4f}; while the distribution is true {band['median']:.4f}, "
        f"above {band['upper']:.4f} once in {1 / (1 - band['level']):.0f}",
    ]
