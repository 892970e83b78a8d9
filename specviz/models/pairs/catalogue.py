"""Pairs known by name. No torch here: a page can list them before any model is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import ASSETS


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A target and a draft that share one tokenizer.

    target, draft  folders, or names on the model hub
    heads, exit    folders of Medusa heads and of an early exit for the target, None where there are none
    shipped        whether the files come with the project, and are checked by hash before they are read
    rounded        whether the draft's weights are rounded to 8 bits once they are read
    """

    name: str
    title: str
    target: str
    draft: str
    shipped: bool
    note: str
    heads: str | None = None
    exit: str | None = None
    rounded: bool = False


_STORYBOOK = ASSETS / "models" / "storybook"
_HEADS, _EXIT = (str(place) if place.is_dir() else None for place in (_STORYBOOK / "heads", _STORYBOOK / "exit"))

PAIRS: dict[str, PairEntry] = {
    entry.name: entry
    for entry in (
        PairEntry(
            name="storybook",
            title="Storybook: children's books from 1870 to 1930",
            target=str(_STORYBOOK / "target"),
            draft=str(_STORYBOOK / "draft"),
            shipped=True,
            heads=_HEADS,
            exit=_EXIT,
            note="12 layers beside 1 layer, width 256, vocabulary 4096; runs on two cores.",
        ),
        PairEntry(
            name="storybook-distilled",
            title="Storybook, its draft taught by the target",
            target=str(_STORYBOOK / "target"),
            draft=str(_STORYBOOK / "distilled"),
            shipped=True,
            heads=_HEADS,
            exit=_EXIT,
            note="The same target; the draft went on to learn the target's own distributions, and draft tokens better.",
        ),
        PairEntry(
            name="storybook-8bit",
            title="Storybook, its taught draft in 8 bits",
            target=str(_STORYBOOK / "target"),
            draft=str(_STORYBOOK / "distilled"),
            shipped=True,
            rounded=True,
            heads=_HEADS,
            exit=_EXIT,
            note="The same target and the same taught draft, whose weights are rounded to 8 bits: as good draft tokens for less time.",
        ),
    )
}

HASHES = "SHA256SUMS"
