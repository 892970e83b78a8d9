"""Fills the gallery's records: every row decodes the same prompt by one clock, keeps one round to be drawn, and draws its first token.

In each run of the clock every row writes the same number of tokens under the same seed. A first run is not timed: it warms up, and it
is the one that a round is kept of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import torch

from specviz.decoding.engine import decode, randomness_of
from specviz.decoding.run import run, written
from specviz.decoding.sampler import Shard, decoded
from specviz.errors import SpecvizError
from specviz.measure.bench import machine
from specviz.measure.clock import Clock, Contestant, Lap
from specviz.measure.methods import ENTRIES, First, Lineup, Method, MethodRow, senseless
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
MS = "ms/token"
BAND = 0.99  # of all bars together

Watch = Callable[[float, str], None]


def line_up(
    pair: Pair,
    settings: Settings,
    runs: int = 6,
    draws: int = 2000,
    watch: Watch = lambda share, doing: None,
    keys: Sequence[str] = tuple(ENTRIES),
) -> Lineup:
    """Run every row. settings: the prompt, the distribution and the length of all; what a row is, its entry says.

    runs  timed ones, at least 1; draws  of each row's first token; keys  rows to run
    """
    rows = {key: _opened(pair, ENTRIES[key], settings) for key in keys}
    live = [key for key, row in rows.items() if not row.reason]
    work = len(live) * (runs + 3)

    def tell(done: float, doing: str) -> None:
        watch(min(1.0, done / work), doing)

    for number, key in enumerate(live):
        tell(number, f"{ENTRIES[key].name}: a first run")
        rows[key] = replace(rows[key], trace=last_round(pair, ENTRIES[key].under(settings)))
    clock = Clock({key: _writing(pair, ENTRIES[key].under(settings)) for key in live}, warm=0)
    clock.until(runs, lambda share, run, key: tell(len(live) * (1 + runs * share), f"Run {run} of {runs}: {ENTRIES[key].name}"))
    remembering = RememberingPair(pair, len(pair.encode(settings.prompt)) + 1)
    for number, key in enumerate(live):

        def told(done: float, number: int = number, key: str = key) -> None:
            tell(len(live) * (1 + runs) + 2 * (number + done), f"First tokens: {ENTRIES[key].name}")

        first = first_token(remembering, ENTRIES[key].under(settings), draws, told)
        ms = clock.median(key, settings.length).times(1e3, MS)
        rows[key] = replace(rows[key], **counted(clock.kept(key)), ms=ms, first=first)
    now = datetime.now(UTC).strftime("%-d %B %Y")
    return Lineup(settings, tuple(rows.values()), runs, machine(pair), pair.describe(), now)


def _opened(pair: Pair, entry: Method, settings: Settings) -> MethodRow:
    """A row before it has run; blank where it makes no sense or cannot be opened."""
    rule = rule_of(entry.under(settings))
    reason = senseless(entry, settings)
    try:
        if not reason:
            opened(pair, entry.under(settings))
    except SpecvizError as error:
        reason = str(error)
    return MethodRow(entry.key, rule.title, rule.exact, reason)


def _writing(pair: Pair, settings: Settings) -> Contestant:
    """One text a run; the end-of-text token does not end it, so that all write the same number of tokens."""

    def write(lap: Lap) -> None:
        own = replace(settings, seed=(settings.seed + lap.run - 1) % 2**63)
        target, proposer = opened(pair, own)
        for one in decode(target, proposer, rule_of(own), randomness_of(own), own, pair.encode(own.prompt)):
            lap.keep(replace(one, full=None))

    return write


def counted(rounds: Sequence[Round]) -> dict[str, object]:
    """Fields of a MethodRow: tokens, passes, draft tokens, and what became of those that were tested, by depth."""
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
    """Draws of the first token through the engine, beside the exact distribution of the target. watch: told the share that is done."""
    ids, own = pair.encode(settings.prompt), replace(settings, length=LEVELS)
    target, proposer = opened(pair, own)
    row = Prefix(ids, 0, LEVELS)
    probs = target.distributions([row], empty_tree(1))[0, 0]
    top = probs.topk(min(SHOWN, int((probs > 0).sum()))).indices.tolist()
    tokens: list[int] = []
    while len(tokens) < draws:
        count = min(CHUNK, draws - len(tokens))
        shard = Shard(target, proposer, rule_of(own), PhiloxRandomness(own.seed), own, ids, first=len(tokens), count=count)
        samples = decoded(shard)
        tokens += samples.tokens[:, 0].tolist()
        watch(len(tokens) / draws)
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
