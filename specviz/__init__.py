"""Exact speculative decoding on real models, shown step by step. Proposal is separate from authority.

``pair_of`` and ``load_pair`` make a pair of models, ``Settings`` says what fixes a run, ``run`` decodes and gives a ``Trace``.
They are imported when first asked for, so that ``import specviz`` needs no torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "Pair": "specviz.models.pairs.pair",
    "Settings": "specviz.settings",
    "Trace": "specviz.trace",
    "load_pair": "specviz.models.pairs.loading",
    "pair_of": "specviz.models.pairs.loading",
    "run": "specviz.decoding.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'specviz' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
