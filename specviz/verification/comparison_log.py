"""Reports of every comparison of a random number, to a listener.

``draw_many`` compares numbers with the cumulative sums of a distribution, acceptance tests with p / q. Both report it, so the values at
which a number changes a round are known even where no record shows them. Without a listener a report costs one attribute lookup.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from torch import Tensor

Comparison = TypeVar("Comparison", bool, Tensor)


class ComparisonListener(Protocol):
    """Receives the comparisons of one thread."""

    def on_draw(self, u: Tensor, cumulative: Tensor, tokens: Tensor) -> None:
        """Numbers u (..., n) drew the tokens (..., n) by the cumulative masses (..., V), which need not end at 1."""

    def on_comparison(self, u: float | Tensor, p: float | Tensor, q: float | Tensor, below: bool | Tensor) -> None:
        """A number u was compared with p / q and found below it, or not; numbers, or tensors of one shape."""


class _Thread(threading.local):
    listener: ComparisonListener | None = None


thread_state = _Thread()


@contextmanager
def listen_to_comparisons(listener: ComparisonListener) -> Iterator[None]:
    """Report every comparison of this thread to ``listener`` within the block."""
    before, thread_state.listener = thread_state.listener, listener
    try:
        yield
    finally:
        thread_state.listener = before


def report_comparison(below: Comparison, u: float | Tensor, p: float | Tensor, q: float | Tensor = 1.0) -> Comparison:
    """Report ``below``, whether u lies below p / q, and return it. Every acceptance test passes its result through here."""
    if thread_state.listener is not None:
        thread_state.listener.on_comparison(u, p, q, below)
    return below
