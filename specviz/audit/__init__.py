"""Audit a running server: collect samples from it, test them, and say how they differ.

``assert_lossless`` and ``audit_server`` are imported on first use, so that ``import specviz.audit`` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors
    from specviz.audit.assertions import NothingTestedError as NothingTestedError
    from specviz.audit.assertions import NotLosslessError as NotLosslessError
    from specviz.audit.assertions import TooFewSamplesError as TooFewSamplesError
    from specviz.audit.assertions import VerdictError as VerdictError
    from specviz.audit.assertions import assert_lossless as assert_lossless
    from specviz.audit.assertions import audit_server as audit_server

_HOMES = dict.fromkeys(
    ("assert_lossless", "audit_server", "VerdictError", "NotLosslessError", "TooFewSamplesError", "NothingTestedError"),
    "specviz.audit.assertions",
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'specviz.audit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
