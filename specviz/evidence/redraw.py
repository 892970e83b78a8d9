"""Draw again what a certificate says was drawn: same models, same seed, same mode. Then every number can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from specviz.errors import SpecvizError
from specviz.evidence import sources
from specviz.evidence.certificate import ALTERED, CONFIRMED, Line, answer_of, difference
from specviz.evidence.experiment import Answer, answer
from specviz.evidence.partition import Partition
from specviz.evidence.partition import Path as Beginning
from specviz.evidence.report import as_record, redraw_tolerance
from specviz.models.base import LawSource
from specviz.models.catalogue import PAIRS
from specviz.models.fingerprint import fingerprints
from specviz.models.loading import Pair, load_pair
from specviz.models.paths import laws_after
from specviz.settings import Settings

KINDS = ("float32", "float64")  # types whose passes agree from machine to machine to six digits
MASSES, STATISTICS = 1e-5, 1e-3  # relative; what float32 passes of other shapes leave of a mass, and of a statistic
P_VALUES = 0.01  # absolute
ROUNDING, FACTOR = 1e-7, 10.0  # a largest distance that is rounding alone comes out so much otherwise on another machine
LARGEST = 20_000_000  # draws


class NotAtHand(SpecvizError):
    """The models behind a certificate are not here: nothing can be drawn again."""


def models(record: dict[str, Any], pair: str | None = None) -> Pair:
    """The pair that the certificate was made with. Raises NotAtHand with the reason.

    pair  where it is on this machine; without it, where the certificate says. A name on the model hub is never fetched for
          a certificate's sake.
    """
    if record.get("files"):
        raise NotAtHand("its draws came from a file")
    stored = record["models"]
    name = pair or Settings.from_record(record["settings"]).pair
    if pair is None and name not in PAIRS and not all(Path(part).is_dir() for part in name.split("|")):
        raise NotAtHand(f"'{name}' is not on this machine; say where it is with --target and --draft")
    if stored["dtype"] not in KINDS:
        raise NotAtHand(f"passes in {stored['dtype']} round differently from machine to machine")
    try:
        found = load_pair(name, stored["device"], stored["dtype"])
    except SpecvizError as error:
        raise NotAtHand(str(error)) from error
    here = fingerprints(found)
    if other := [key.removesuffix("_sha256") for key, value in here.items() if stored.get(key) != value]:
        raise NotAtHand(f"'{name}' holds another {' and '.join(other)} than the certificate names")
    return found


def redraw(record: dict[str, Any], pair: Pair, watch: Callable[[str], Callable[[float], None]]) -> Iterator[Line]:
    """Draw every answer again and compare all its fields. watch(label) makes what is told the share that is done.

    Settings and seed are confirmed with the counts: others give other draws.
    """
    settings, same = replace(Settings.from_record(record["settings"]), pair=pair.name), True
    for number, one in enumerate(record["answers"]):
        made = again(record["decoder"], one, pair, settings, watch)
        for line in compared(f"{number + 1} {one['mode']}", one, answer_of(one), made):
            same = same and line.state != ALTERED
            yield line
    if same:
        for name in ("decoder", "settings", "seed", "models"):
            yield Line(name, CONFIRMED, "the same draws, drawn again")
    yield analytic_again(record, pair, settings)
    said = {str(token): raw for token, raw in pair.pieces({int(token) for token in record["pieces"]}).items()}
    yield Line("pieces", *((CONFIRMED, "what the tokenizer makes of them") if said == record["pieces"]
                           else (ALTERED, "the tokenizer makes others of them")))  # fmt: skip


def analytic_again(record: dict[str, Any], pair: Pair, settings: Settings) -> Line:
    """The largest distance of the decoder's own law to a fresh pass, computed again along the same text.

    It is rounding, so another machine finds another number of that size: between a tenth and ten times the stored one, or
    no more than 1e-7 away. Where only shared laws were drawn the certificate states none.
    """
    stored = record["analytic_tv"]
    wanted = any(one["mode"] == sources.ENGINE for one in record["answers"])
    found = sources.analytic_tv(record["decoder"], pair, settings, pair.encode(settings.prompt)) if wanted else None
    if stored is None or found is None:
        same, said = stored is found, f"stored {stored}, computed {found}"
    else:
        near = abs(stored - found) <= ROUNDING or found / FACTOR <= stored <= found * FACTOR
        same, said = near, f"stored {stored:.2g}, computed again along the same text {found:.2g}"
    return Line("analytic_tv", CONFIRMED if same else ALTERED, said)


def again(decoder: str, one: dict[str, Any], pair: Pair, settings: Settings, watch) -> Answer:
    """One answer from new draws, in the cells that are stored, whose masses are computed anew."""
    try:
        known = one["mode"] in sources.modes(sources.known(decoder), "both", settings)
        if known and one["mode"] in (sources.SHARED, sources.ENGINE):
            sources.arguments(sources.known(decoder), pair, settings)  # a text or heads may not be here
    except SpecvizError as error:
        raise NotAtHand(str(error)) from error
    if not known or not one["n"] <= LARGEST:
        raise NotAtHand(f"{one['n']:,} draws of '{decoder}' as '{one['mode']}' cannot be drawn here")
    stored, ids = answer_of(one), pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    samples = sources.draw(decoder, stored.mode, pair, settings, ids, 0, stored.plan.n, watch(f"{stored.mode}: drawing again"))
    partition = weighed(target, ids, stored.partition, pair.stops)
    reference, reading = sources.reference(pair, settings, ids), watch(f"{stored.mode}: reading")
    return answer(stored.plan, target, draft, ids, samples, stored.mode, pair.stops, reference, reading, partition)


def weighed(target: LawSource, prompt: tuple[int, ...], partition: Partition, stops: frozenset[int]) -> Partition:
    """The same cells with their masses from the target's law: what a beginning has, less what its cells have given off."""
    own: dict[Beginning, float] = {(): 1.0}
    for length in sorted({len(name) for name in partition.names} - {0}):
        above = sorted({name[:-1] for name in partition.names if len(name) == length})
        laws = {}
        for where, rows in laws_after(target, prompt, np.array(above, dtype=np.int64).reshape(len(above), -1)):
            laws |= {above[where.start + offset]: row for offset, row in enumerate(rows)}
        own |= {name: own[name[:-1]] * float(laws[name[:-1]][name[-1]]) for name in partition.names if len(name) == length}
    masses = dict(own)
    for name in partition.names:
        if name:
            masses[name[:-1]] -= own[name]
    whole = np.array([len(name) == partition.length or (name != () and name[-1] in stops) for name in partition.names])
    return replace(partition, masses=np.array([max(0.0, masses[name]) for name in partition.names]), whole=whole)


def compared(where: str, one: dict[str, Any], stored: Answer, made: Answer) -> Iterator[Line]:
    """Stored and new, field by field. Statistics are compared where every draw fell into the cell it is said to have."""
    allowed = redraw_tolerance(stored)["draws"]
    moved = int(np.abs(stored.counts - made.counts).sum()) // 2
    masses = np.abs(stored.partition.masses - made.partition.masses).max() / stored.partition.masses.max()
    wrong = "" if masses <= MASSES else f"the target gives a cell another mass, off by {masses:.2g} of the largest"
    if stored.partition.whole.tolist() != made.partition.whole.tolist():
        wrong = "a cell is one whole text where it is stored as several, or the other way round"
    if moved > allowed:
        wrong = f"drawn again, {moved:,} of {stored.plan.n:,} draws fall into other cells; {allowed:,} may: counts or settings"
    said = f"drawn again, {moved:,} of {stored.plan.n:,} draws fall into other cells; {allowed:,} may"
    yield Line(f"{where}: cells", ALTERED if wrong else CONFIRMED, wrong or said)
    if wrong:
        return
    yield Line(f"{where}: mode", CONFIRMED, said)
    if moved:  # statistics of draws that are not quite the same: they follow from stored counts, or are left as they are
        return
    for before, after in zip(one["tests"], as_record(made)["tests"], strict=True):
        why = "" if before["name"] == after["name"] else f"drawn again, it is {after['name']}"
        for key, level in (("n", 0.0), ("statistic", STATISTICS * max(1.0, abs(after["statistic"]))), ("p_value", P_VALUES)):
            if not abs(before[key] - after[key]) <= level:
                why = f"{key}: {difference(before[key], after[key], 0.0)}"
        if why or before["name"] not in ("chi-square", "G"):
            yield Line(f"{where}: {before['name']}", ALTERED if why else CONFIRMED, why or "drawn again, it is the same")
