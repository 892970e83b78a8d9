"""Every proposer by name. A new one is one file beside this one, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from specviz.errors import SettingsError
from specviz.models.base import LawSource
from specviz.models.loading import Pair
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.draft import DraftModel
from specviz.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What one request has opened. A proposer takes what it needs; every cache in here belongs to this request alone.

    target  the very object that will score the proposals
    """

    pair: Pair
    settings: Settings
    target: LawSource
    draft: LawSource


PROPOSERS: dict[str, Callable[[Request], Proposer]] = {
    "none": lambda request: Nothing(),
    "draft": lambda request: DraftModel(request.draft, request.settings.gamma) if request.settings.gamma else Nothing(),
}


def opened(pair: Pair, settings: Settings) -> tuple[LawSource, Proposer]:
    """Target and proposer of one request, caches empty. Raises SettingsError for a name that is not known."""
    target, draft = pair.open(settings)
    make = named("proposer", settings.proposer, PROPOSERS)
    return target, make(Request(pair, settings, target, draft))


def named(kind: str, name: str, table: dict[str, T]) -> T:
    """Look a name up. Raises SettingsError listing the names there are."""
    if name not in table:
        raise SettingsError(kind, name, f"one of {', '.join(table)}")
    return table[name]
