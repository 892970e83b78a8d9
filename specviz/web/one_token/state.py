"""What a browser says of the bars that were dragged. No torch, no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.web.one_token.link import read_state, write_distribution
from specviz.web.one_token.token import GRID


def shown(said: Any, state: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What the browser says of its bars, where that can be: nothing in it is trusted. Else ``state``."""
    if not isinstance(said, Mapping):
        return dict(state)
    query = {key: said[key] for key in ("preset", "from") if isinstance(said.get(key), str)}
    try:
        query |= {key: write_distribution(tuple(round(GRID * x) for x in said[key])) for key in ("p", "q") if said.get(key)}
    except (TypeError, ValueError, OverflowError):
        return dict(state)
    found, wrong = read_state(query, known)
    return dict(state) if wrong else found
