"""Run a study: for every kind of text, distribution and draft measure the statistics, the prediction and a speculative run.

Finished cells are saved to a checkpoint file, so that an interrupted study resumes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from specviz.errors import TraceError
from specviz.evidence.testing.report import compute_digest
from specviz.jobs.tasks import Executor, PairRef
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import Proposer
from specviz.proposers.copied import CopiedTokens
from specviz.proposers.draft import DraftModel
from specviz.proposers.request import open_proposer
from specviz.proposers.source_texts import read_source_text
from specviz.records import ASSETS, Schema, build, find_difference, format_canonical_json, list_versions, read_text, write
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import (
    Ids,
    Texts,
    compute_expected_rounds,
    cut_openings,
    decode_texts,
    measure_acceptance,
)
from specviz.speed.measurement.machine import format_today
from specviz.speed.measurement.text_passes import iterate_distributions
from specviz.speed.records.study import DRAFTS, KINDS, STATISTICS, TEMPERATURES, TOP_PS, Study, StudyCell
from specviz.verification.overlap import compare_distributions
from specviz.verification.warp import build_one_hot

CHECKPOINT_SCHEMA = Schema("study-cells", 2, "The file of a study's cells")
Key = tuple[str, float, float | None, str]


@dataclass(slots=True)
class StudyCheckpoint:
    """The file and its content.

    Attributes:
        path: None: nothing is saved.
        request: Everything that determines the cells, JSON-ready; a file with another value is refused.
        cells: By kind, temperature, top-p and draft.
    """

    path: Path | None
    request: dict[str, Any]
    cells: dict[Key, StudyCell] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, request: dict[str, Any]) -> StudyCheckpoint:
        """Read what is there already, or begin.

        Raises:
            TraceError: For a file that is damaged or of another study.
            SettingsError: Where no file can be written.
        """
        saved = cls(path, json.loads(format_canonical_json(request)))
        if path is not None and os.path.exists(path):  # unlike Path.exists, false where nobody may look
            saved.add(*_read_cells(path, saved.request))
        else:
            saved.add()
        return saved

    def add(self, *cells: StudyCell) -> None:
        """Save finished cells. Raises SettingsError if the file cannot be written; the earlier one then stays."""
        self.cells |= {(cell.kind, cell.temperature, cell.top_p, cell.draft): cell for cell in cells}
        if self.path is not None:
            body = {"asked": self.request, "cells": [json.loads(json.dumps(asdict(cell))) for cell in self.cells.values()]}
            write(self.path, CHECKPOINT_SCHEMA.format_record(body | {"digest": compute_digest(body)}), over=True, name="resume")


def _read_cells(path: Path, request: dict[str, Any]) -> list[StudyCell]:
    """The cells of a file. Raises TraceError with a sentence."""
    noun = f"The file '{path}' of a study's cells"
    stored, cells = replace(CHECKPOINT_SCHEMA, noun=noun).read(read_text(path, noun), _check_digest)
    if other := find_difference(stored, request):
        raise TraceError(
            f"'{path}' keeps cells of another study: {other}. Repeat that study's command to go on with it, or name another file."
        )
    return cells


def _check_digest(record: dict[str, Any]) -> tuple[dict[str, Any], list[StudyCell]]:
    if record.pop("digest") != compute_digest(record):
        raise ValueError("its cells are not those that were written; remove it to begin anew")
    return record["asked"], [build(StudyCell, cell) for cell in record["cells"]]


TEXTS_FOLDER = ASSETS / "texts" / "kinds"
BINS = 10  # of a draft's confidence
Bins = tuple[tuple[int, float, int], ...]


@dataclass(frozen=True, slots=True)
class StudySize:
    """How large a study is: continuations of each text, tokens before and after each place, draft tokens of a round."""

    openings: int = 16
    opening: int = 48
    length: int = 48
    gamma: int = 4


def run_study(
    size: StudySize = StudySize(),
    seed: int = 7,
    kinds: Sequence[str] = tuple(KINDS),
    temperatures: Sequence[float] = TEMPERATURES,
    top_ps: Sequence[float] = TOP_PS,
    drafts: Sequence[str] = tuple(DRAFTS),
    load: Callable[[str], LoadedPair] = load_pair,
    folder: Path = TEXTS_FOLDER,
    on_progress: ProgressCallback = ignore_progress,
    resume: Path | None = None,
    executor: Executor | None = None,
) -> Study:
    """Every cell: whole distributions at the temperatures, and those of temperature 1 cut by each top-p.

    load: name of a pair -> pair; folder: with one text file for each kind; resume: the file that finished cells are saved to and
    resumed from; a cell does not depend on the others; executor: workers that measure the cells; None: this process.

    Raises TraceError for a file of another study, SettingsError for one that cannot be written.
    """
    pairs = {name: load(name) for name in dict.fromkeys(DRAFTS[draft][0] for draft in drafts)}
    distributions: list[tuple[float, float | None]] = [(temperature, None) for temperature in temperatures] + [
        (1.0, top_p) for top_p in top_ps
    ]
    work = [(kind, temperature, top_p) for kind in kinds for temperature, top_p in distributions]
    saved = StudyCheckpoint.open(resume, _build_request(size, seed, work, drafts, pairs, folder))
    wanted = [CellKey(*one, draft) for one in work for draft in drafts]
    left = [place for place in wanted if place not in saved.cells]
    texts = {kind: read_source_text(str(path), path) for kind in kinds if (path := folder / f"{kind}.txt")}
    if executor is None:
        measuring = CellMeasurer(pairs, texts, size, seed)
        found: Iterable[tuple[CellKey, StudyCell]] = ((place, measuring.measure(place)) for place in left)
    else:
        there = tuple(PairRef.from_pair(pair, Settings(pair=name)) for name, pair in pairs.items())
        found = executor.run_all(StudyTask(there, texts, size, seed), left)
    for _, cell in found:
        saved.add(cell)
        on_progress(len(saved.cells) / len(wanted))
    cells = [saved.cells[place] for place in wanted]
    models = {name: pair.describe() for name, pair in pairs.items()}
    return Study(tuple(cells), **asdict(size), seed=seed, models=models, date=format_today())


def _build_request(
    size: StudySize,
    seed: int,
    work: Sequence[tuple[str, float, float | None]],
    drafts: Sequence[str],
    pairs: Mapping[str, LoadedPair],
    folder: Path,
) -> dict[str, Any]:
    """The values that determine the cells, with the versions that another machine may have in another state."""
    kinds = dict.fromkeys(kind for kind, _, _ in work)
    return {
        **asdict(size),
        "seed": seed,
        "distributions": work,
        "drafts": drafts,
        "texts": {kind: hashlib.sha256((folder / f"{kind}.txt").read_bytes()).hexdigest() for kind in kinds},
        "models": {name: pair.describe() | hash_pair(pair) for name, pair in pairs.items()},
        "versions": list_versions(),
    }


class CellKey(NamedTuple):
    """A cell to be measured: where it stands in the study."""

    kind: str
    temperature: float
    top_p: float | None
    draft: str

    def __str__(self) -> str:
        cut = "" if self.top_p is None else f", top-p {self.top_p:g}"
        return f"cell {self.kind}, {self.draft}, temperature {self.temperature:g}{cut}"


@dataclass(frozen=True, slots=True)
class StudyTask:
    """The cells as items of a task. texts: one of each kind."""

    pairs: tuple[PairRef, ...]
    texts: Mapping[str, str]
    size: StudySize
    seed: int

    def prepare(self) -> Callable[[CellKey, ProgressCallback], StudyCell]:
        measuring = CellMeasurer({pair.name: pair.load() for pair in self.pairs}, self.texts, self.size, self.seed)
        return lambda place, on_progress: measuring.measure(place)


class CellMeasurer:
    """Measures cells one after the other, and keeps what the cells of the current text and distribution share."""

    def __init__(self, pairs: Mapping[str, LoadedPair], texts: Mapping[str, str], size: StudySize, seed: int):
        self.pairs, self.texts, self.size, self.seed = pairs, texts, size, seed
        self.first = next(iter(pairs.values()))  # the shipped drafts share their target
        self.shared: tuple[tuple, Settings, Texts, Texts] | None = None

    def measure(self, place: CellKey) -> StudyCell:
        if self.shared is None or self.shared[0] != place[:3]:
            self.shared = place[:3], *self._prepare_texts(place)
        _, settings, own, ours = self.shared
        pair, proposer = DRAFTS[place.draft]
        return _measure_cell(self.pairs[pair], replace(settings, proposer=proposer), own, ours, place.kind, place.draft)

    def _prepare_texts(self, place: CellKey) -> tuple[Settings, Texts, Texts]:
        """The settings, the places of the text with what follows them there, and with what the target writes after them."""
        size = self.size
        settings = Settings(
            temperature=place.temperature, top_p=place.top_p, max_new_tokens=size.length, gamma=size.gamma, seed=self.seed
        )
        own = cut_openings(self.first, self.texts[place.kind], size.opening, size.length, size.openings)
        prompts = [prompt for prompt, _ in own]
        return settings, own, list(zip(prompts, decode_texts(self.first, settings, prompts)[0], strict=True))


def _measure_cell(pair: LoadedPair, settings: Settings, own: Texts, ours: Texts, kind: str, draft: str) -> StudyCell:
    found = compute_statistics(pair, settings, own)
    predicted = compute_expected_rounds(measure_acceptance(pair, settings, ours, settings.gamma), settings.gamma)
    other = replace(settings, seed=settings.seed + 1)
    _, count, checked = decode_texts(pair, other, [prompt for prompt, _ in own], is_speculative=True)
    tested, accepted = checked.sum(0).tolist()
    if not tested or found is None:
        return StudyCell(kind, settings.temperature, draft, reason="Nothing was drafted.", top_p=settings.top_p)
    numbers = (predicted.alpha, tested, accepted, len(own) * settings.max_new_tokens, int(count.sum()), predicted.per_pass)
    return StudyCell(kind, settings.temperature, draft, found[0], *numbers, top_p=settings.top_p, bins=found[1])


def compute_statistics(pair: LoadedPair, settings: Settings, texts: Texts) -> tuple[dict[str, float], Bins] | None:
    """STATISTICS on texts, over the places where the proposer drafts, and the bins of a cell; None if it never drafts.

    Divergences enter as exp(-KL), which is 0 where one distribution lacks a token of the other; a copied token, which has q = 1, always
    does. The calibration error is the mean distance of the draft's confidence from how often it is right about the text, in BINS bins.
    """
    target, proposer = open_proposer(pair, settings)
    columns: dict[str, list[Tensor]] = {}
    for prompt, tokens in texts:
        tokens = [int(x) for x in tokens]
        for where, p in iterate_distributions(target, prompt, tokens):
            q, made = _compute_draft_distributions(proposer, prompt, tokens, where, p)
            here = compare_distributions(p[made].cpu(), q[made].cpu())
            here["right"] = (q[made].argmax(-1).cpu() == torch.tensor(tokens)[where][made]).double()
            for name, values in here.items():
                columns.setdefault(name, []).append(values)
    joined = {name: torch.cat(values) for name, values in columns.items()}
    if not len(joined["beta"]):
        return None
    found = {name: joined[name].mean() for name in ("entropy_p", "entropy_q", "agreement")}
    found |= {name: torch.exp(-joined[name]).mean() for name in ("kl_pq", "kl_qp")}
    bins = _bin_confidence(joined["top_q"], joined["right"])
    gaps = sum(abs(sure - right) for _, sure, right in bins)
    found |= {"overlap": joined["beta"].mean(), "calibration": gaps / len(joined["beta"])}
    return {name: float(found[name]) for name in STATISTICS}, bins


def _compute_draft_distributions(
    proposer: Proposer, prompt: Ids, tokens: list[int], where: slice, p: Tensor
) -> tuple[Tensor, Tensor]:
    """The draft's distributions at some places of a text, (n, V), and where it drafts at all, (n,) bool."""
    if not isinstance(proposer, CopiedTokens):
        (_, q), *_ = iterate_distributions(cast(DraftModel, proposer).draft, (*prompt, *tokens[: where.start]), tokens[where])
        return q, torch.ones(len(q), dtype=torch.bool)
    copied = [proposer.follow((*prompt, *tokens[:s]), 1) for s in range(where.start, where.stop)]
    made = torch.tensor([bool(one) for one in copied])
    return build_one_hot(torch.tensor([one[0] if one else 0 for one in copied]), p.shape[-1]), made


def _bin_confidence(confidence: Tensor, right: Tensor) -> Bins:
    place = (confidence * BINS).long().clamp(max=BINS - 1)
    return tuple(
        (int((place == b).sum()), float(confidence[place == b].sum()), int(right[place == b].sum())) for b in range(BINS)
    )
