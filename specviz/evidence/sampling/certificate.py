"""Certificates: check a report by digests and recomputed numbers, and redraw its samples.

A certificate is the report of ``verify``. Every field that follows from its counts is recomputed field by field; results that need the samples
themselves are compared with samples drawn again by the same models, seed and mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as declare_field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specviz.decoding.engine import build_first_prefix
from specviz.decoding.samples import Coverage
from specviz.errors import EvidenceError, SettingsError, SpecvizError, TraceError
from specviz.evidence.decoder import ENGINE, SHARED, TARGET, build_decoder, list_sampling_modes, resolve_name
from specviz.evidence.sampling.sample_files import build_comparison
from specviz.evidence.sampling.session import Session, follow_cells
from specviz.evidence.sampling.whole_texts import LOGGED, WHOLE_TEXTS, build_log_answer, build_whole_text_answer
from specviz.evidence.testing.hypothesis_tests import RATE, TestPlan, TestReport, is_sample_test, run_joint_tests
from specviz.evidence.testing.partition import EMPTY, Beginning, Partition
from specviz.evidence.testing.report import (
    SCHEMA,
    build_answer,
    build_redraw_tolerance,
    estimate_borderline,
    find_changes,
    make_note,
    split_fields,
)
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.models.pairs.names import expand_path, parse_pair_name
from specviz.progress import ProgressCallback
from specviz.records import read_json, record_key
from specviz.settings import GAMMA_MAX, Settings
from specviz.statistics.finding import Finding
from specviz.statistics.registry import JOINT, load_extra_statistics
from specviz.statistics.total_variation import NullBand

CONFIRMED, SELF_CONSISTENT, ALTERED = "confirmed", "consistent in itself, not redrawn", "altered"
FIELDS = ("verdict", "sentence", "mode", "n", "tests", "tv", "tv_null_band", "detectable_tv", "pooled_mass", "plan", "cells")
DIGITS = 1e-7  # relative; another version of scipy rounds otherwise
SPREAD = 0.05  # relative; other versions of numpy draw the replicates of the null band from other numbers


@dataclass(frozen=True, slots=True)
class FieldResult:
    """The result for one field (confirmed, consistent in itself, or altered) and the reason."""

    field: str
    state: str
    reason: str = declare_field(metadata=record_key("why"))


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
        raise EvidenceError(f"'{path}' is damaged, or of an older version: {_describe_error(error)}.") from error
    return record


def check_certificate(record: dict[str, Any]) -> list[FieldResult]:
    """Check every field without a model: the digests, and what follows from the stored counts, cells, plan and p-values."""
    changed, found = find_changes(record), {}
    for name in split_fields(record):
        found[name] = FieldResult(name, SELF_CONSISTENT, "as it was sealed")
    for name, why in find_contradictions(record):
        found[name] = FieldResult(name, ALTERED, why) if why else FieldResult(name, CONFIRMED, "follows from the rest")
    for number, one in enumerate(record["answers"], 1):
        for name in list_missing_statistics(one):
            why = f"the statistic {name!r} is not installed here, so it cannot be computed again"
            found[f"{number} {one['mode']}: {name}"] = FieldResult(f"{number} {one['mode']}: {name}", SELF_CONSISTENT, why)
    for name in changed:
        said = found[name].reason if name in found and found[name].state == ALTERED else "not what was sealed"
        found[name] = FieldResult(name, ALTERED, said)
    found.setdefault("digest", FieldResult("digest", CONFIRMED, "SHA-256 of all other fields"))
    return list(found.values())


def find_contradictions(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (field, reason why it is wrong); the reason is '' where a field was recomputed and agrees."""
    for number, one in enumerate(record["answers"]):
        yield from _check_answer(f"{number + 1} {one['mode']}", one, record["versions"], record["decoder"])
    spoken = next((one for one in record["answers"] if one["verdict"] == "rejected"), record["answers"][0])
    for name, value in record.items():
        if name in spoken and name != "cells":
            yield name, "" if value == spoken[name] else f"'{name}' is not that of the answer that speaks for all"
    yield "schema", ""
    if blocks := read_blocks(record):
        yield from (("blocks", why) for why in _check_blocks(blocks, record["answers"]))
    if not record["files"]:  # a report on a sample file may have a note of its own
        wanted = make_note(spoken["verdict"], [one["mode"] for one in record["answers"]])
        yield "note", "" if record["note"] == wanted else f"it should say {_shorten(wanted)!r}"
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


def _check_blocks(blocks: tuple[tuple[int, int], ...], answers: list[dict[str, Any]]) -> Iterator[str]:
    n, ordered = sum(count for _, count in blocks), sorted(blocks)
    if any(one["n"] != n for one in answers):
        yield f"the blocks hold {n:,} samples"
    if any(before + count > first for (before, count), (first, _) in pairwise(ordered)):
        yield "a sample is in two blocks"


def _check_answer(where: str, answer: dict[str, Any], versions: dict[str, str], decoder: str) -> Iterator[tuple[str, str]]:
    try:
        again = recompute(answer, decoder)
    except (EvidenceError, ValueError, OverflowError) as error:
        yield f"{where}: cells", str(error)
        return
    if answer["cells"]:
        yield from ((f"{where}: cells", why) for why in _check_cells(answer) if why)
    if (exercised := answer.get("exercised")) is not None and (why := _explain_coverage(Coverage.from_record(exercised))):
        yield f"{where}: exercised", why
    for name in ("n", "plan", "pooled_mass", "tv", "detectable_tv", "verdict", "sentence"):
        yield f"{where}: {name}", describe_difference(answer[name], again[name])
    tolerance = answer["redraw_tolerance"]
    if not (tolerance and tolerance["counted"]):
        yield f"{where}: redraw_tolerance", describe_difference(tolerance, again["redraw_tolerance"])
    elif why := _explain_borderline(answer):  # a plausible count yields nothing here: only a redraw can confirm it
        yield f"{where}: redraw_tolerance", why
    if answer["cells"]:
        level = DIGITS if versions.get("numpy") == np.__version__ else SPREAD
        yield f"{where}: tv_null_band", describe_difference(answer["tv_null_band"], again["tv_null_band"], level)
    missing = list_missing_statistics(answer)
    for stored, made in zip(answer["tests"], again["tests"], strict=True):
        why = describe_difference(stored, made)
        if why or (answer["cells"] and not is_sample_test(stored["name"]) and stored["name"] not in missing):
            yield f"{where}: {stored['name']}", why


def _check_cells(answer: dict[str, Any]) -> Iterator[str]:
    names = [tuple(cell["begins"]) for cell in answer["cells"]]
    if len(set(names)) < len(names) or () not in names:
        yield "the cells do not have distinct names"
    if any(cell["mass"] < 0.0 for cell in answer["cells"]) or abs(sum(cell["mass"] for cell in answer["cells"]) - 1.0) > 1e-9:
        yield "the masses of the cells do not sum to 1"
    if any(len(cell["begins"]) == answer["plan"]["length"] and not cell["whole"] for cell in answer["cells"]):
        yield "a cell with one whole text claims to hold several"


def _explain_coverage(coverage: Coverage) -> str:
    """Why these counts contradict each other, or ''. Only a redraw tells what the samples really exercised."""
    if coverage.proposed != coverage.accepted + coverage.rejected + coverage.not_checked:
        return "draft tokens accepted, rejected and not checked do not add up to those proposed"
    if coverage.residual > coverage.rejected:
        return "more tokens were drawn from the residual distribution than draft tokens rejected"
    return ""


def _explain_borderline(answer: dict[str, Any]) -> str:
    """Why this many samples cannot lie near an edge, or ''. Only a redraw tells how many really do."""
    stored, n = int(answer["redraw_tolerance"]["draws"]), sum(cell["count"] for cell in answer["cells"])
    return "" if 0 <= stored <= n else f"{stored:,} samples near an edge, of {n:,}"


def read_test_report(answer: dict[str, Any], decoder: str = "") -> TestReport | None:
    """The TestReport of a stored answer; None for a comparison of two files, for whole texts and for a log, which have no cells.

    Raises:
        KeyError, TypeError, ValueError: If the answer does not hold one.
    """
    _ = [answer[name] for name in FIELDS], [float(test["adjusted_p"]) for test in answer["tests"]]
    tests, near = _read_findings(answer), answer["redraw_tolerance"]
    if not answer["cells"]:
        numbers = {WHOLE_TEXTS: ("texts", "tokens"), LOGGED: ("n", "prompts", "tokens", "tv")}.get(
            answer["mode"], ("n", "m", "tv")
        )
        _ = [float(answer["plan"][key]) for key in (*numbers, "alpha", "level")]
        return None
    cells = answer["cells"]
    masses, counts = (np.array([cell[key] for cell in cells]) for key in ("mass", "count"))
    if counts.dtype != np.int64 or masses.dtype != np.float64 or not all(isinstance(cell["whole"], bool) for cell in cells):
        raise TypeError("a cell's mass or count is no number")
    names = tuple(tuple(int(token) for token in cell["begins"]) for cell in cells)
    partition = Partition(names, masses, int(answer["plan"]["length"]), np.array([cell["whole"] for cell in cells]))
    _ = NullBand(**answer["tv_null_band"]), [float(answer[key]) for key in ("tv", "detectable_tv", "pooled_mass")]
    coverage = Coverage.from_record(answer["exercised"]) if answer.get("exercised") is not None else None
    borderline = int(near["draws"]) if near["counted"] else None
    whole_samples = None if answer.get("whole_samples") is None else int(answer["whole_samples"])
    plan = TestPlan(**answer["plan"])
    return TestReport(answer["mode"], plan, tests, partition, counts, coverage, decoder == TARGET, borderline, whole_samples)


def _read_findings(answer: dict[str, Any]) -> tuple[Finding, ...]:
    return tuple(Finding(**{key: value for key, value in test.items() if key != "adjusted_p"}) for test in answer["tests"])


def recompute(answer: dict[str, Any], decoder: str = "") -> dict[str, Any]:
    """The answer recomputed from the stored counts, masses and plan, and from the stored results of tests that need more."""
    stored = read_test_report(answer, decoder)
    if stored is None:
        build = {WHOLE_TEXTS: build_whole_text_answer, LOGGED: build_log_answer}.get(answer["mode"], build_comparison)
        return build(_read_findings(answer), answer["plan"])
    extra = [test.name for test in stored.tests if is_extra_statistic(test.name)]
    n, plan = int(stored.counts.sum()), stored.plan
    plan = TestPlan.for_distance(n, plan.length, plan.tv, plan.alpha, len(extra))
    again = {test.name: test for test in run_joint_tests(plan, stored.partition, stored.counts, extra)}
    tests = tuple(again.get(test.name, test) for test in stored.tests)
    return build_answer(replace(stored, plan=plan, tests=tests))


def is_extra_statistic(name: str) -> bool:
    """Whether a finding of this name is of a statistic that another package registered."""
    return name not in JOINT and not is_sample_test(name)


def list_missing_statistics(answer: dict[str, Any]) -> list[str]:
    """Statistics of an answer that no package registers here, so that they cannot be computed again."""
    installed = {entry.name for entry in load_extra_statistics()}
    return [
        test["name"]
        for test in answer["tests"]
        if answer["cells"] and is_extra_statistic(test["name"]) and test["name"] not in installed
    ]


def describe_difference(stored_value: Any, computed_value: Any, level: float = DIGITS) -> str:
    """The first difference beyond rounding, in words, or ''. Two numbers agree if they differ by at most ``level`` of the larger."""
    if isinstance(computed_value, dict) and isinstance(stored_value, dict) and computed_value.keys() == stored_value.keys():
        return next(
            (
                f"{key}: {why}"
                for key in computed_value
                if (why := describe_difference(stored_value[key], computed_value[key], level))
            ),
            "",
        )
    if isinstance(computed_value, float) and isinstance(stored_value, int | float) and not isinstance(stored_value, bool):
        same = abs(stored_value - computed_value) <= level * max(abs(stored_value), abs(computed_value)) + 1e-12
    else:
        same = stored_value == computed_value and isinstance(stored_value, bool) == isinstance(computed_value, bool)
    return "" if same else f"stored {_shorten(stored_value)}, computed {_shorten(computed_value)}"


def _shorten(value: Any) -> str:
    said = f"{value:.6g}" if isinstance(value, float) else str(value)
    return said if len(said) < 160 else said[:157] + "..."


def _describe_error(error: Exception) -> str:
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)


KINDS = ("float32", "float64")  # dtypes whose passes agree to six digits between machines
MASSES, STATISTICS = 1e-5, 1e-3  # relative tolerance for a mass and for a statistic, from float32 passes of other shapes
P_VALUES, P_NUDGED = 0.01, 0.1  # absolute tolerance if no sample moved, and if one may have moved
NUDGE = 6.0  # largest change of a sum of squares by one sample
ROUNDING, FACTOR = 1e-7, 10.0  # absolute and relative tolerance of a largest distance that is only rounding
FEW, SOME = 5, 0.3  # absolute and relative tolerance of the number of samples near an edge
LARGEST = 20_000_000  # samples


class ModelsUnavailableError(SpecvizError):
    """The models of a certificate are not available here, so nothing can be drawn again."""


def _has_models(name: str) -> bool:
    """Whether both folders of a user-supplied pair are on this machine."""
    places = parse_pair_name(name)
    return places is not None and expand_path(places.target).is_dir() and expand_path(places.draft).is_dir()


def load_models(record: dict[str, Any], pair: str | None = None) -> LoadedPair:
    """Load the pair that the certificate was made with. Raises ModelsUnavailableError with the reason.

    ``pair``: name of the pair on this machine; None: as in the certificate. A model is never downloaded from the hub for this.
    """
    if record.get("files"):
        raise ModelsUnavailableError("its samples came from a file")
    stored = record["models"]
    name = pair or Settings.from_record(record["settings"]).pair
    if pair is None and name not in PAIRS and not _has_models(name):
        raise ModelsUnavailableError(f"'{name}' is not on this machine; say where it is with --target and --draft")
    if stored["dtype"] not in KINDS:
        raise ModelsUnavailableError(f"passes in {stored['dtype']} round differently from machine to machine")
    try:
        found = load_pair(name, stored["device"], stored["dtype"])
    except SpecvizError as error:
        raise ModelsUnavailableError(str(error)) from error
    here = hash_pair(found)
    if other := [key.removesuffix("_sha256") for key, value in here.items() if stored.get(key) != value]:
        raise ModelsUnavailableError(f"'{name}' has a different {' and '.join(other)} than the certificate")
    return found


def redraw_certificate(
    record: dict[str, Any], pair: LoadedPair, on_progress: Callable[[str], ProgressCallback]
) -> Iterator[FieldResult]:
    """Draw the samples of every report again and compare all its fields.

    ``on_progress``: label -> what is called with the fraction done, in [0, 1].

    Settings and seed are confirmed by the counts, because other settings give other samples.
    """
    settings, same = replace(Settings.from_record(record["settings"]), pair=pair.name), True
    for number, one in enumerate(record["answers"]):
        where, stored = f"{number + 1} {one['mode']}", read_test_report(one, record["decoder"])
        assert stored is not None, "load_models refuses reports on files"
        made = redraw_report(record["decoder"], stored, pair, settings, on_progress, read_blocks(record))
        if isinstance(made, str):
            yield FieldResult(f"{where}: cells", ALTERED, made)
            return
        for line in compare_reports(where, one, stored, made):
            same = same and line.state != ALTERED
            yield line
    if same:
        for name in ("decoder", "settings", "seed", "models", *(["blocks"] if "blocks" in record else [])):
            yield FieldResult(name, CONFIRMED, "drawn again, the samples are the same")
    yield recompute_analytic(record, pair, settings)
    said = {str(token): raw for token, raw in pair.read_pieces({int(token) for token in record["pieces"]}).items()}
    yield FieldResult("pieces", *((CONFIRMED, "the bytes that the tokenizer gives") if said == record["pieces"]
                           else (ALTERED, "the tokenizer gives other bytes")))  # fmt: skip


def recompute_analytic(record: dict[str, Any], pair: LoadedPair, settings: Settings) -> FieldResult:
    """Compute again the largest distance between the decoder's own distribution and an uncached pass, along the same text.

    This distance is rounding error, so another machine finds another number of the same size: between a tenth and ten times the
    stored one, or at most 1e-7 away. If samples came only from shared distributions, the certificate holds no such number.
    """
    stored = record["analytic_tv"]
    wanted = any(one["mode"] == ENGINE for one in record["answers"])
    found = build_decoder(record["decoder"], pair, settings).compute_analytic_tv() if wanted else None
    if stored is None or found is None:
        same, said = stored is found, f"stored {stored}, computed {found}"
    else:
        near = abs(stored - found) <= ROUNDING or found / FACTOR <= stored <= found * FACTOR
        same, said = near, f"stored {stored:.2g}, computed again along the same text {found:.2g}"
    return FieldResult("analytic_tv", CONFIRMED if same else ALTERED, said)


def redraw_report(
    decoder: str,
    stored_report: TestReport,
    pair: LoadedPair,
    settings: Settings,
    on_progress: Callable[[str], ProgressCallback],
    blocks: Sequence[tuple[int, int]] = (),
) -> TestReport | str:
    """One report from new samples, in the stored cells with recomputed masses; or the reason why the stored cells are wrong.

    ``blocks``: which samples of the seed they are; empty: the first ones.

    Raises ModelNotFoundError for samples that cannot be drawn here.
    """
    mode, n = stored_report.mode, stored_report.plan.n
    try:
        name = resolve_name(decoder)
        is_known = mode in list_sampling_modes(name, settings)
        made = build_decoder(name, pair, settings) if is_known else None  # a text or heads may be missing here
    except SpecvizError as error:
        raise ModelsUnavailableError(str(error)) from error
    extra = [test.name for test in stored_report.tests if is_extra_statistic(test.name)]
    if missing := set(extra) - {entry.name for entry in load_extra_statistics()}:
        raise ModelsUnavailableError(f"the statistic {min(missing)!r} is not installed here")
    if made is None or not n <= LARGEST or (blocks and mode != SHARED):
        raise ModelsUnavailableError(f"{n:,} samples of '{decoder}' in mode '{mode}' cannot be drawn here")
    target, _ = made.open_models()
    if build_first_prefix(made.prompt, settings, target.context).remaining != stored_report.plan.length:
        return f"the settings give texts of {settings.max_new_tokens} tokens, but the cells are for {stored_report.plan.length}"
    partition = recompute_masses(target, made.prompt, stored_report.partition, pair.eos_token_ids)
    if wrong := explain_other_cells(stored_report.partition, partition):
        return wrong
    session = Session(follow_cells(made, partition, stored_report.whole_samples))
    session.draw_exactly(mode, n, on_progress(f"{mode}: drawing again"), blocks)
    return session.test(mode, on_progress(f"{mode}: testing"), stored_report.plan, partition, blocks, extra)


def explain_other_cells(stored_cells: Partition, computed_cells: Partition) -> str:
    """Why the target's distribution, under these settings and after this prompt, contradicts the stored cells; '' if it does not."""
    if stored_cells.is_whole_text.tolist() != computed_cells.is_whole_text.tolist():
        return "a cell holds one whole text but is stored as holding several, or the other way round"
    off = np.abs(stored_cells.masses - computed_cells.masses).max() / stored_cells.masses.max()
    return "" if off <= MASSES else f"a cell's mass is off by {off:.2g} of the largest: cells or settings were changed"


def recompute_masses(
    target: LanguageModel, prompt: tuple[int, ...], partition: Partition, eos_token_ids: frozenset[int]
) -> Partition:
    """The same cells with their masses recomputed from the target: the mass of a cell's prefix, minus that of the cells inside it."""
    own: dict[Beginning, float] = {(): 1.0}
    for length in sorted({len(name) for name in partition.names} - {0}):
        above = sorted({name[:-1] for name in partition.names if len(name) == length})
        distributions: dict[Beginning, torch.Tensor] = {}
        for where, rows in iterate_distributions_after(target, prompt, np.array(above, dtype=np.int64).reshape(len(above), -1)):
            distributions |= {above[where.start + offset]: row for offset, row in enumerate(rows)}
        own |= {
            name: own[name[:-1]] * float(distributions[name[:-1]][name[-1]]) for name in partition.names if len(name) == length
        }
    masses = dict(own)
    for name in partition.names:
        if name:
            masses[name[:-1]] -= own[name]
    is_whole_text = np.array(
        [len(name) == partition.length or (name != () and name[-1] in eos_token_ids) for name in partition.names]
    )
    left = [masses[name] if masses[name] > EMPTY else 0.0 for name in partition.names]
    return replace(partition, masses=np.array(left), is_whole_text=is_whole_text)


def compare_reports(
    where: str, answer: dict[str, Any], stored_report: TestReport, redrawn_report: TestReport
) -> Iterator[FieldResult]:
    """Compare stored and new, field by field. Chi-square and G follow from the counts; the other tests are compared directly."""
    allowed = build_redraw_tolerance(stored_report)["draws"]
    inside = max(allowed, estimate_borderline(stored_report))  # samples that may also move inside a cell
    moved = int(np.abs(stored_report.counts - redrawn_report.counts).sum()) // 2
    said = f"drawn again, {moved:,} of {stored_report.plan.n:,} samples fall into other cells; {allowed:,} may"
    if moved > allowed:
        yield FieldResult(f"{where}: cells", ALTERED, f"{said}: counts or settings were changed")
        return
    yield FieldResult(f"{where}: cells", CONFIRMED, said)
    yield FieldResult(f"{where}: mode", CONFIRMED, said)
    if stored_report.borderline is not None:
        yield _compare_borderline(where, stored_report.borderline, redrawn_report.borderline)
    if stored_report.coverage is not None:
        yield _compare_coverage(where, stored_report, redrawn_report, inside)
    is_counted_from_zero = any(
        test["name"] == f"{RATE} 0" for test in answer["tests"]
    )  # positions in certificates of earlier versions
    for before, after in zip(answer["tests"], build_answer(redrawn_report)["tests"], strict=True):
        name = before["name"]
        if is_counted_from_zero and name.startswith(RATE):
            before = before | {"name": f"{RATE} {int(name.removeprefix(RATE)) + 1}"}
        if name not in JOINT:
            why = explain_difference(before, after, inside)
            yield FieldResult(f"{where}: {name}", ALTERED if why else CONFIRMED, why or "drawn again, it is the same")


def _compare_borderline(where: str, stored_count: int, redrawn_count: int | None) -> FieldResult:
    """The number of samples near an edge. Elsewhere it differs a little, because the window's ends move by a tenth of its width."""
    same = redrawn_count is not None and abs(stored_count - redrawn_count) <= FEW + SOME * redrawn_count
    return FieldResult(
        f"{where}: redraw_tolerance", CONFIRMED if same else ALTERED, f"stored {stored_count:,}, counted again {redrawn_count}"
    )


def _compare_coverage(where: str, stored_report: TestReport, redrawn_report: TestReport, movable: int) -> FieldResult:
    """What the samples exercised. A sample that may move changes each count by at most its rounds' draft tokens."""
    before, after = (one.coverage and one.coverage.to_record() for one in (stored_report, redrawn_report))
    most = movable * stored_report.plan.length * (GAMMA_MAX + 1)
    pairs = [((before or {}).get(name), (after or {}).get(name)) for name in {**(before or {}), **(after or {})}]
    same = all(x == y or (x is not None and y is not None and abs(x - y) <= most) for x, y in pairs)
    why = "drawn again, it is the same" if before == after else f"stored {before}, drawn again {after}"
    return FieldResult(f"{where}: exercised", CONFIRMED if same else ALTERED, why)


def explain_difference(before: dict[str, Any], after: dict[str, Any], allowed: int) -> str:
    """How a finding differs by more than rounding and ``allowed`` moved samples explain, in words, or ''.

    One sample changes a proportion or a distance of distribution functions by 1/n. It changes a sum of squares by at most about
    NUDGE, because every cell expects several samples. A sample may also have moved inside a cell that holds several texts, which
    the counts do not show. A p-value must stay on its side of the test's level.
    """
    if before["name"] != after["name"] or before["n"] != after["n"]:
        return f"drawn again, it is {after['name']} of {after['n']:,}"
    statistic, x = before["statistic"], after["statistic"]
    rounding = STATISTICS * abs(x)
    nudged = allowed * (NUDGE if before["df"] or before["name"].startswith(("permutation", "two samples")) else 1.0 / after["n"])
    if not abs(statistic - x) <= rounding + nudged:
        return f"statistic: {describe_difference(statistic, x, 0.0)}"
    p, q, level = before["p_value"], after["p_value"], after["alpha"]
    same = abs(p - q) <= (P_VALUES if abs(statistic - x) <= rounding else P_NUDGED) and (p <= level) == (q <= level)
    return "" if same else f"p_value: {describe_difference(p, q, 0.0)}"
