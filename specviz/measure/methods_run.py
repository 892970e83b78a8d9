"""Fills the gallery's records: every row decodes the same prompt in turns, keeps one round to be drawn, and draws its first token.

Turns are interleaved: in each, every row writes the same number of tokens under the same seed. The first one is not timed; it
warms up and is the run that a round is kept of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import torch

from specviz.decoding.engine import decode, randomness_of
from specviz.decoding.run import run, written
from specviz.decoding.sampler import decoded
from specviz.errors import SpecvizError
from specviz.measure.bench import Spread, machine
from specviz.measure.methods import ENTRIES, Entry, First, Lineup, Row, senseless
from specviz.models.pairs.loading import Pair
from specviz.models.remembered import RememberingPair
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.statistics.variation import cell_band, total_variation, tv_null_band
from specviz.trace import Round, Trace
from specviz.verification.draft_tree import depth, empty_tree
from specviz.verification.registry import rule_of
from specviz.verification.typical import TypicalRule

BARS = 7  # largest tokens per distribution that a kept round holds
SHOWN = 12  # tokens of the first one's distribution that get a bar
LEVELS = 3  # tokens of a draw: enough for two draft tokens, one below the other
CHUNK = 100  # draws between two looks at the watch
BAND = 0.99  # of all bars together

Watch = Callable[[float, str], None]


def line_up(
    pair: Pair,
    settings: Settings,
    turns: int = 5,
    draws: int = 2000,
    watch: Watch = lambda share, doing: None,
    keys: Sequence[str] = tuple(ENTRIES),
) -> Lineup:
    """Run every row. settings: the prompt, the distribution and the length of all; what a row is, its entry says.

    turns  timed ones, at least 1; draws  of each row's first token; keys  rows to run
    """
    rows = {key: _opened(pair, ENTRIES[key], settings) for key in keys}
    live = [key for key, row in rows.items() if not row.reason]
    work, done = len(live) * (turns + 3), 0

    def tick(doing: str, step: float = 1.0) -> None:
        nonlocal done
        done += step
        watch(min(1.0, done / work), doing)

    for key in live:
        rows[key] = replace(rows[key], trace=last_round(pair, ENTRIES[key].under(settings)))
        tick(f"{ENTRIES[key].name}: a first run")
    seconds: dict[str, list[float]] = {key: [] for key in live}
    rounds: dict[str, list[Round]] = {key: [] for key in live}
    for turn in range(turns):
        for key in live:
            spent, made = timed(pair, replace(ENTRIES[key].under(settings), seed=(settings.seed + turn) % 2**63))
            seconds[key].append(1e3 * spent / sum(len(one.committed) for one in made))
            rounds[key] += made
            tick(f"Turn {turn + 1} of {turns}: {ENTRIES[key].name}")
    remembering = RememberingPair(pair, len(pair.encode(settings.prompt)) + 1)
    for key in live:
        first = first_token(remembering, ENTRIES[key].under(settings), draws,
                            lambda share, key=key: tick(f"First tokens: {ENTRIES[key].name}", 2.0 * share))  # fmt: skip
        rows[key] = replace(rows[key], **counted(rounds[key]), ms=_spread(seconds[key]), first=first)
    now = datetime.now(UTC).strftime("%-d %B %Y")
    return Lineup(settings, tuple(rows.values()), turns, machine(pair), pair.describe(), now)


def _opened(pair: Pair, entry: Entry, settings: Settings) -> Row:
    """A row before it has run; blank where it makes no sense or cannot be opened."""
    rule = rule_of(entry.under(settings))
    reason = senseless(entry, settings)
    try:
        if not reason:
            opened(pair, entry.under(settings))
    except SpecvizError as error:
        reason = str(error)
    return Row(entry.key, rule.title, rule.exact, reason)


def timed(pair: Pair, settings: Settings) -> tuple[float, list[Round]]:
    """Seconds of one text, and its rounds; the end-of-text token does not end it, so that all write the same number."""
    ids = pair.encode(settings.prompt)
    began = time.perf_counter()
    target, proposer = opened(pair, settings)
    stream = decode(target, proposer, rule_of(settings), randomness_of(settings), settings, ids)
    made = [replace(one, full=None) for one in stream]
    return time.perf_counter() - began, made


def _spread(values: list[float]) -> tuple[float, float, float]:
    spread = Spread.of(values)
    return spread.median, spread.low, spread.high


def counted(rounds: Sequence[Round]) -> dict[str, object]:
    """Fields of a Row: tokens, passes, draft tokens, and what became of those that were tested, by depth."""
    tested: dict[int, int] = {}
    kept: dict[int, int] = {}
    for one in rounds:
        parents = tuple(decision.parent for decision in one.proposals)
        for node, decision in enumerate(one.proposals):
            if decision.accepted is not None:
                level = depth(parents, node)
                tested[level] = tested.get(level, 0) + 1
                kept[level] = kept.get(level, 0) + bool(decision.accepted)
    levels = range(max(tested, default=-1) + 1)
    return {
        "tokens": sum(len(one.committed) for one in rounds),
        "passes": len(rounds),
        "nodes": sum(len(one.proposals) for one in rounds) / len(rounds),
        "tested": tuple(tested.get(level, 0) for level in levels),
        "kept": tuple(kept.get(level, 0) for level in levels),
    }


def last_round(pair: Pair, settings: Settings) -> Trace:
    """The last round of a run that had room for all its draft tokens, with its distributions; the text before it stands as the prompt.

    The last one in which a draft token was refused, where there is one: it shows more.
    """
    whole = run(pair, settings, bars=BARS)
    ids, found = whole.prompt_ids, []
    for one in whole.rounds:
        remaining = settings.length - (len(ids) - len(whole.prompt_ids))
        refused = any(decision.accepted is False for decision in one.proposals)
        found.append((remaining > _levels(settings), refused, ids, one))
        ids += one.committed
    _, _, before, kept = max(reversed(found), key=lambda row: row[:2])
    return written(pair, settings, before, (kept,))


def _levels(settings: Settings) -> int:
    return len(settings.tree.split("-")) if settings.tree else settings.gamma


def first_token(pair: RememberingPair, settings: Settings, draws: int, watch: Callable[[float], None]) -> First:
    """Draws of the first token through the engine, beside the exact distribution of the target."""
    ids, own = pair.encode(settings.prompt), replace(settings, length=LEVELS)
    target, proposer = opened(pair, own)
    row = Prefix(ids, 0, LEVELS)
    probs = target.distributions([row], empty_tree(1))[0, 0]
    top = probs.topk(min(SHOWN, int((probs > 0).sum()))).indices.tolist()
    tokens: list[int] = []
    while len(tokens) < draws:
        count = min(CHUNK, draws - len(tokens))
        samples = decoded(target, proposer, rule_of(own), PhiloxRandomness(own.seed), own, ids, first=len(tokens), count=count)
        tokens += samples.tokens[:, 0].tolist()
        watch(count / draws)
    cells = _cells(probs, top)
    counts = np.array([tokens.count(token) for token in top])
    counts = np.append(counts, draws - counts.sum())
    masses = np.array(cells) / sum(cells)
    low, high = cell_band(masses, draws, 1.0 - (1.0 - BAND) / len(masses)).tolist()
    pieces = pair.pieces(top)
    return First(
        labels=(*(pieces[token] for token in top), ""),
        probs=tuple(cells),
        counts=tuple(counts.tolist()),
        low=tuple(low),
        high=tuple(high),
        n=draws,
        tv=total_variation(counts, masses),
        upper=tv_null_band(masses, draws, BAND).upper,
        entropy=float(torch.special.entr(probs).sum()),
        **_another_distribution(pair, own, row, probs, top),
    )


def _cells(probs: torch.Tensor, top: list[int]) -> tuple[float, ...]:
    """Masses of the tokens on show, and of all others together."""
    shown = probs[top]
    return (*shown.tolist(), max(0.0, float(probs.sum() - shown.sum())))


def _another_distribution(
    pair: RememberingPair, settings: Settings, row: Prefix, probs: torch.Tensor, top: list[int]
) -> dict[str, object]:
    """What typical acceptance writes after a chain's first draft token, whatever that is: what it keeps of the draft, and its replacement."""
    rule = rule_of(settings)
    if not isinstance(rule, TypicalRule):
        return {}
    target, proposer = opened(pair, settings)
    block = proposer.propose([row], PhiloxRandomness(settings.seed))
    shown = rule.shown(block, 0, target.distributions([row], block)[0], 0)
    total = shown.overlap + shown.left
    tv = 0.5 * float((total - probs).abs().sum())
    return {"written": _cells(total, top), "written_tv": tv, "edge": rule.at(probs).bar}
