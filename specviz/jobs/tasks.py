"""Work in pieces. A piece is a pure function of its arguments, so it does not matter who does it, in which order, or how often."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from specviz.errors import ClusterError
from specviz.models.attachments.kinds import admit as admit_attached
from specviz.models.pairs.fingerprint import fingerprints
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.progress import ProgressCallback
from specviz.proposers.source_texts import allow_path as admit_text
from specviz.records import canonical_json, find_difference, versions
from specviz.settings import Settings

KEPT = 2  # pairs that a worker keeps in memory

P = TypeVar("P")


class Task(Protocol):
    """What all pieces of a job share. It travels to workers, so it is small. A piece has words for a sentence about it."""

    def begin(self) -> Callable[[Any, ProgressCallback], Any]:
        """Read what the pieces need. Returns what does one of them."""


class Executor(Protocol):
    """Workers outside this process, ``width`` of them."""

    width: int

    def do(self, task: Task, piece: Any, on_progress: ProgressCallback = ...) -> Any:
        """The result of one piece, for any thread. on_progress: called with the share that is done; what it raises stops the piece."""

    def done(self, task: Task, pieces: Sequence[P]) -> Iterator[tuple[P, Any]]:
        """Every piece with its result, each once, in any order."""


@dataclass(frozen=True, slots=True)
class PairRef:
    """A pair as a worker reads it: by name, and only if it is the one of this machine.

    models  what ``described`` said here, as JSON
    """

    name: str
    device: str
    dtype: str
    models: str

    @classmethod
    def of(cls, pair: LoadedPair, settings: Settings) -> PairRef:
        return cls(settings.pair, pair.target.device.type, settings.dtype, canonical_json(describe_models(pair)))

    def read(self) -> LoadedPair:
        """The pair. Raises ClusterError if it is another one, or other versions would run it."""
        return _read(self)


@lru_cache(maxsize=KEPT)
def _read(there: PairRef) -> LoadedPair:
    pair = load_pair(there.name, there.device, there.dtype)
    if other := find_difference(json.loads(there.models), json.loads(canonical_json(describe_models(pair)))):
        raise ClusterError(f"it has other models or versions than this machine: {other} there")
    return pair


def describe_models(pair: LoadedPair) -> dict[str, Any]:
    """The models and versions of this machine."""
    return {"models": pair.describe() | fingerprints(pair), "versions": versions()}


def allow_paths(settings: Settings) -> None:
    """Let this process read the folders and the file that settings of the command line name."""
    admit_attached(settings)
    if settings.text:
        admit_text(settings.text)
