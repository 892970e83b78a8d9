"""Exact speculative decoding on real models, shown step by step. A bad draft model can only slow decoding down.

``Pair`` is two models: it decodes, traces, verifies and plans. ``Settings`` holds what fixes a run, ``Trace`` is its record. They
are imported on first use, so that ``import specviz`` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors, which py.typed allows
    from specviz.interface import Pair as Pair
    from specviz.settings import Settings as Settings
    from specviz.trace import Trace as Trace

__version__ = "0.2.0"

_HOMES = {
    "Pair": "specviz.interface",
    "Settings": "specviz.settings",
    "Trace": "specviz.trace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'specviz' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
