"""The histogram that fills, on screen: of every page that shows samples of one decoder and needs nothing more of it."""

from __future__ import annotations

from specviz.web.common.component import Component

histogram = Component("exactness")
