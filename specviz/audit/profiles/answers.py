"""Reading what a server answered: any field may be missing, or of another type."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from specviz.errors import MAX_SHOWN, EndpointError

MAX_FACT_LENGTH = 4000  # characters of one fact about a server: of longer ones a digest is kept


def pick_fields(answer: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The fields of an object that are kept of it."""
    return {key: bound_value(answer[key]) for key in keys if key in answer}


def bound_value(value: Any) -> Any:
    """A fact as it is, or a digest of it where it is long."""
    try:
        text = json.dumps(value, sort_keys=True)
    except (RecursionError, ValueError):
        return "too deep to be read"
    return value if len(text) <= MAX_FACT_LENGTH else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def merge_objects(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one, level by level; the second wins."""
    if not isinstance(second, Mapping):
        raise TypeError(f"an object was expected, got {type(second).__name__}")
    both = dict(first)
    for key, value in second.items():
        inner = both.get(key)
        both[key] = merge_objects(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return both


def get_field(answer: Any, key: str, kind: type) -> Any:
    """A field of an answer. Raises EndpointError where it is missing or of another type."""
    if not isinstance(answer, dict) or not isinstance(answer.get(key), kind):
        raise EndpointError(f"The server answered without a field {key!r} that could be read ({format_value(answer)}).")
    return answer[key]


def are_token_ids(value: Any) -> TypeGuard[list[int]]:
    """Whether it is a list of ids."""
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def parse_count(value: Any) -> int | None:
    """A count of an answer; None for anything else."""
    return value if type(value) is int and value >= 0 else None


def sum_counts(counts: list[int | None]) -> int | None:
    """The sum; None where one is missing."""
    return None if None in counts or not counts else sum(one for one in counts if one is not None)


def format_value(value: Any) -> str:
    """What a server wrote, for a sentence: one line, bounded."""
    return json.dumps(value, default=str)[:MAX_SHOWN]
