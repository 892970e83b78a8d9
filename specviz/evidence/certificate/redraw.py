"""Redraw the samples of a certificate with the same models, seed and mode, and compare every number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.engine import build_first_prefix
from specviz.errors import SpecvizError
from specviz.evidence.certificate.check import (
    ALTERED,
    CONFIRMED,
    JOINT,
    FieldResult,
    describe_difference,
    read_blocks,
    read_test_report,
)
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder, resolve_name, sampling_modes
from specviz.evidence.partition import EMPTY, Beginning, Partition
from specviz.evidence.report import estimate_borderline, redraw_tolerance, to_record
from specviz.evidence.session import Session
from specviz.evidence.tests import TestReport
from specviz.models.base import LanguageModel
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.models.pairs.names import expand_path, parse_pair_name
from specviz.models.paths import distributions_after
from specviz.progress import ProgressCallback
from specviz.settings import GAMMA_MAX, Settings

KINDS = ("float32", "float64")  # dtypes whose passes agree to six digits between machines
MASSES, STATISTICS = 1e-5, 1e-3  # relative tolerance for a mass and for a statistic, from float32 passes of other shapes
P_VALUES, P_NUDGED = 0.01, 0.1  # absolute tolerance if no sample moved, and if one may have moved
NUDGE = 6.0  # largest change of a sum of squares by one sample
ROUNDING, FACTOR = 1e-7, 10.0  # absolute and relative tolerance of a largest distance that is only rounding
FEW, SOME = 5, 0.3  # absolute and relative tolerance of the number of samples near an edge
LARGEST = 20_000_000  # samples


class NotAtHand(SpecvizError):
    """The models of a certificate are not available here, so nothing can be drawn again."""


def _has_models(name: str) -> bool:
    """Whether both folders of a user-supplied pair are on this machine."""
    places = parse_pair_name(name)
    return places is not None and expand_path(places.target).is_dir() and expand_path(places.draft).is_dir()


def load_models(record: dict[str, Any], pair: str | None = None) -> LoadedPair:
    """Load the pair that the certificate was made with. Raises NotAtHand with the reason.

    pair  name of the pair on this machine; None: as in the certificate. A model is never downloaded from the hub for this.
    """
    if record.get("files"):
        raise NotAtHand("its samples came from a file")
    stored = record["models"]
    name = pair or Settings.from_record(record["settings"]).pair
    if pair is None and name not in PAIRS and not _has_models(name):
        raise NotAtHand(f"'{name}' is not on this machine; say where it is with --target and --draft")
    if stored["dtype"] not in KINDS:
        raise NotAtHand(f"passes in {stored['dtype']} round differently from machine to machine")
    try:
        found = load_pair(name, stored["device"], stored["dtype"])
    except SpecvizError as error:
        raise NotAtHand(str(error)) from error
    here = hash_pair(found)
    if other := [key.removesuffix("_sha256") for key, value in here.items() if stored.get(key) != value]:
        raise NotAtHand(f"'{name}' has a different {' and '.join(other)} than the certificate")
    return found


def redraw(
    record: dict[str, Any], pair: LoadedPair, on_progress: Callable[[str], Callable[[float], None]]
) -> Iterator[FieldResult]:
    """Draw the samples of every report again and compare all its fields.

    on_progress  label -> what is called with the fraction done, in [0, 1]

    Settings and seed are confirmed by the counts, because other settings give other samples.
    """
    settings, same = replace(Settings.from_record(record["settings"]), pair=pair.name), True
    for number, one in enumerate(record["answers"]):
        where, stored = f"{number + 1} {one['mode']}", read_test_report(one, record["decoder"])
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
    said = {str(token): raw for token, raw in pair.pieces({int(token) for token in record["pieces"]}).items()}
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
    stored: TestReport,
    pair: LoadedPair,
    settings: Settings,
    on_progress: Callable[[str], ProgressCallback],
    blocks: Sequence[tuple[int, int]] = (),
) -> TestReport | str:
    """One report from new samples, in the stored cells with recomputed masses; or the reason why the stored cells are wrong.

    blocks  which samples of the seed they are; empty: the first ones

    Raises ModelNotFoundError for samples that cannot be drawn here.
    """
    mode, n = stored.mode, stored.plan.n
    try:
        name = resolve_name(decoder)
        is_known = mode in sampling_modes(name, settings)
        made = build_decoder(name, pair, settings) if is_known else None  # a text or heads may be missing here
    except SpecvizError as error:
        raise NotAtHand(str(error)) from error
    if made is None or not n <= LARGEST or (blocks and mode != SHARED):
        raise NotAtHand(f"{n:,} samples of '{decoder}' in mode '{mode}' cannot be drawn here")
    session = Session(made)
    target, _ = made.open_models()
    if build_first_prefix(made.prompt, settings, target.context).remaining != stored.plan.length:
        return f"the settings give texts of {settings.max_new_tokens} tokens, but the cells are for {stored.plan.length}"
    partition = recompute_masses(target, made.prompt, stored.partition, pair.eos_token_ids)
    if wrong := explain_other_cells(stored.partition, partition):
        return wrong
    session.redraw(mode, n, on_progress(f"{mode}: drawing again"), blocks)
    return session.test(mode, on_progress(f"{mode}: testing"), stored.plan, partition, blocks)


def explain_other_cells(stored: Partition, made: Partition) -> str:
    """Why the target's distribution, under these settings and after this prompt, contradicts the stored cells; '' if it does not."""
    if stored.whole.tolist() != made.whole.tolist():
        return "a cell holds one whole text but is stored as holding several, or the other way round"
    off = np.abs(stored.masses - made.masses).max() / stored.masses.max()
    return "" if off <= MASSES else f"a cell's mass is off by {off:.2g} of the largest: cells or settings were changed"


def recompute_masses(
    target: LanguageModel, prompt: tuple[int, ...], partition: Partition, eos_token_ids: frozenset[int]
) -> Partition:
    """The same cells with their masses recomputed from the target: the mass of a cell's prefix, minus that of the cells inside it."""
    own: dict[Beginning, float] = {(): 1.0}
    for length in sorted({len(name) for name in partition.names} - {0}):
        above = sorted({name[:-1] for name in partition.names if len(name) == length})
        distributions = {}
        for where, rows in distributions_after(target, prompt, np.array(above, dtype=np.int64).reshape(len(above), -1)):
            distributions |= {above[where.start + offset]: row for offset, row in enumerate(rows)}
        own |= {
            name: own[name[:-1]] * float(distributions[name[:-1]][name[-1]]) for name in partition.names if len(name) == length
        }
    masses = dict(own)
    for name in partition.names:
        if name:
            masses[name[:-1]] -= own[name]
    whole = np.array([len(name) == partition.length or (name != () and name[-1] in eos_token_ids) for name in partition.names])
    left = [masses[name] if masses[name] > EMPTY else 0.0 for name in partition.names]
    return replace(partition, masses=np.array(left), whole=whole)


def compare_reports(where: str, one: dict[str, Any], stored: TestReport, made: TestReport) -> Iterator[FieldResult]:
    """Compare stored and new, field by field. Chi-square and G follow from the counts; the other tests are compared directly."""
    allowed = redraw_tolerance(stored)["draws"]
    inside = max(allowed, estimate_borderline(stored))  # samples that may also move inside a cell
    moved = int(np.abs(stored.counts - made.counts).sum()) // 2
    said = f"drawn again, {moved:,} of {stored.plan.n:,} samples fall into other cells; {allowed:,} may"
    if moved > allowed:
        yield FieldResult(f"{where}: cells", ALTERED, f"{said}: counts or settings were changed")
        return
    yield FieldResult(f"{where}: cells", CONFIRMED, said)
    yield FieldResult(f"{where}: mode", CONFIRMED, said)
    if stored.borderline is not None:
        yield _counted_again(where, stored.borderline, made.borderline)
    if stored.coverage is not None:
        yield _compare_coverage(where, stored, made, inside)
    for before, after in zip(one["tests"], to_record(made)["tests"], strict=True):
        if before["name"] not in JOINT:
            why = explain_difference(before, after, inside)
            yield FieldResult(f"{where}: {before['name']}", ALTERED if why else CONFIRMED, why or "drawn again, it is the same")


def _counted_again(where: str, stored: int, found: int | None) -> FieldResult:
    """The number of samples near an edge. Elsewhere it differs a little, because the window's ends move by a tenth of its width."""
    same = found is not None and abs(stored - found) <= FEW + SOME * found
    return FieldResult(f"{where}: redraw_tolerance", CONFIRMED if same else ALTERED, f"stored {stored:,}, counted again {found}")


def _compare_coverage(where: str, stored: TestReport, made: TestReport, inside: int) -> FieldResult:
    """What the samples exercised. A sample that may move changes each count by at most its rounds' draft tokens."""
    before, after = (one.coverage and one.coverage.to_record() for one in (stored, made))
    most = inside * stored.plan.length * (GAMMA_MAX + 1)
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
