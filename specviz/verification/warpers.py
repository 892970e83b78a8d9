"""Warpers by name: logits processors that take part in ``warp``, after the temperature. No torch here.

A new warper is one file with ``@register_warper``. Top-k, top-p and min-p are switched on by a setting of their own, the others
by ``Settings.warpers``, which names them in the order in which they are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from specviz.errors import SettingsError
from specviz.registry import Registry
from specviz.settings import read_warpers

if TYPE_CHECKING:
    from torch import Tensor

Warper = Callable[["Tensor", float], "Tensor"]


@dataclass(frozen=True, slots=True)
class WarperEntry:
    """A registered warper."""

    name: str
    title: str  # the name for a person
    setting: str  # name of the setting that holds its number; '' if it is named in ``Settings.warpers``
    # (probs, value) -> probs: a pure function of distributions (..., V), float64, rows sum to 1, and of the warper's number (nan
    # where none is given). Its result has the same shape; rows need not sum to 1, but must have some mass
    apply: Warper


WARPERS: Registry[WarperEntry] = Registry("warper", "specviz.verification", "register_warper", "specviz.warpers")


def register_warper(name: str, *, title: str, setting: str = "") -> Callable[[Warper], Warper]:
    """Register a function of distributions and a number. The arguments are described at ``WarperEntry``."""
    return WARPERS.register(name, lambda apply: WarperEntry(name, title, setting, apply))


@lru_cache(maxsize=32)
def find_warpers(text: str) -> tuple[tuple[Warper, float], ...]:
    """The warpers that ``Settings.warpers`` names, each with its number.

    Raises SettingsError for an unknown name, and for a warper that has a setting of its own.
    """
    found = []
    for name, value in read_warpers(text):
        entry = WARPERS.find(name)
        if entry.setting:
            raise SettingsError("warpers", name, f"without {name}, which is the setting {entry.setting.replace('_', '-')}")
        found.append((entry.apply, value))
    return tuple(found)
