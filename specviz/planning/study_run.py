"""Fills the cells of a study: for every kind of text, temperature and draft the plain statistics, the forecast, and a speculative run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from specviz.models.catalogue import ASSETS
from specviz.models.loading import Pair, load_pair
from specviz.planning.kept_guess import rounds
from specviz.planning.predict import Ids, along, chances, openings, readable, written
from specviz.planning.study import DRAFTS, KINDS, STATISTICS, TEMPERATURES, Cell, Study
from specviz.proposers.copied import Copied
from specviz.proposers.gallery import opened
from specviz.proposers.texts import read
from specviz.settings import Settings
from specviz.verification.divergence import compared
from specviz.verification.warp import one_hot

SHELF = ASSETS / "texts" / "kinds"
BINS = 10  # of a draft's confidence
Texts = Sequence[tuple[Ids, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a study is: continuations of each text, tokens before and after a place, guesses of a round."""

    openings: int = 16
    opening: int = 48
    length: int = 48
    gamma: int = 4


def run_study(
    size: Size = Size(),
    seed: int = 7,
    kinds: Sequence[str] = tuple(KINDS),
    temperatures: Sequence[float] = TEMPERATURES,
    drafts: Sequence[str] = tuple(DRAFTS),
    load: Callable[[str], Pair] = load_pair,
    shelf: Path = SHELF,
    watch: Callable[[float], None] = lambda share: None,
) -> Study:
    """Every cell. load: name of a pair -> pair; shelf: the folder with one text file for each kind. watch may raise to stop it."""
    pairs = {name: load(name) for name in dict.fromkeys(DRAFTS[draft][0] for draft in drafts)}
    cells, work = [], len(kinds) * len(temperatures)
    for number, (kind, temperature) in enumerate((k, t) for k in kinds for t in temperatures):
        path = shelf / f"{kind}.txt"
        settings = Settings(temperature=temperature, length=size.length, gamma=size.gamma, seed=seed)
        first = next(iter(pairs.values()))  # the shipped drafts share their target
        own = openings(
            readable(first, read(str(path), path), size.opening, size.length), size.opening, size.length, size.openings
        )
        prompts = [prompt for prompt, _ in own]
        ours = list(zip(prompts, written(first, settings, prompts)[0], strict=True))
        for place, draft in enumerate(drafts):
            pair, asked = pairs[DRAFTS[draft][0]], replace(settings, proposer=DRAFTS[draft][1])
            cells.append(_cell(pair, asked, own, ours, kind, draft))
            watch((number + (place + 1) / len(drafts)) / work)
    models = {name: pair.describe() for name, pair in pairs.items()}
    now = datetime.now(UTC).strftime("%-d %B %Y")
    return Study(tuple(cells), size.gamma, size.openings, size.opening, size.length, seed, models, now)


def _cell(pair: Pair, settings: Settings, own: Texts, ours: Texts, kind: str, draft: str) -> Cell:
    found = statistics(pair, settings, own)
    foretold = rounds(chances(pair, settings, ours, settings.gamma), settings.gamma)
    _, count, guesses = written(pair, replace(settings, seed=settings.seed + 1), [prompt for prompt, _ in own], guessing=True)
    tested, accepted = guesses.sum(0).tolist()
    if not tested or found is None:
        return Cell(kind, settings.temperature, draft, reason="Nothing was guessed.")
    numbers = (foretold.alpha, tested, accepted, len(own) * settings.length, int(count.sum()), foretold.per_pass)
    return Cell(kind, settings.temperature, draft, found, *numbers)


def statistics(pair: Pair, settings: Settings, texts: Texts) -> dict[str, float] | None:
    """STATISTICS on texts, over the places where the proposer guesses; None where it never does.

    The divergences enter as exp(-KL), which is 0 where a law lacks a token of the other, as a guess that is certain always does. The
    calibration error is the mean distance of the draft's confidence from how often it is right about the text, in BINS bins.
    """
    target, proposer = opened(pair, settings)
    columns: dict[str, list[Tensor]] = {}
    for prompt, tokens in texts:
        tokens = [int(x) for x in tokens]
        for where, p in along(target, prompt, tokens):
            q, made = _guesses(proposer, prompt, tokens, where, p)
            here = compared(p[made].cpu(), q[made].cpu())
            here["right"] = (q[made].argmax(-1).cpu() == torch.tensor(tokens)[where][made]).double()
            for name, values in here.items():
                columns.setdefault(name, []).append(values)
    joined = {name: torch.cat(values) for name, values in columns.items()}
    if not len(joined["beta"]):
        return None
    found = {name: joined[name].mean() for name in ("entropy_p", "entropy_q", "agreement")}
    found |= {name: torch.exp(-joined[name]).mean() for name in ("kl_pq", "kl_qp")}
    found |= {"overlap": joined["beta"].mean(), "calibration": _calibration(joined["top_q"], joined["right"])}
    return {name: float(found[name]) for name in STATISTICS}


def _guesses(proposer: object, prompt: Ids, tokens: list[int], where: slice, p: Tensor) -> tuple[Tensor, Tensor]:
    """The draft's laws at some places of a text, (n, V), and where it guesses at all, (n,) bool."""
    if not isinstance(proposer, Copied):
        before = (*prompt, *tokens[: where.start])
        (_, q), *_ = along(proposer.draft, before, tokens[where])
        return q, torch.ones(len(q), dtype=torch.bool)
    guess = [proposer.follow((*prompt, *tokens[:s]), 1) for s in range(where.start, where.stop)]
    made = torch.tensor([bool(one) for one in guess])
    return one_hot(torch.tensor([one[0] if one else 0 for one in guess]), p.shape[-1]), made


def _calibration(confidence: Tensor, right: Tensor) -> Tensor:
    bins = (confidence * BINS).long().clamp(max=BINS - 1)
    gaps = [(confidence[bins == b].sum() - right[bins == b].sum()).abs() for b in range(BINS)]
    return torch.stack(gaps).sum() / len(right)
