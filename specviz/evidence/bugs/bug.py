"""What a mutant is: a published mistake as other arguments of ``decode``, with the evidence that must catch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from specviz.evidence.bugs.published import Mistake
from specviz.evidence.enumeration.boxes import Text
from specviz.evidence.enumeration.enumerate import output_distribution, target_distribution, total_variation
from specviz.models.base import LanguageModel
from specviz.models.table import TableModel
from specviz.proposers.base import Proposer
from specviz.randomness import Randomness
from specviz.settings import Settings
from specviz.verification.rule import Rule

TOY_P, TOY_Q = (
    (0.40, 0.30, 0.20, 0.07, 0.03),
    (0.15, 0.45, 0.25, 0.05, 0.10),
)  # the toy distributions of docs/reference/mistakes.md

Open = Callable[[Settings], tuple[LanguageModel, LanguageModel]]  # target and draft of a request; a LoadedPair's ``open`` is one
Table = Callable[[Text], Sequence[float]]
Probs = Sequence[float] | Table  # one distribution everywhere, or one for each prefix
TablePair = tuple[Probs, Probs]  # of target and draft


@dataclass(frozen=True, slots=True)
class Components:
    """The first four arguments of ``decode``; the random numbers as what is done to the seed's own."""

    target: LanguageModel
    proposer: Proposer
    rule: Rule
    randomness: Callable[[Randomness], Randomness] = lambda randomness: randomness


Build = Callable[[Open, Settings], Components]


@dataclass(frozen=True, slots=True, eq=False)
class Mutant(Mistake):
    """One mistake as a decoder.

    build     (open, settings) -> Arguments
    control   (open, settings) -> Arguments of the nearest decoder without the mistake
    toy       the distributions of its stated distance, as tables or as one distribution everywhere
    """

    build: Build
    control: Build
    toy: TablePair = (TOY_P, TOY_Q)

    def arguments(self, open_: Open, settings: Settings | None = None) -> Components:
        """The mutated decoder on a pair. ``open_`` is asked again for each source, so that each has its own cache."""
        return self.build(open_, settings or self.settings)

    def enumerated_tv(self, open_: Open, settings: Settings | None = None, prompt: Sequence[int] = (0,)) -> float:
        """Total variation between the exact distributions of what it writes and of what the target writes, on table models."""
        return _distance(self.build, open_, settings or self.settings, prompt)

    def control_tv(self, open_: Open, settings: Settings | None = None, prompt: Sequence[int] = (0,)) -> float:
        """The same for the decoder without the mistake."""
        return _distance(self.control, open_, settings or self.settings, prompt)

    @property
    def toy_tv(self) -> float:
        """Its distance on the toy distributions, under its own settings and length; computed once."""
        return _toy_tv(self)


@cache
def _toy_tv(mutant: Mutant) -> float:
    return mutant.enumerated_tv(on_tables(*mutant.toy))


def _distance(build: Callable[[Open, Settings], Components], open_: Open, settings: Settings, prompt: Sequence[int]) -> float:
    made = build(open_, settings)
    probs = output_distribution(
        made.target, made.proposer, made.rule, prompt, settings.max_new_tokens, randomness=made.randomness
    )
    return total_variation(probs, target_distribution(open_(settings)[0], prompt, settings.max_new_tokens))


def on_tables(p: Probs, q: Probs) -> Open:
    """Target and draft from two tables, opened as a pair is: warped by the settings. A plain distribution holds after every prefix."""
    tables = [probs if callable(probs) else (lambda ids, probs=probs: probs) for probs in (p, q)]
    vocabulary = len(tables[0](()))
    return lambda settings: tuple(TableModel(table, vocabulary, settings) for table in tables)
