"""Two decoders under the same settings, one of which may make a mistake: samples of either, and longer texts with what it accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.decoding.sampler import Shard, decoded, shared_distributions
from specviz.decoding.samples import Samples
from specviz.evidence.bugs.bug import Arguments
from specviz.evidence.bugs.builders import honest
from specviz.evidence.bugs.registry import MUTANTS
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.randomness import PhiloxRandomness, Randomness
from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    settings  under which it decodes, with its own seed
    mistake   the id that the comparison is about
    makes     the mistake; nothing: the nearest decoder without that mistake; "honest": plain speculative decoding
    """

    name: str
    settings: Settings
    mistake: str | None
    makes: Literal["mistake", "nothing", "honest"]

    def decoder(self, pair: LoadedPair) -> tuple[Arguments, Randomness]:
        """Its arguments with caches that are empty, and its random numbers."""
        build = honest
        if self.mistake is not None and self.makes != "honest":
            mutant = MUTANTS[self.mistake]
            build = mutant.build if self.makes == "mistake" else mutant.control
        made = build(pair.open, self.settings)
        return made, made.randomness(PhiloxRandomness(self.settings.seed))


@dataclass(frozen=True, slots=True)
class Written:
    """Texts of one side, token ids without the prompt, and what became of its draft tokens. passes: of the target, over all texts."""

    texts: tuple[tuple[int, ...], ...]
    checked: int
    accepted: int
    passes: int

    @property
    def tokens(self) -> int:
        return sum(map(len, self.texts))


def samples(
    pair: LoadedPair, side: Side, shared: bool, ids: tuple[int, ...], first: int, count: int, on_progress: ProgressCallback
) -> Samples:
    """Samples ``first`` to ``first + count - 1`` of a side. shared: on shared distributions, else through the engine."""
    made, randomness = side.decoder(pair)
    decoder = made.target, made.proposer, made.rule, randomness, side.settings
    shard = Shard(*decoder, ids, pair.eos_token_ids, first, count)
    return (shared_distributions if shared else decoded)(shard, source=side.name, on_progress=on_progress)


def written(
    pair: LoadedPair, side: Side, ids: tuple[int, ...], texts: int, length: int, on_progress: ProgressCallback
) -> Written:
    """The first ``texts`` texts of a side, of ``length`` tokens, through the engine."""
    made, randomness = side.decoder(pair)
    opening = build_first_prefix(ids, replace(side.settings, max_new_tokens=length), made.target.context)
    rows, found = [replace(opening, draw=number) for number in range(texts)], [[] for _ in range(texts)]
    checked = accepted = passes = 0
    while rows:
        going = []
        for row, round_ in zip(
            rows, step(rows, made.target, made.proposer, made.rule, randomness, pair.eos_token_ids), strict=True
        ):
            verdicts = [one.accepted for one in round_.proposals if one.accepted is not None]
            checked, accepted, passes = checked + len(verdicts), accepted + sum(verdicts), passes + 1
            found[row.draw] += round_.committed
            row = advance_prefix(row, round_)
            if row.remaining > 0 and round_.committed[-1] not in pair.eos_token_ids:
                going.append(row)
        rows = going
        on_progress(max(map(len, found)) / length)
    return Written(tuple(map(tuple, found)), checked, accepted, passes)
