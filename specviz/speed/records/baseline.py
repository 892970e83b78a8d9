"""The baseline of a speed-up, where this project's target-only loop is not the fastest way that was measured. No torch."""

from __future__ import annotations

from dataclasses import dataclass

LOOP_TITLE = "this project’s target-only loop"


@dataclass(frozen=True, slots=True)
class Baseline:
    """A faster way to sample from the target alone than LOOP_TITLE.

    Attributes:
        way: What it is called in a sentence, such as "generate() of transformers".
        factor: Times as fast as LOOP_TITLE, above 1. Target-only times beside it are divided by it.
    """

    way: str
    factor: float

    def __post_init__(self) -> None:
        if not self.factor > 1.0:
            raise ValueError(f"a baseline is faster than {LOOP_TITLE}, got {self.factor} times")

    @property
    def in_words(self) -> str:
        """That target-only times are those of another way, as a sentence."""
        return f"Target-only times are those of {self.way}, measured {self.factor:.2f} times as fast as {LOOP_TITLE}."
