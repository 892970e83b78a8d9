"""A report of ``verify`` as text for a terminal."""

from __future__ import annotations

from typing import Any

from specviz.commands.options import in_words
from specviz.settings import Settings
from specviz.statistics.findings import plural

NOTED = ("chi-square", "permutation of two files")  # tests whose notes are printed


def as_text(record: dict[str, Any]) -> str:
    """The verdicts first, then every test with the total variation that it can detect."""
    lines = [*_who(record), *(f"{one['mode']}: {one['sentence']}{_eased(one, record)}" for one in record["answers"])]
    if record["note"]:
        lines.append(record["note"])
    if record["analytic_tv"] is not None:
        lines.append(
            "computed without samples: at each prefix the distribution of the decoder with its caches lies within TV "
            f"{record['analytic_tv']:.1e} of an uncached pass of the target (float32 rounding: about 1e-6)"
        )
    for one in record["answers"]:
        lines += ["", *_distance(one)]
        for test in one["tests"]:
            seen = "" if test["detectable_tv"] is None else f"detects {test['detectable_tv']:.2g}"
            lines.append(f"  {test['name']:<45} p {test['p_value']:<9.3g} corrected {test['adjusted_p']:<9.3g} {seen}")
        lines += [f"  {note}" for note in dict.fromkeys(test["note"] for test in one["tests"] if test["name"] in NOTED) if note]
    return "\n".join(lines)


def _who(record: dict[str, Any]) -> list[str]:
    """Proposer and rule if they are not the default ones, and why only the engine was sampled."""
    from specviz.evidence.sources import engine_alone

    if record["decoder"] != "speculative":
        return []
    settings = Settings.from_record(record["settings"])
    why = engine_alone("speculative", settings)
    return [*in_words(settings).splitlines(), *([f"sampled only through the engine: {why}"] if why else [])]


def _eased(one: dict[str, Any], record: dict[str, Any]) -> str:
    """A remark if this mode has too few samples for the requested distance and was tested with a larger one."""
    first, here = record["answers"][0]["plan"]["tv"], one["plan"]["tv"]
    return f" (This mode has fewer samples, so it was only asked to detect {here:.2g}.)" if here > first else ""


def _distance(one: dict[str, Any]) -> list[str]:
    if not one["cells"]:
        return [f"{one['mode']}, {one['n']:,} samples"]
    band = one["tv_null_band"]
    return [
        f"{one['mode']}, {one['n']:,} samples in {plural(len(one['cells']), 'cell')}; {one['pooled_mass']:.0%} of the mass lies in cells "
        "of several texts",
        f"  total variation on the cells {one['tv']:.4f}; sampling noise of an exact decoder: median {band['median']:.4f}, "
        f"above {band['upper']:.4f} once in {1 / (1 - band['level']):.0f}",
    ]
