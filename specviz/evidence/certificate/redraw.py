"""Draw the samples of a certificate again, with the same models, seed and mode, and compare every number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from specviz.decoding.engine import build_first_prefix
from specviz.decoding.samples import Samples
from specviz.errors import SpecvizError
from specviz.evidence import decoders
from specviz.evidence.certificate.check import ALTERED, CONFIRMED, JOINT, Line, answer_of, blocks_of, difference
from specviz.evidence.partition import EMPTY, Beginning, Partition
from specviz.evidence.report import as_record, redraw_tolerance, roughly_near
from specviz.evidence.shards import cuts
from specviz.evidence.tests import Answer, answer
from specviz.models.base import LanguageModel
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.models.pairs.names import expand_path, parse_pair_name
from specviz.models.paths import distributions_after
from specviz.progress import ProgressCallback
from specviz.settings import Settings

KINDS = ("float32", "float64")  # dtypes whose passes agree to six digits between machines
MASSES, STATISTICS = 1e-5, 1e-3  # relative tolerance for a mass and for a statistic, from float32 passes of other shapes
P_VALUES, P_NUDGED = 0.01, 0.1  # absolute tolerance if no sample moved, and if one may have moved
NUDGE = 6.0  # largest change of a sum of squares by one sample
ROUNDING, FACTOR = 1e-7, 10.0  # absolute and relative tolerance of a largest distance that is only rounding
FEW, SOME = 5, 0.3  # absolute and relative tolerance of the number of samples near an edge
LARGEST = 20_000_000  # samples


class NotAtHand(SpecvizError):
    """The models of a certificate are not available here, so nothing can be drawn again."""


def _at_hand(name: str) -> bool:
    """Whether both folders of a user-supplied pair are on this machine."""
    places = parse_pair_name(name)
    return places is not None and expand_path(places.target).is_dir() and expand_path(places.draft).is_dir()


def models(record: dict[str, Any], pair: str | None = None) -> LoadedPair:
    """Load the pair that the certificate was made with. Raises NotAtHand with the reason.

    pair  name of the pair on this machine; None: as in the certificate. A model is never downloaded from the hub for this.
    """
    if record.get("files"):
        raise NotAtHand("its samples came from a file")
    stored = record["models"]
    name = pair or Settings.from_record(record["settings"]).pair
    if pair is None and name not in PAIRS and not _at_hand(name):
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


def redraw(record: dict[str, Any], pair: LoadedPair, on_progress: Callable[[str], Callable[[float], None]]) -> Iterator[Line]:
    """Draw every answer again and compare all its fields.

    on_progress  watch(label) returns a function that is told the fraction done, in [0, 1]

    Settings and seed are confirmed by the counts, because other settings give other samples.
    """
    settings, same = replace(Settings.from_record(record["settings"]), pair=pair.name), True
    for number, one in enumerate(record["answers"]):
        where, stored = f"{number + 1} {one['mode']}", answer_of(one)
        made = again(record["decoder"], stored, pair, settings, on_progress, blocks_of(record))
        if isinstance(made, str):
            yield Line(f"{where}: cells", ALTERED, made)
            return
        for line in compared(where, one, stored, made):
            same = same and line.state != ALTERED
            yield line
    if same:
        for name in ("decoder", "settings", "seed", "models", *(["blocks"] if "blocks" in record else [])):
            yield Line(name, CONFIRMED, "drawn again, the samples are the same")
    yield analytic_again(record, pair, settings)
    said = {str(token): raw for token, raw in pair.pieces({int(token) for token in record["pieces"]}).items()}
    yield Line("pieces", *((CONFIRMED, "the bytes that the tokenizer gives") if said == record["pieces"]
                           else (ALTERED, "the tokenizer gives other bytes")))  # fmt: skip


def analytic_again(record: dict[str, Any], pair: LoadedPair, settings: Settings) -> Line:
    """Compute again the largest distance between the decoder's own distribution and an uncached pass, along the same text.

    This distance is rounding error, so another machine finds another number of the same size: between a tenth and ten times the
    stored one, or at most 1e-7 away. If samples came only from shared distributions, the certificate holds no such number.
    """
    stored = record["analytic_tv"]
    wanted = any(one["mode"] == decoders.ENGINE for one in record["answers"])
    found = decoders.analytic_tv(record["decoder"], pair, settings, pair.encode(settings.prompt)) if wanted else None
    if stored is None or found is None:
        same, said = stored is found, f"stored {stored}, computed {found}"
    else:
        near = abs(stored - found) <= ROUNDING or found / FACTOR <= stored <= found * FACTOR
        same, said = near, f"stored {stored:.2g}, computed again along the same text {found:.2g}"
    return Line("analytic_tv", CONFIRMED if same else ALTERED, said)


def again(
    decoder: str, stored: Answer, pair: LoadedPair, settings: Settings, on_progress, blocks: Sequence[tuple[int, int]] = ()
) -> Answer | str:
    """One answer from new samples, in the stored cells with recomputed masses; or the reason why the stored cells are wrong.

    blocks  which samples of the seed they are; empty: the first ones
    """
    mode, n = stored.mode, stored.plan.n
    try:
        known = mode in decoders.modes(decoders.known(decoder), "both", settings)
        if known and mode in (decoders.SHARED, decoders.ENGINE):
            decoders.arguments(decoders.known(decoder), pair, settings)  # a text or heads may be missing here
    except SpecvizError as error:
        raise NotAtHand(str(error)) from error
    if not known or not n <= LARGEST or (blocks and mode != decoders.SHARED):
        raise NotAtHand(f"{n:,} samples of '{decoder}' in mode '{mode}' cannot be drawn here")
    ids = pair.encode(settings.prompt)
    target, draft = pair.open(settings)
    if build_first_prefix(ids, settings, target.context).remaining != stored.plan.length:
        return f"the settings give texts of {settings.max_new_tokens} tokens, but the cells are for {stored.plan.length}"
    partition = weighed(target, ids, stored.partition, pair.eos_token_ids)
    if wrong := other_cells(stored.partition, partition):
        return wrong
    drawing = on_progress(f"{mode}: drawing again")
    if blocks:
        samples = decoders.draw_blocks(decoders.known(decoder), pair, settings, ids, blocks, drawing)
    else:
        samples = drawn_again(decoder, stored, pair, settings, ids, drawing)
    reference, reading = decoders.reference(pair, settings, ids), on_progress(f"{mode}: testing")
    made = answer(stored.plan, target, draft, ids, samples, mode, pair.eos_token_ids, reference, reading, partition)
    return replace(made, near=decoders.near(decoder, pair, settings, ids, partition, n, blocks))


def drawn_again(
    decoder: str, stored: Answer, pair: LoadedPair, settings: Settings, ids, on_progress: ProgressCallback
) -> Samples:
    """As many samples as are stored, in the same shards."""
    shards, n = [], stored.plan.n
    for count in cuts(stored.mode, n):
        first = sum(map(len, shards))

        def told(share: float, first: int = first, count: int = count) -> None:
            on_progress((first + count * share) / n)

        shards.append(decoders.draw(decoder, stored.mode, pair, settings, ids, first, count, told))
    return Samples(np.concatenate([shard.tokens for shard in shards]), shards[0].settings, shards[0].source)


def other_cells(stored: Partition, made: Partition) -> str:
    """Why the target's distribution, under these settings and after this prompt, contradicts the stored cells; '' if it does not."""
    if stored.whole.tolist() != made.whole.tolist():
        return "a cell holds one whole text but is stored as holding several, or the other way round"
    off = np.abs(stored.masses - made.masses).max() / stored.masses.max()
    return "" if off <= MASSES else f"a cell's mass is off by {off:.2g} of the largest: cells or settings were changed"


def weighed(target: LanguageModel, prompt: tuple[int, ...], partition: Partition, eos_token_ids: frozenset[int]) -> Partition:
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


def compared(where: str, one: dict[str, Any], stored: Answer, made: Answer) -> Iterator[Line]:
    """Compare stored and new, field by field. Chi-square and G follow from the counts; the other tests are compared directly."""
    allowed = redraw_tolerance(stored)["draws"]
    inside = max(allowed, roughly_near(stored))  # samples that may also move inside a cell
    moved = int(np.abs(stored.counts - made.counts).sum()) // 2
    said = f"drawn again, {moved:,} of {stored.plan.n:,} samples fall into other cells; {allowed:,} may"
    if moved > allowed:
        yield Line(f"{where}: cells", ALTERED, f"{said}: counts or settings were changed")
        return
    yield Line(f"{where}: cells", CONFIRMED, said)
    yield Line(f"{where}: mode", CONFIRMED, said)
    if stored.near is not None:
        yield _counted_again(where, stored.near, made.near)
    for before, after in zip(one["tests"], as_record(made)["tests"], strict=True):
        if before["name"] not in JOINT:
            why = other_test(before, after, inside)
            yield Line(f"{where}: {before['name']}", ALTERED if why else CONFIRMED, why or "drawn again, it is the same")


def _counted_again(where: str, stored: int, found: int | None) -> Line:
    """The number of samples near an edge. Elsewhere it differs a little, because the window's ends move by a tenth of its width."""
    same = found is not None and abs(stored - found) <= FEW + SOME * found
    return Line(f"{where}: redraw_tolerance", CONFIRMED if same else ALTERED, f"stored {stored:,}, counted again {found}")


def other_test(before: dict[str, Any], after: dict[str, Any], allowed: int) -> str:
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
        return f"statistic: {difference(statistic, x, 0.0)}"
    p, q, level = before["p_value"], after["p_value"], after["alpha"]
    same = abs(p - q) <= (P_VALUES if abs(statistic - x) <= rounding else P_NUDGED) and (p <= level) == (q <= level)
    return "" if same else f"p_value: {difference(p, q, 0.0)}"
