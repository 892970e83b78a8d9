"""Pairs known by name, and public ones to download. No torch here, so a page can list them before any model is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import ASSETS, load_toml


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A target and a draft that share one tokenizer."""

    name: str
    title: str
    target: str  # target, draft: folders, or names on the model hub
    draft: str
    is_shipped: bool  # whether the files come with the project; their hashes are then checked before they are read
    note: str
    heads: str | None = None  # folder of Medusa heads for the target, if there is one
    early_exit: str | None = None  # of an early exit
    eagle: str | None = None  # of an EAGLE head


_STORYBOOK = ASSETS / "models" / "storybook"
_FOLDERS = {"heads": "heads", "early_exit": "exit", "eagle": "eagle"}
_OWN = {kind: str(_STORYBOOK / folder) for kind, folder in _FOLDERS.items() if (_STORYBOOK / folder).is_dir()}


def _build_storybook_entry(name: str, title: str, draft: str, note: str) -> PairEntry:
    target, folder = str(_STORYBOOK / "target"), str(_STORYBOOK / draft)
    return PairEntry(name, title, target, folder, is_shipped=True, note=note, **_OWN)


_ENTRIES = (
    _build_storybook_entry(
        "storybook",
        "Storybook: children's books from 1870 to 1930",
        "distilled",
        "Target of 12 layers, width 256, vocabulary 4096; runs on two cores. The draft of 1 layer was distilled from the target.",
    ),
    _build_storybook_entry(
        "storybook-plain",
        "Storybook, plain draft",
        "draft",
        "The same target. The draft of 1 layer was trained on text alone; fewer of its tokens are accepted.",
    ),
)
PAIRS: dict[str, PairEntry] = {entry.name: entry for entry in _ENTRIES}

HASHES = "SHA256SUMS"

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
OVERHEAD = 1.2  # memory over the weights alone, for caches, distributions and the library: a rule of thumb


@dataclass(frozen=True, slots=True)
class PublicPair:
    """Target and draft on the model hub."""

    target: str
    draft: str
    family: str  # name of their common tokenizer
    millions: tuple[float, float]  # parameters of target and draft
    vocabulary: tuple[int, int]  # vocabulary sizes of target and draft
    license: str  # as the model cards name it
    kind: str = "causal"  # or encoder-decoder
    note: str = ""

    def compute_gigabytes(self, dtype: str) -> float:
        """Memory for weights and ordinary use, in GB (10**9 bytes)."""
        return sum(self.millions) * 1e6 * BYTES[dtype] * OVERHEAD / 1e9


def list_public_pairs() -> tuple[PublicPair, ...]:
    """The pairs of assets/public_pairs.toml."""
    return tuple(
        PublicPair(**one | {name: tuple(one[name]) for name in ("millions", "vocabulary")})
        for one in load_toml("public_pairs")["pair"]
    )
