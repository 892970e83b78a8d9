"""The report of a verification, JSON-ready: the settings, the samples, the result of each test, and the versions that ran.

Pages, exports and certificates read only this record. It holds the cells with their exact masses and counts, so that anyone can
compute chi-square, G and the total variation again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from specviz.evidence.testing.borderline import NEAR
from specviz.evidence.testing.hypothesis_tests import TestReport
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair
from specviz.records import format_canonical_json, list_versions
from specviz.settings import Settings
from specviz.statistics.finding import Finding
from specviz.statistics.power import adjust_p_values

SCHEMA = "specviz-verify-2"
RULE_ONLY = "The rule is consistent; the cached decoder was not sampled."


def build_report(
    decoder: str,
    answers: list[TestReport],
    pair: LoadedPair,
    settings: Settings,
    analytic_tv: float | None = None,
    files: Sequence[dict[str, Any]] = (),
    file_note: str = "",
    blocks: Sequence[tuple[int, int]] = (),
) -> dict[str, Any]:
    """One record for all sampled modes. Its verdict is that of the first rejected answer, or of the first answer if none was.

    ``answers``: at least one, in order of precedence. ``analytic_tv``: largest total variation between the decoder's own
    distribution and an uncached pass; None: not computed. ``files``: descriptions of the sample files, if there are any.
    ``file_note``: a sentence about these files. ``blocks``: which samples of the seed were tested, (first, count) each in their
    order; empty: the first ones.
    """
    spoken = next((one for one in answers if one.verdict == "rejected"), answers[0])
    note = file_note or make_note(spoken.verdict, [one.mode for one in answers])
    notes = pair.list_notes(settings)
    return seal_report(
        decoder,
        [build_answer(one) for one in answers],
        note,
        settings,
        files,
        pair.describe() | hash_pair(pair) | ({"notes": notes} if notes else {}),
        collect_token_bytes(pair, answers),
        analytic_tv,
        **({"blocks": [list(block) for block in blocks]} if blocks else {}),
    )


def seal_report(
    decoder: str,
    answers: Sequence[dict[str, Any]],
    note: str,
    settings: Settings,
    files: Sequence[dict[str, Any]],
    models: dict[str, Any],
    pieces: dict[str, str] | None = None,
    analytic_tv: float | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """The record of these answers, sealed. fields: further ones."""
    spoken = next((one for one in answers if one["verdict"] == "rejected"), answers[0])
    return seal(
        {
            "schema": SCHEMA,
            "decoder": decoder,
            **{name: value for name, value in spoken.items() if name != "cells"},
            "note": note,
            "analytic_tv": analytic_tv,
            "seed": settings.seed,
            "settings": settings.to_record(),
            "answers": list(answers),
            "pieces": pieces or {},
            "files": list(files),
            "models": models,
            "versions": list_versions(),
        }
        | fields
    )


def make_note(verdict: str, modes: Sequence[str]) -> str:
    """The note beside a verdict: that the cached decoder was not sampled, or ''."""
    return RULE_ONLY if verdict == "consistent" and all(mode == "shared distributions" for mode in modes) else ""


def build_answer(answer: TestReport) -> dict[str, Any]:
    """One mode's answer."""
    partition = answer.partition
    cells = zip(partition.names, partition.masses.tolist(), answer.counts.tolist(), partition.is_whole_text.tolist(), strict=True)
    return {
        "verdict": answer.verdict,
        "sentence": answer.sentence,
        "mode": answer.mode,
        "n": answer.plan.n,
        "tests": [asdict(test) | {"adjusted_p": p} for test, p in zip(answer.tests, answer.adjusted, strict=True)],
        "tv": answer.tv,
        "tv_null_band": answer.band._asdict(),
        "detectable_tv": answer.detectable_tv,
        "pooled_mass": answer.partition.pooled_mass,
        "plan": asdict(answer.plan),
        "redraw_tolerance": build_redraw_tolerance(answer),
        "cells": [{"begins": list(name), "mass": mass, "count": count, "whole": whole} for name, mass, count, whole in cells],
        **({} if answer.coverage is None else {"exercised": answer.coverage.to_record()}),
        **({} if answer.whole_samples is None else {"whole_samples": answer.whole_samples}),
    }


def build_answer_without_cells(
    mode: str, n: int, verdict: str, sentence: str, tests: Sequence[Finding], detectable_tv: float, plan: Mapping[str, Any]
) -> dict[str, Any]:
    """An answer that follows from findings and plan alone. Fields that need cells are None."""
    adjusted = adjust_p_values([test.p_value for test in tests])
    return {
        "verdict": verdict,
        "sentence": sentence,
        "mode": mode,
        "n": n,
        "tests": [asdict(test) | {"adjusted_p": p} for test, p in zip(tests, adjusted, strict=True)],
        "tv": None,
        "tv_null_band": None,
        "detectable_tv": detectable_tv,
        "pooled_mass": None,
        "plan": dict(plan),
        "redraw_tolerance": None,
        "cells": [],
    }


def build_redraw_tolerance(answer: TestReport) -> dict[str, Any]:
    """How many samples may fall into another cell when the same seed is drawn again on another machine, in float32.

    Passes of other shapes round differently, so a random number within NEAR of the value it is compared with may fall on the other
    side. Where shared distributions give the same samples, these are counted one by one; otherwise their number is estimated.
    """
    why = f"random numbers within {NEAR:g} of a threshold or of the edge of a token"
    if answer.borderline is not None:
        return {"draws": answer.borderline, "counted": True, "why": why}
    return {"draws": estimate_borderline(answer), "counted": False, "why": f"an estimate of the {why}"}


def estimate_borderline(answer: TestReport) -> int:
    """Estimate the number of borderline samples: ``NEAR * n * (2 L + 8 cells)``.

    Each position of a sample has an acceptance threshold, and each cell has two edges that draft token and replacement can meet.
    Not counted: draft tokens at the edge of two tokens of the same cell, of which one is accepted and the other replaced.
    """
    return ceil(NEAR * answer.plan.n * (2 * answer.plan.length + 8 * len(answer.counts)))


def collect_token_bytes(pair: LoadedPair, answers: list[TestReport]) -> dict[str, str]:
    """The bytes, as hex, of every token in a cell's name."""
    tokens = {token for one in answers for name in one.partition.names for token in name}
    return {str(token): raw for token, raw in pair.read_pieces(tokens).items()}


SEALS = ("digest", "digests")


def seal(record: dict[str, Any]) -> dict[str, Any]:
    """The record with ``digest`` (of everything) and ``digests`` (of each part by name). Earlier ones are replaced."""
    plain = {key: value for key, value in record.items() if key not in SEALS}
    return plain | {
        "digest": compute_digest(plain),
        "digests": {name: compute_digest(value) for name, value in split_fields(plain).items()},
    }


def find_changes(record: dict[str, Any]) -> set[str]:
    """Names of the parts that differ from what was sealed; ``digest`` if only the whole differs; empty if nothing does."""
    plain = {key: value for key, value in record.items() if key not in SEALS}
    here, stored = {name: compute_digest(value) for name, value in split_fields(plain).items()}, record["digests"]
    found = {name for name in {*here, *stored} if here.get(name) != stored.get(name)}
    return found | ({"digest"} if compute_digest(plain) != record["digest"] and not found else set())


def split_fields(record: dict[str, Any]) -> dict[str, Any]:
    """A record's fields by name. Fields of its answers are named ``number mode: field``, their tests one by one."""
    found = {name: value for name, value in record.items() if name not in (*SEALS, "answers", "tests")}
    found["tests"] = record.get("tests")
    for number, answer in enumerate(record.get("answers", ())):
        where = f"{number + 1} {answer['mode']}"
        found |= {f"{where}: {name}": value for name, value in answer.items() if name != "tests"}
        found |= {f"{where}: {test['name']}": test for test in answer["tests"]}
    return found


def compute_digest(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(format_canonical_json(value).encode("ascii")).hexdigest()
