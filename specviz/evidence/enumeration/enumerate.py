"""The exact distribution of what a decoder writes, by enumerating every outcome of the production ``engine.step`` on small tables.

Nothing is copied from the decoder, and nothing it records is believed. A round is a function of independent random numbers, each
known by the address at which the seed is asked for it, after a mutant has changed the addresses. The cube of these numbers is cut
at the edges with which the production functions report comparisons (boxes.py). A number that is used again, for another purpose or
by a later round, keeps the interval in which it is already known to lie, so reused random numbers are no special case.

Intervals too thin for float64 are not looked into. If the mass that could hide there is above MISSED, NotEnumerated is raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specviz.decoding.engine import advance_prefix, build_first_prefix
from specviz.evidence.enumeration.boxes import Address, Box, BoxCutter, NotEnumerated, Text, Wrapper, share
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draft_tree import empty_tree
from specviz.verification.rule import Rule

MISSED = 1e-12  # most probability that may lie where nothing was looked into


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

    randomness  as in BoxCutter
    returns     text -> probability; all of them together are wrong by 1e-12 at most. Cost grows with V to the power of
                length + gamma: V of 3 to 5, length to 4
    """
    return Enumerator(target, proposer, rule, eos_token_ids, randomness).texts(_opening(target, prompt, length))


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
    probs = Enumerator(target, proposer, rule, eos_token_ids, randomness).round_distribution(_opening(target, prompt, length))
    return sum(len(text) * mass for text, mass in probs.items())


def total_variation(one: dict[Text, float], other: dict[Text, float]) -> float:
    """Half the sum of the absolute differences of two distributions over texts."""
    return sum(abs(one.get(text, 0.0) - other.get(text, 0.0)) for text in {*one, *other}) / 2


def _opening(target: LanguageModel, prompt: Sequence[int], length: int) -> Prefix:
    return build_first_prefix(prompt, Settings(max_new_tokens=length), target.context)


class Enumerator(BoxCutter):
    """Every outcome of every round of one decoder. A round that occurs again is enumerated once."""

    def __init__(self, *decoder: Any, **more: Any):
        super().__init__(*decoder, **more)
        self.remembers = getattr(self.proposer, "remembers", False)  # else the past is dropped, and rounds after one text are one
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
            missed = self._outcomes(row, known)[1]
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
        return _complete(dict(result), self._outcomes(row, {})[1])

    def round(self, row: Prefix, known: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes of one round: the row after it, probability, and the box in which the numbers asked for then lie."""
        return self._outcomes(row, known)[0]

    def _outcomes(self, row: Prefix, known: Box) -> tuple[list[tuple[Prefix, float, Box]], float]:
        """The outcomes of one round, and how much of it was missed."""
        key = row.ids, row.past, tuple(sorted(known.items()))
        if key not in self._rounds:
            found, missed = self.cut(row, known)
            self._rounds[key] = [(self._after(row, one), share(box, known), box) for one, box in found], missed
        return self._rounds[key]

    def _merged(self, row: Prefix, known: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes, put together where they differ in nothing that the rest of the text can depend on."""
        result: dict[tuple, float] = defaultdict(float)
        for after, mass, box in self.round(row, known):
            ahead = frozenset() if self._ended(after) else self._ahead_of(after)
            needed = {address: where for address, where in (known | box).items() if address in ahead}
            result[after, tuple(sorted(needed.items()))] += mass
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
        assert 1 <= len(round_.committed) <= row.remaining, "a round writes at least one token and at most the remaining ones"
        after = advance_prefix(row, round_)
        return after if self.remembers else replace(after, past=())

    def _ended(self, after: Prefix) -> bool:
        return after.ids[-1] in self.eos_token_ids or after.remaining == 0


def _complete(found: dict[Text, float], missed: float) -> dict[Text, float]:
    """A distribution of which no more than MISSED was not looked into."""
    if missed > MISSED:
        raise NotEnumerated(f"{missed:.1e} of the probability lies where float64 cannot look; {MISSED:.0e} is allowed.")
    assert abs(sum(found.values()) + missed - 1.0) < MISSED, "boxes fill the cube and do not overlap"
    return found
