"""The exact distribution of what a decoder writes, by walking every outcome of the production ``engine.step`` on small table models.

Nothing is copied from the decoder and nothing it records is believed. A round is a function of independent numbers, each
known by the address at which the seed's random numbers would be asked for it, after a mutant's wrapper has had its way. The cube of
these numbers is cut at the edges that the production functions say they compared a number with (boxes.py). A number that is
met again, for another purpose or by a later round, keeps the interval that it is already known to lie in, so a re-used random number
is no special case.

What is not known is stated: intervals too thin for float64 are not looked into, and where the mass that could hide there is
above MISSED, NotEnumerated is raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specviz.decoding.engine import advance, opening_row
from specviz.evidence.enumeration.boxes import Address, Box, Cutter, NotEnumerated, Text, Wrapper, share
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draft_tree import DraftTree, empty_tree
from specviz.verification.token_rule import Rule

MISSED = 1e-12  # most probability that may lie where nothing was looked into


@dataclass
class Remembered:
    """Another source's distributions, each prefix asked for once and alone: for sources whose distributions depend on the tokens only."""

    source: LanguageModel
    known: dict[Text, Tensor] = field(default_factory=dict)

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def probs(self, ids: Text) -> Tensor:
        """(V,) float64, the distribution of the token after ``ids``."""
        if ids not in self.known:
            self.known[ids] = self.source.distributions([Prefix(ids, 0, 1)], empty_tree(1))[0, 0]
        return self.known[ids]

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        nothing = torch.zeros(self.vocabulary, dtype=torch.float64)
        result, places = [], block.widest + 1
        for index, row in enumerate(rows):
            paths = [row.ids]
            for token, parent in zip(block.tokens[index], block.parents[index], strict=True):
                paths.append((*paths[parent + 1], token))
            result += [self.probs(ids) for ids in paths] + [nothing] * (places - len(paths))
        return torch.stack(result).view(len(rows), places, -1)


def target_distribution(
    target: LanguageModel, prompt: Sequence[int], length: int, eos_token_ids: frozenset[int] = frozenset()
) -> dict[Text, float]:
    """Distribution of the texts that the target writes alone: ``length`` tokens, fewer where a stop token comes first."""
    result, open_ = {}, {(): 1.0}
    for place in range(length):
        rows = [Prefix((*prompt, *text), place, length - place) for text in open_]
        distributions = target.distributions(rows, empty_tree(len(rows)))[:, 0].tolist()
        grown = {
            (*text, x): mass * m
            for (text, mass), probs in zip(open_.items(), distributions, strict=True)
            for x, m in enumerate(probs)
            if m
        }
        ended = {text for text in grown if len(text) == length or text[-1] in eos_token_ids}
        result |= {text: grown[text] for text in ended}
        open_ = {text: mass for text, mass in grown.items() if text not in ended}
        if not open_:
            break
    return result


def output_distribution(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    prompt: Sequence[int],
    length: int,
    eos_token_ids: frozenset[int] = frozenset(),
    randomness: Wrapper = lambda randomness: randomness,
) -> dict[Text, float]:
    """Distribution of what ``engine.decode`` writes after ``prompt``: ``length`` tokens at most, fewer where a stop token comes first.

    randomness    what is done to the seed's random numbers; the identity for an honest decoder
    returns  text -> probability; all of them together are wrong by 1e-12 at most. Cost grows with V to the power of length + gamma: V of 3 to 5, length to 4.
    """
    return Walk(target, proposer, rule, eos_token_ids, randomness).texts(_opening(target, prompt, length))


def tokens_per_pass(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    prompt: Sequence[int],
    length: int,
    eos_token_ids: frozenset[int] = frozenset(),
    randomness: Wrapper = lambda randomness: randomness,
) -> float:
    """Mean number of tokens that the first round of a run of ``length`` commits."""
    probs = Walk(target, proposer, rule, eos_token_ids, randomness).round_distribution(_opening(target, prompt, length))
    return sum(len(text) * mass for text, mass in probs.items())


def total_variation(one: dict[Text, float], other: dict[Text, float]) -> float:
    """Half the sum of the absolute differences of two distributions over texts."""
    return sum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other}) / 2


def _opening(target: LanguageModel, prompt: Sequence[int], length: int) -> Prefix:
    return opening_row(prompt, Settings(length=length), target.context)


class Walk:
    """Every outcome of every round, for one set of arguments of ``step``; rounds that are met again are walked once.

    seed  of the points that are executed; no result depends on it
    """

    def __init__(
        self,
        target: LanguageModel,
        proposer: Proposer,
        rule: Rule,
        eos_token_ids: frozenset[int],
        randomness: Wrapper,
        seed: int = 0,
    ):
        self.eos_token_ids = eos_token_ids
        self.cutter = Cutter(target, proposer, rule, eos_token_ids, randomness, seed)
        self.remembers = getattr(proposer, "remembers", False)  # else the past is dropped, and rounds that met one text are one
        self._rounds: dict[tuple, tuple[list[tuple[Prefix, float, Box]], float]] = {}
        self._ahead: dict[tuple, frozenset[Address]] = {}
        self._texts: dict[tuple, tuple[dict[Text, float], float]] = {}

    def texts(self, row: Prefix) -> dict[Text, float]:
        """Distribution of the rest of the text. Raises NotEnumerated where more than MISSED of it was not looked into."""
        found, missed = self._rest(row, {})
        return _complete(found, missed)

    def missed(self, row: Prefix) -> float:
        """How much of the rest of the text was not looked into, at most: a probability."""
        return self._rest(row, {})[1]

    def _rest(self, row: Prefix, known: Box) -> tuple[dict[Text, float], float]:
        """Distribution of the rest of the text and what was missed of it, given what is known of numbers that may be met again."""
        key = row.ids, row.past, tuple(sorted(known.items()))
        if key not in self._texts:
            result: dict[Text, float] = defaultdict(float)
            missed = self._walked(row, known)[1]
            for after, mass, box in self._merged(row, known):
                committed = after.ids[len(row.ids) :]
                found, lost = ({(): 1.0}, 0.0) if self._ended(after) else self._rest(after, box)
                missed += mass * lost
                for rest, more in found.items():
                    result[committed + rest] += mass * more
            self._texts[key] = dict(result), missed
        return self._texts[key]

    def round_distribution(self, row: Prefix) -> dict[Text, float]:
        """Distribution of the tokens that one round commits. Raises as ``texts`` does."""
        result: dict[Text, float] = defaultdict(float)
        for after, mass, _ in self.round(row, {}):
            result[after.ids[len(row.ids) :]] += mass
        return _complete(dict(result), self._walked(row, {})[1])

    def round(self, row: Prefix, known: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes of one round: the row after it, probability, and the box in which the numbers asked for then lie."""
        return self._walked(row, known)[0]

    def _walked(self, row: Prefix, known: Box) -> tuple[list[tuple[Prefix, float, Box]], float]:
        """The outcomes of one round, and how much of it was missed."""
        key = row.ids, row.past, tuple(sorted(known.items()))
        if key not in self._rounds:
            found, missed = self.cutter.cut(row, known)
            self._rounds[key] = [(self._after(row, one), share(box, known), box) for one, box in found], missed
        return self._rounds[key]

    def _merged(self, row: Prefix, known: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes, put together where they differ in nothing that the rest of the text can depend on."""
        result: dict[tuple, float] = defaultdict(float)
        for after, mass, box in self.round(row, known):
            ahead = frozenset() if self._ended(after) else self._ahead_of(after)
            kept = {address: where for address, where in (known | box).items() if address in ahead}
            result[after, tuple(sorted(kept.items()))] += mass
        return [(after, mass, dict(box)) for (after, box), mass in result.items()]

    def _ahead_of(self, row: Prefix) -> frozenset[Address]:
        """Every number that any continuation of a row can ask for."""
        key = row.ids, row.past
        if key not in self._ahead:
            found: set[Address] = set()
            for after, _, box in self.round(row, {}):
                found |= {*box, *(() if self._ended(after) else self._ahead_of(after))}
            self._ahead[key] = frozenset(found)
        return self._ahead[key]

    def _after(self, row: Prefix, round_: Round) -> Prefix:
        assert 1 <= len(round_.committed) <= row.remaining, (
            "a round writes at least one token and never more than there is room for"
        )
        after = advance(row, round_)
        return after if self.remembers else replace(after, past=())

    def _ended(self, after: Prefix) -> bool:
        return after.ids[-1] in self.eos_token_ids or after.remaining == 0


def _complete(found: dict[Text, float], missed: float) -> dict[Text, float]:
    """A distribution of which no more than MISSED was not looked into."""
    if missed > MISSED:
        raise NotEnumerated(f"{missed:.1e} of the probability lies where float64 cannot look; {MISSED:.0e} is allowed.")
    assert abs(sum(found.values()) + missed - 1.0) < MISSED, "boxes fill the cube and do not overlap"
    return found
