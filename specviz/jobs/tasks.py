"""Tasks that run the same everywhere. A job is a pure function of its item, so where, in which order and how often it runs is free."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from specviz.errors import ClusterError
from specviz.models.attachments.eagle import EAGLES
from specviz.models.attachments.exits import EXITS
from specviz.models.attachments.heads import HEADS
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.progress import ProgressCallback
from specviz.proposers.source_texts import allow_path
from specviz.records import find_difference, format_canonical_json, list_versions
from specviz.settings import Settings

PAIRS_IN_MEMORY = 2  # pairs that a worker keeps loaded

Item = TypeVar("Item")


class Task(Protocol):
    """What the jobs of a run have in common. It is sent to workers, so it is small. ``str(item)`` names an item in messages."""

    def prepare(self) -> Callable[[Any, ProgressCallback], Any]:
        """Load what the jobs need. Returns the function that runs one item."""


class Executor(Protocol):
    """Workers outside this process, ``size`` of them."""

    size: int

    def run(self, task: Task, item: Any, on_progress: ProgressCallback = ...) -> Any:
        """Run a task on one item, from any thread. on_progress: called with the share done; what it raises cancels the job."""

    def run_all(self, task: Task, items: Sequence[Item]) -> Iterator[tuple[Item, Any]]:
        """Run a task on all items. Yields each item once, with its result, in any order."""


@dataclass(frozen=True, slots=True)
class PairRef:
    """A pair that a worker loads by name, and uses only if it equals the pair of this machine."""

    name: str
    device: str
    dtype: str
    models: str  # what ``describe_models`` returned here, as JSON

    @classmethod
    def from_pair(cls, pair: LoadedPair, settings: Settings) -> PairRef:
        return cls(settings.pair, pair.target.device.type, settings.dtype, format_canonical_json(describe_models(pair)))

    def load(self) -> LoadedPair:
        """Load the pair. Raises ClusterError if its weights, tokenizer or library versions differ from this machine's."""
        return _load(self)


@lru_cache(maxsize=PAIRS_IN_MEMORY)
def _load(ref: PairRef) -> LoadedPair:
    pair = load_pair(ref.name, ref.device, ref.dtype)
    if other := find_difference(json.loads(ref.models), json.loads(format_canonical_json(describe_models(pair)))):
        raise ClusterError(f"it has other models or versions than this machine: {other} there")
    return pair


def describe_models(pair: LoadedPair) -> dict[str, Any]:
    """The models and library versions of this machine, JSON-ready."""
    return {"models": pair.describe() | hash_pair(pair), "versions": list_versions()}


def allow_paths(settings: Settings) -> None:
    """Let this process read the folders and the file that settings from a command line name."""
    for kind in (HEADS, EXITS, EAGLES):
        if folder := getattr(settings, kind.name):
            kind.allow(folder)
    if settings.source_text:
        allow_path(settings.source_text)
