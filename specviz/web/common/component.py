"""The components of the pages on screen: registered once per process, given data, and heard through events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import streamlit as st

from specviz.figures.components import load_component


class Component:
    """A component of assets/components/. It is made when its page's module is imported.

    Args:
        name: Its folder, which is also part of the name that Streamlit registers it under.
    """

    def __init__(self, name: str):
        self._mount = st.components.v2.component(f"specviz_{name}", **cast("Any", load_component(name)))

    def draw(self, key: str, data: Mapping[str, Any], **on_event: Callable[[Any], None] | None) -> Mapping[str, Any]:
        """Draw the component with this data.

        Args:
            key: Identifies it within the session.
            data: What its script is given, JSON-ready.
            on_event: For each event or state value that it may report: a function that is called with the value before the page
                runs again, or None where the page only reads the value.

        Returns:
            The reported values by name; None for each that was not reported.
        """
        callbacks = {
            f"on_{event}_change": partial(_report, key, event, function) if function else _ignore
            for event, function in on_event.items()
        }
        return self._mount(key=key, data=data, **cast("Any", callbacks))


def read_reported(key: str, event: str) -> Any:
    """The value that a component reported for an event; None where there is none.

    A message can name a component that this session does not have: one of a page that was left, or that is not drawn yet.
    """
    reported = st.session_state.get(key)
    return reported.get(event) if isinstance(reported, Mapping) else None


def _report(key: str, event: str, function: Callable[[Any], None]) -> None:
    function(read_reported(key, event))


def _ignore() -> None:
    """Streamlit keeps a value only where a callback is registered for it."""
