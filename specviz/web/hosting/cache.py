"""What all visitors share: the recorded run, the weights, and results that depend on their arguments alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from specviz.records import ASSETS, read_file_or
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.hosting import warmup

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair

_tokenizers: WeakValueDictionary[str, Any] = WeakValueDictionary()
RECORDING = ASSETS / "traces" / "opening.json"


@lru_cache(maxsize=1)
def load_recording() -> Trace | None:
    """Load the recorded run that pages open with; None if the file is missing or damaged."""

    def read(text: str) -> Trace:
        trace = Trace.from_json(text)
        Settings.from_record(trace.settings)
        return trace

    return read_file_or(RECORDING, read, None)


@lru_cache(maxsize=3)
def load_weights(pair: str, device: str, dtype: str) -> LoadedPair:
    """Load both models, one copy for all visitors, which is never changed. Raises ModelError."""
    from specviz.models.pairs.loading import load_pair

    loaded = load_pair(pair, device, dtype)
    _tokenizers[pair] = loaded.tokenizer
    return loaded


def find_tokenizer(pair: str) -> Any:
    """The tokenizer of a pair that is in memory; None if it is not."""
    return _tokenizers.get(pair)


@lru_cache(maxsize=8)
def describe_pair(pair: str, device: str, dtype: str) -> dict[str, Any]:
    """Names, sizes, and the hashes of weights and tokenizer of a pair, as exports state them. Shared: do not change it."""
    warmup.require_libraries()
    from specviz.models.pairs.fingerprint import hash_pair

    loaded = load_weights(pair, device, dtype)
    return loaded.describe() | hash_pair(loaded)


class ResultCache:
    """Results by their arguments, the ``max_entries`` used last. They are shared, so nobody changes them.

    It holds no lock while a result is computed: two callers with the same key at the same moment both compute it.
    """

    def __init__(self, max_entries: int):
        self.max_entries = max_entries
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, Any] = OrderedDict()

    def get_or_compute(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result for a key, from ``compute()`` if it is not stored."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > self.max_entries:
                self._results.popitem(last=False)
        return result
