"""Check a certificate: recompute everything that follows from its counts, and report field by field.

A certificate is the report of ``verify``. Results that need the samples themselves are checked by ``redraw``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from specviz.decoding.samples import Coverage
from specviz.errors import EvidenceError, SettingsError, TraceError
from specviz.evidence.certificate.seal import find_changes, split_fields
from specviz.evidence.decoder import TARGET
from specviz.evidence.partition import Partition
from specviz.evidence.report import SCHEMA, make_note, to_record
from specviz.evidence.sample_files.two_files import build_comparison as two_files
from specviz.evidence.tests import Plan, TestReport, joint_tests
from specviz.records import read_json
from specviz.settings import Settings
from specviz.statistics.finding import Finding
from specviz.statistics.total_variation import Band

CONFIRMED, SELF_CONSISTENT, ALTERED = "confirmed", "consistent in itself, not redrawn", "altered"
JOINT = ("chi-square", "G")  # tests that need only the counts; the others need every sample
FIELDS = ("verdict", "sentence", "mode", "n", "tests", "tv", "tv_null_band", "detectable_tv", "pooled_mass", "plan", "cells")
DIGITS = 1e-7  # relative; another version of scipy rounds otherwise
SPREAD = 0.05  # relative; other versions of numpy draw the replicates of the null band from other numbers


@dataclass(frozen=True, slots=True)
class FieldResult:
    """The result for one field (confirmed, consistent in itself, or altered) and the reason."""

    field: str
    state: str
    why: str


def read_certificate(path: Path) -> dict[str, Any]:
    """Read a certificate from a file. Raises EvidenceError with a sentence if the file does not hold one."""
    try:
        record = read_json(path, f"'{path}'")
    except TraceError as error:
        raise EvidenceError(str(error)) from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise EvidenceError(
            f"'{path}' is not a certificate of this version: its schema is {schema!r}; {SCHEMA!r} can be read. `specviz verify --out` and `specviz audit` write one as report.json."
        )
    try:
        for one in record["answers"]:
            read_test_report(one)
        find_changes(record)
        _ = record["settings"], record["models"], record["versions"], record["decoder"], record["answers"][0], record["tests"]
        read_blocks(record)
        _ = record["note"], record["files"], record["analytic_tv"], {int(token) for token in record["pieces"]}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise EvidenceError(f"'{path}' is damaged, or of an older version: {_what(error)}.") from error
    return record


def check_certificate(record: dict[str, Any]) -> list[FieldResult]:
    """Check every field without a model: the digests, and what follows from the stored counts, cells, plan and p-values."""
    changed, found = find_changes(record), {}
    for name in split_fields(record):
        found[name] = FieldResult(name, SELF_CONSISTENT, "as it was sealed")
    for name, why in find_contradictions(record):
        found[name] = FieldResult(name, ALTERED, why) if why else FieldResult(name, CONFIRMED, "follows from the rest")
    for name in changed:
        said = found[name].why if name in found and found[name].state == ALTERED else "not what was sealed"
        found[name] = FieldResult(name, ALTERED, said)
    found.setdefault("digest", FieldResult("digest", CONFIRMED, "SHA-256 of all other fields"))
    return list(found.values())


def find_contradictions(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (field, reason why it is wrong); the reason is '' where a field was recomputed and agrees."""
    for number, one in enumerate(record["answers"]):
        yield from _within(f"{number + 1} {one['mode']}", one, record["versions"], record["decoder"])
    spoken = next((one for one in record["answers"] if one["verdict"] == "rejected"), record["answers"][0])
    for name, value in record.items():
        if name in spoken and name != "cells":
            yield name, "" if value == spoken[name] else f"'{name}' is not that of the answer that speaks for all"
    yield "schema", ""
    if blocks := read_blocks(record):
        yield from (("blocks", why) for why in _blocks(blocks, record["answers"]))
    if not record["files"]:  # a report on a sample file may have a note of its own
        wanted = make_note(spoken["verdict"], [one["mode"] for one in record["answers"]])
        yield "note", "" if record["note"] == wanted else f"it should say {_short(wanted)!r}"
    try:
        settings = Settings.from_record(record["settings"])
    except SettingsError as error:
        yield "settings", str(error)
        return
    if any(one["cells"] and one["plan"]["length"] > settings.max_new_tokens for one in record["answers"]):
        yield "settings", f"texts of {settings.max_new_tokens} tokens do not fill cells of longer ones"
    if settings.is_edited:
        yield "settings", "some random numbers were chosen by hand: such a run is not a sample"
    yield "seed", "" if record["seed"] == settings.seed else f"the settings say {settings.seed}"


def read_blocks(record: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """Which samples of the seed a report is about, (first, count) each; empty: the first ones. Raises TypeError or ValueError."""
    found = []
    for first, count in record.get("blocks", ()):
        if type(first) is not int or type(count) is not int or not (0 <= first < 2**62 and 0 < count < 2**62):
            raise ValueError("a block of samples must have a first number and a count")
        found.append((first, count))
    return tuple(found)


def _blocks(blocks: tuple[tuple[int, int], ...], answers: list[dict[str, Any]]) -> Iterator[str]:
    n, ordered = sum(count for _, count in blocks), sorted(blocks)
    if any(one["n"] != n for one in answers):
        yield f"the blocks hold {n:,} samples"
    if any(before + count > first for (before, count), (first, _) in pairwise(ordered)):
        yield "a sample is in two blocks"


def _within(where: str, one: dict[str, Any], versions: dict[str, str], decoder: str) -> Iterator[tuple[str, str]]:
    try:
        again = recompute(one, decoder)
    except (EvidenceError, ValueError, OverflowError) as error:
        yield f"{where}: cells", str(error)
        return
    if one["cells"]:
        yield from ((f"{where}: cells", why) for why in _cells(one) if why)
    if (exercised := one.get("exercised")) is not None and (why := _explain_coverage(Coverage.from_record(exercised))):
        yield f"{where}: exercised", why
    for name in ("n", "plan", "pooled_mass", "tv", "detectable_tv", "verdict", "sentence"):
        yield f"{where}: {name}", describe_difference(one[name], again[name])
    tolerance = one["redraw_tolerance"]
    if not (tolerance and tolerance["counted"]):
        yield f"{where}: redraw_tolerance", describe_difference(tolerance, again["redraw_tolerance"])
    elif why := _too_near(one):  # a plausible count yields nothing here: only a redraw can confirm it
        yield f"{where}: redraw_tolerance", why
    if one["cells"]:
        level = DIGITS if versions.get("numpy") == np.__version__ else SPREAD
        yield f"{where}: tv_null_band", describe_difference(one["tv_null_band"], again["tv_null_band"], level)
    for stored, made in zip(one["tests"], again["tests"], strict=True):
        why = describe_difference(stored, made)
        if why or stored["name"] in JOINT:
            yield f"{where}: {stored['name']}", why


def _cells(one: dict[str, Any]) -> Iterator[str]:
    names = [tuple(cell["begins"]) for cell in one["cells"]]
    if len(set(names)) < len(names) or () not in names:
        yield "the cells do not have distinct names"
    if any(cell["mass"] < 0.0 for cell in one["cells"]) or abs(sum(cell["mass"] for cell in one["cells"]) - 1.0) > 1e-9:
        yield "the masses of the cells do not sum to 1"
    if any(len(cell["begins"]) == one["plan"]["length"] and not cell["whole"] for cell in one["cells"]):
        yield "a cell with one whole text claims to hold several"


def _explain_coverage(coverage: Coverage) -> str:
    """Why these counts contradict each other, or ''. Only a redraw tells what the samples really exercised."""
    if coverage.proposed != coverage.accepted + coverage.rejected + coverage.not_checked:
        return "draft tokens accepted, rejected and not checked do not add up to those proposed"
    if coverage.residual > coverage.rejected:
        return "more tokens were drawn from the residual distribution than draft tokens rejected"
    return ""


def _too_near(one: dict[str, Any]) -> str:
    """Why this many samples cannot lie near an edge, or ''. Only a redraw tells how many really do."""
    stored, n = int(one["redraw_tolerance"]["draws"]), sum(cell["count"] for cell in one["cells"])
    return "" if 0 <= stored <= n else f"{stored:,} samples near an edge, of {n:,}"


def read_test_report(one: dict[str, Any], decoder: str = "") -> TestReport | None:
    """The TestReport that a stored record was made from; None for a comparison of two files, which has no cells.

    decoder  of the certificate

    Raises KeyError, TypeError or ValueError if the record does not hold one.
    """
    _ = [one[name] for name in FIELDS]
    near = one["redraw_tolerance"]
    tests = tuple(Finding(**{key: value for key, value in test.items() if key != "adjusted_p"}) for test in one["tests"])
    adjusted = tuple(float(test["adjusted_p"]) for test in one["tests"])
    if not one["cells"]:
        _ = [float(one["plan"][key]) for key in ("n", "m", "tv", "alpha", "level")]
        return None
    cells = one["cells"]
    masses, counts = (np.array([cell[key] for cell in cells]) for key in ("mass", "count"))
    if counts.dtype != np.int64 or masses.dtype != np.float64 or not all(isinstance(cell["whole"], bool) for cell in cells):
        raise TypeError("a cell's mass or count is no number")
    names = tuple(tuple(int(token) for token in cell["begins"]) for cell in cells)
    partition = Partition(names, masses, int(one["plan"]["length"]), np.array([cell["whole"] for cell in cells]))
    band, numbers = Band(**one["tv_null_band"]), (float(one[key]) for key in ("tv", "detectable_tv", "pooled_mass"))
    tv, detectable, pooled = numbers
    return TestReport(
        one["verdict"],
        one["mode"],
        Plan(**one["plan"]),
        tests,
        adjusted,
        tv,
        band,
        detectable,
        pooled,
        partition,
        counts,
        int(near["draws"]) if near["counted"] else None,
        Coverage.from_record(one["exercised"]) if one.get("exercised") is not None else None,
        decoder == TARGET,
    )


def recompute(one: dict[str, Any], decoder: str = "") -> dict[str, Any]:
    """The answer recomputed from the stored counts, masses and plan, and from the p-values of the other tests."""
    stored = read_test_report(one, decoder)
    if stored is None:
        tests = [Finding(**{key: value for key, value in test.items() if key != "adjusted_p"}) for test in one["tests"]]
        return two_files(tests, one["plan"])
    plan = Plan.of(int(stored.counts.sum()), stored.plan.length, stored.plan.tv, stored.plan.alpha)
    others = tuple(test for test in stored.tests if test.name not in JOINT)
    tests = joint_tests(plan, stored.partition, stored.counts) + others
    made = TestReport.from_findings(plan, stored.mode, tests, stored.partition, stored.counts, stored.coverage, stored.is_control)
    return to_record(replace(made, borderline=stored.borderline))


def describe_difference(stored: Any, found: Any, level: float = DIGITS) -> str:
    """What differs by more than rounding, in words, or ''. Two numbers agree if they differ by at most ``level`` of the larger."""
    if isinstance(found, dict) and isinstance(stored, dict) and found.keys() == stored.keys():
        return next((f"{key}: {why}" for key in found if (why := describe_difference(stored[key], found[key], level))), "")
    if isinstance(found, float) and isinstance(stored, int | float) and not isinstance(stored, bool):
        same = abs(stored - found) <= level * max(abs(stored), abs(found)) + 1e-12
    else:
        same = stored == found and isinstance(stored, bool) == isinstance(found, bool)
    return "" if same else f"stored {_short(stored)}, computed {_short(found)}"


def _short(value: Any) -> str:
    said = f"{value:.6g}" if isinstance(value, float) else str(value)
    return said if len(said) < 160 else said[:157] + "..."


def _what(error: Exception) -> str:
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
