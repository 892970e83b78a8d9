"""What visitors share: the recorded run, the weights, and answers that are the same for all who ask the same. No run is here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import streamlit as st

from specviz.records import ASSETS, of_file
from specviz.settings import Settings
from specviz.trace import Trace

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair

_tokenizers: WeakValueDictionary[str, Any] = WeakValueDictionary()
RECORDING = ASSETS / "traces" / "opening.json"


@lru_cache(maxsize=1)
def recording() -> Trace | None:
    """The run that the page opens with; None where the file is missing or damaged."""

    def read(text: str) -> Trace:
        trace = Trace.from_json(text)
        Settings.from_record(trace.settings)
        return trace

    return of_file(RECORDING, read, None)


@st.cache_resource(max_entries=3, show_spinner=False)
def weights(pair: str, device: str, dtype: str) -> LoadedPair:
    """Both models, read-only, one copy for all visitors. Raises ModelError with a sentence."""
    from specviz.models.pairs.loading import load_pair

    found = load_pair(pair, device, dtype)
    _tokenizers[pair] = found.tokenizer
    return found


def tokenizer(pair: str) -> Any:
    """The tokenizer of a pair that was loaded and is still in memory; None where it is not."""
    return _tokenizers.get(pair)


@st.cache_data(max_entries=8, show_spinner=False)
def identity(pair: str, device: str, dtype: str) -> dict[str, Any]:
    """What an export says of a pair: names, sizes, and the hashes of weights and tokenizer."""
    from specviz.models.pairs.fingerprint import fingerprints

    found = weights(pair, device, dtype)
    return found.describe() | fingerprints(found)


class Answers:
    """What work found out that holds for everybody who asks the same: read-only records, the ``most`` that were used last.

    Nobody waits here for somebody else's work: two who ask at the same moment both find out.
    """

    def __init__(self, most: int):
        self.most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, question: Hashable, found: Callable[[], Any]) -> Any:
        """The answer to a question, from ``found()`` where it is not known."""
        with self._lock:
            if question in self._known:
                self._known.move_to_end(question)
                return self._known[question]
        answer = found()
        with self._lock:
            self._known[question] = answer
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return answer
