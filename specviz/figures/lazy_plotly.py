"""Plotly, imported when the first figure is drawn. Records can be read and tables exported where it is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots
else:

    class LazyModule:
        """A module that is imported when something of it is first used."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, member: str) -> Any:
            return getattr(import_module(self._name), member)

    go = LazyModule("plotly.graph_objects")

    def make_subplots(*places: Any, **options: Any) -> Any:
        """As ``plotly.subplots.make_subplots``."""
        return import_module("plotly.subplots").make_subplots(*places, **options)


__all__ = ["go", "make_subplots"]
