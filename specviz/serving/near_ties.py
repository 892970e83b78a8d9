"""The microscope on near ties: two greedy texts of one prompt, the first place where they part, and how near the first two tokens were there.

A greedy text follows the largest logit. Rounding moves logits by little, so two ways of serving one target agree until the
first two logits lie nearer together than that; from there on they write different texts. Plain records, no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from specviz.errors import TraceError

DIGITS = 6  # that a record keeps of a margin


@dataclass(frozen=True, slots=True)
class Arm:
    """Two ways to write a greedy text: the first is what the second is held against. draft tokens: whether the second one has a draft."""

    key: str
    name: str
    first: str
    second: str
    draft_tokens: bool = False


ARMS = {
    arm.key: arm
    for arm in (
        Arm("bf16", "bf16", "float32", "bfloat16"),
        Arm("int8", "int8", "float32", "int8"),
        Arm("bf16-blocks", "bf16 + draft tokens", "bfloat16, alone", "bfloat16, with draft tokens", True),
        Arm("fp32-blocks", "fp32 + draft tokens", "float32, alone", "float32, with draft tokens", True),
    )
}


@dataclass(frozen=True, slots=True)
class Greedy:
    """One greedy text: its tokens, and how far apart the two largest logits were before each, in logits, at least 0."""

    tokens: tuple[int, ...]
    margins: tuple[float, ...]


def parting(one: Greedy, other: Greedy) -> int | None:
    """The first place with different tokens, from 0; None where there is none."""
    pairs = enumerate(zip(one.tokens, other.tokens, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


@dataclass(frozen=True, slots=True)
class Pairing:
    """One prompt under one arm. begins: the end of the prompt; pieces: id -> bytes as hex, of every token that it mentions."""

    begins: tuple[int, ...]
    first: Greedy
    second: Greedy
    pieces: Mapping[int, str]

    @property
    def place(self) -> int | None:
        return parting(self.first, self.second)

    @property
    def margins(self) -> tuple[float, float] | None:
        """Margins of both where they part."""
        return None if self.place is None else (self.first.margins[self.place], self.second.margins[self.place])

    @property
    def shared(self) -> int:
        """Tokens that both have in common from the beginning."""
        return len(self.first.tokens) if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class Microscope:
    """Every prompt under every arm that could run."""

    arms: Mapping[str, tuple[Pairing, ...]]

    def seen(self, key: str) -> Seen | None:
        return Seen(key, self.arms[key]) if self.arms.get(key) else None

    def to_record(self) -> dict[str, Any]:
        return {key: [asdict(one) for one in pairings] for key, pairings in self.arms.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Microscope:
        """Back from to_record. Raises TraceError for an arm that is none and for texts without a margin for each token."""
        if unknown := set(record) - set(ARMS):
            raise TraceError(f"The microscope is damaged: it has the arms {sorted(unknown)}, known are {', '.join(ARMS)}.")
        return cls({key: tuple(map(_pairing, pairings)) for key, pairings in record.items()})


def _pairing(record: Mapping[str, Any]) -> Pairing:
    texts = [Greedy(tuple(record[name]["tokens"]), tuple(record[name]["margins"])) for name in ("first", "second")]
    if any(len(text.tokens) != len(text.margins) or min(text.margins, default=0.0) < 0.0 for text in texts):
        raise TraceError("The microscope is damaged: a text has not one margin, 0 or more, for each of its tokens.")
    return Pairing(tuple(record["begins"]), *texts, {int(token): raw for token, raw in record["pieces"].items()})


@dataclass(frozen=True, slots=True)
class Seen:
    """What one arm shows over its prompts."""

    key: str
    pairings: tuple[Pairing, ...]

    @property
    def parted(self) -> tuple[Pairing, ...]:
        return tuple(one for one in self.pairings if one.place is not None)

    @property
    def all_margins(self) -> tuple[float, ...]:
        """Of the first text of every prompt, up to where the second one leaves it: the places at which they might have parted."""
        return tuple(margin for one in self.pairings for margin in one.first.margins[: one.shared + (one.place is not None)])

    @property
    def typical(self) -> float:
        """Median of these margins."""
        return median(self.all_margins)

    @property
    def there(self) -> float | None:
        """Median margin of the first text where they part."""
        return median(one.margins[0] for one in self.parted) if self.parted else None

    @property
    def largest(self) -> float | None:
        """The largest margin of the first text at which they parted."""
        return max((one.margins[0] for one in self.parted), default=None)

    @property
    def as_near(self) -> float | None:
        """Share of all margins that are no larger than the largest at which they parted."""
        edge = self.largest
        return None if edge is None else sum(margin <= edge for margin in self.all_margins) / len(self.all_margins)
