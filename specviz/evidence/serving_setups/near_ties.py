"""Near ties: two greedy texts of one prompt, the first place where they differ, and how close the two largest logits were there. No torch.

A greedy text follows the largest logit. Rounding moves logits by little, so two ways of serving one target agree until the two largest
logits are closer than that. From there on they write different texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

MARGIN_DIGITS = 6  # that a record keeps of a margin


@dataclass(frozen=True, slots=True)
class GreedyComparison:
    """Two ways to write a greedy text; the first is the reference. draft_tokens: whether the second has a draft."""

    key: str
    name: str
    first: str
    second: str
    draft_tokens: bool = False


COMPARISONS = {
    one.key: one
    for one in (
        GreedyComparison("bf16", "float32 and bfloat16", "float32", "bfloat16"),
        GreedyComparison("int8", "float32 and int8", "float32", "int8"),
        GreedyComparison(
            "bf16-blocks", "bfloat16 without and with draft", "bfloat16 without a draft", "bfloat16 with a draft", True
        ),
        GreedyComparison(
            "fp32-blocks", "float32 without and with draft", "float32 without a draft", "float32 with a draft", True
        ),
    )
}


@dataclass(frozen=True, slots=True)
class GreedyText:
    """One greedy text: its tokens, and the difference of the two largest logits before each, at least 0."""

    tokens: tuple[int, ...]
    margins: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.margins) or min(self.margins, default=0.0) < 0.0:
            raise ValueError("a greedy text has one margin, 0 or more, for each of its tokens")


def find_first_difference(one: GreedyText, other: GreedyText) -> int | None:
    """The first place with different tokens, from 0; None if there is none."""
    pairs = enumerate(zip(one.tokens, other.tokens, strict=False))
    return next((place for place, (a, b) in pairs if a != b), None)


@dataclass(frozen=True, slots=True)
class GreedyPair:
    """One prompt in one comparison. begins: the end of the prompt; pieces: id -> bytes as hex, of every token that it mentions."""

    begins: tuple[int, ...]
    first: GreedyText
    second: GreedyText
    pieces: Mapping[int, str]

    @property
    def place(self) -> int | None:
        return find_first_difference(self.first, self.second)

    @property
    def is_loop(self) -> bool:
        """Whether the first text ends in a loop: one piece of it three times or more, over a quarter of the text."""
        tokens = self.first.tokens
        enough = max(6, len(tokens) // 4)
        return any(
            tokens[-size * count :] == tokens[-size:] * count
            for size in range(1, len(tokens) // 3 + 1)
            if (count := max(3, -(-enough // size))) * size <= len(tokens)
        )

    @property
    def margins(self) -> tuple[float, float] | None:
        """Margins of both where they part."""
        return None if self.place is None else (self.first.margins[self.place], self.second.margins[self.place])

    @property
    def shared(self) -> int:
        """Tokens that both have in common from the beginning."""
        return len(self.first.tokens) if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class NearTies:
    """Every prompt in every comparison that could run, by the key of the comparison. Raises ValueError for other keys."""

    comparisons: Mapping[str, tuple[GreedyPair, ...]]

    def seen(self, key: str) -> NearTieSummary | None:
        return NearTieSummary(key, self.comparisons[key]) if self.comparisons.get(key) else None

    def __post_init__(self) -> None:
        if unknown := set(self.comparisons) - set(COMPARISONS):
            raise ValueError(f"the near-tie record has the arms {sorted(unknown)}, known are {', '.join(COMPARISONS)}")


@dataclass(frozen=True, slots=True)
class NearTieSummary:
    """What one comparison shows over its prompts. Margins are those of the first text."""

    key: str
    pairings: tuple[GreedyPair, ...]

    @property
    def differing(self) -> tuple[GreedyPair, ...]:
        return tuple(one for one in self.pairings if one.place is not None)

    @property
    def margins_before_difference(self) -> tuple[float, ...]:
        """Margins up to where the texts part: the places at which they might have parted."""
        return tuple(margin for one in self.pairings for margin in one.first.margins[: one.shared + (one.place is not None)])

    @property
    def median_margin(self) -> float:
        """Median of all margins."""
        return median(self.margins_before_difference)

    @property
    def median_margin_at_difference(self) -> float | None:
        """Median margin where the texts part."""
        return median(one.margins[0] for one in self.differing) if self.differing else None

    @property
    def largest_margin_at_difference(self) -> float | None:
        """The largest margin where texts part."""
        return max((one.margins[0] for one in self.differing), default=None)

    @property
    def share_as_close(self) -> float | None:
        """Share of all margins that are no larger than the largest one where texts part."""
        edge = self.largest_margin_at_difference
        return (
            None
            if edge is None
            else sum(margin <= edge for margin in self.margins_before_difference) / len(self.margins_before_difference)
        )
