"""Pairs known by name. This file does not import torch, so a page can list them before any model is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import ASSETS


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A target and a draft that share one tokenizer.

    target, draft  folders, or names on the model hub
    heads, exit, eagle
                   folders of Medusa heads, of an early exit and of an EAGLE head for the target; None: there are none
    shipped        whether the files come with the project; their hashes are then checked before they are read
    rounded        whether the draft's weights are rounded to 8 bits after reading
    """

    name: str
    title: str
    target: str
    draft: str
    shipped: bool
    note: str
    heads: str | None = None
    exit: str | None = None
    eagle: str | None = None
    rounded: bool = False


_STORYBOOK = ASSETS / "models" / "storybook"
_OWN = {kind: str(_STORYBOOK / kind) for kind in ("heads", "exit", "eagle") if (_STORYBOOK / kind).is_dir()}


def _storybook(name: str, title: str, draft: str, note: str, rounded: bool = False) -> PairEntry:
    target, folder = str(_STORYBOOK / "target"), str(_STORYBOOK / draft)
    return PairEntry(name, title, target, folder, shipped=True, note=note, rounded=rounded, **_OWN)


_ENTRIES = (
    _storybook(
        "storybook",
        "Storybook: children's books from 1870 to 1930",
        "draft",
        "Target of 12 layers, draft of 1 layer, width 256, vocabulary 4096; runs on two cores.",
    ),
    _storybook(
        "storybook-distilled",
        "Storybook, draft distilled from the target",
        "distilled",
        "The same target. The draft was trained further on the target's own distributions; more of its tokens are accepted.",
    ),
    _storybook(
        "storybook-8bit",
        "Storybook, distilled draft in 8 bits",
        "distilled",
        "The same target and distilled draft, with the draft's weights rounded to 8 bits: about the same acceptance rate, less time.",
        rounded=True,
    ),
)
PAIRS: dict[str, PairEntry] = {entry.name: entry for entry in _ENTRIES}

HASHES = "SHA256SUMS"
